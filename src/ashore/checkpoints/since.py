"""What a query has landed since a savepoint, and what is to become of it.

What it is: values, which a command loads before its first word.
What it promises: frozen.
What it must not know: how a query goes on from a savepoint.
"""

from dataclasses import dataclass
from enum import StrEnum


class OutputSince(StrEnum):
    """What becomes of the output that was landed since a savepoint."""

    ROLL_BACK = "roll-back"  # its files go aside, and its offsets are read again
    CATCH_UP = "catch-up"  # it stays, and its batches run again for the state alone


@dataclass(frozen=True, slots=True)
class LandedSince:
    """The output of a query since a savepoint."""

    batch: int  # the last one of the savepoint
    last: int  # the last one of the log
    rows: int
    files: int

    @property
    def batches(self) -> int:
        """How many there are."""
        return self.last - self.batch
