"""The time of a batch.

What it is: `BatchTime`, fixed when a batch is planned, and recorded.
What it promises: a batch that is written a second time, by any process at any time, is filed the
same way, since its writers have no other source of time.
"""

from dataclasses import dataclass

from ashore.base import codec


@codec.inlined
@dataclass(frozen=True, slots=True)
class BatchTime:
    """What lateness is judged by, and where rows without a time of their own go."""

    now_ms: int  # the driver's clock, never below the log's last
    watermarks: tuple[tuple[str, int], ...] = ()  # table, ms; none of tables that have none yet

    def watermark_ms(self, table: str) -> int | None:
        """Return the watermark of a table; None: it has none."""
        return dict(self.watermarks).get(table)
