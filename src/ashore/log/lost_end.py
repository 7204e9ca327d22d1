"""What writers have left in tables, compared with their log: whether the log has lost its end.

What it is: `Trace`, a name in a table that only a writer of the slice makes, and `find_later`.
What it promises: pure. A writer appends its `open` before it stages anything, and a `prepare`
before any file of it is final. So a trace that was there before the log was read, and that the log
knows nothing of, proves that entries are gone. Traces that are absent prove nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from ashore.log.fold import Fold

NO_BATCH = -1  # of a trace that says nothing of batches


@dataclass(frozen=True, slots=True)
class Trace:
    """A name in a table, and what the log had when it was made."""

    path: str
    epoch: int  # this one had opened
    batch: int = NO_BATCH  # this one, and all before it, had been prepared

    def __str__(self) -> str:
        """Return it in words."""
        batch = f", batch {self.batch}" if self.batch != NO_BATCH else ""
        return f"{self.path} (epoch {self.epoch}{batch})"


class LogEnd(NamedTuple):
    """How far a log is."""

    entry: int = -1  # its last one
    epoch: int = 0  # the highest that has opened
    next_batch: int = 0

    @classmethod
    def of(cls, fold: Fold) -> "LogEnd":
        """Return how far the log of a fold is."""
        return cls(fold.end, fold.epoch, fold.next_batch)


def find_later(end: LogEnd, traces: Iterable[Trace]) -> list[Trace]:
    """Return the traces of entries that the log does not have, the latest first.

    Requires: the traces were looked for before the log was read.
    """
    later = [each for each in traces if is_later(end, each)]
    return sorted(later, key=lambda each: (-each.epoch, -each.batch, each.path))


def is_later(end: LogEnd, trace: Trace) -> bool:
    """Return whether a trace is of an entry that the log does not have."""
    return trace.epoch > end.epoch or trace.batch >= end.next_batch


def describe_loss(end: LogEnd, later: list[Trace]) -> str:
    """Return in words how far the log is, and what is later. Requires: `later` is not empty."""
    if end.entry < 0:
        log = "there is no log"
    else:
        log = f"the log ends at entry {end.entry}, epoch {end.epoch}, before batch {end.next_batch}"
    shown = "; ".join(str(each) for each in later[:3])
    more = f"; and {len(later) - 3} more" if len(later) > 3 else ""
    return f"{log}, but tables of this job have files that were written later: {shown}{more}"
