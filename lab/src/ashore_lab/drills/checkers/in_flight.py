"""What was in flight at a moment: what a fault that strikes now could lose, or land twice.

What it is: `InFlight`, counted from the log, the staged files and what was produced.
What it promises: reads only. What older processes have left lying about is not in flight.
"""

from dataclasses import dataclass

from ashore.errors import AshoreError
from ashore.log.names import SliceName
from ashore.log.plan_commit import places_of
from ashore.log.store.cleaner import find_staged
from ashore.log.store.reader import read_log
from ashore.storage.base import Storage
from ashore_lab.drills.verdict import Flight

UNKNOWN = Flight("unknown: the lake could not be read", is_proof=False)


@dataclass(frozen=True, slots=True)
class InFlight:
    """What is begun and not done."""

    unread: int = 0  # records that were produced, and are in no entry
    staged: int = 0  # files of the batch under way that are in no entry
    pending: int = 0  # files of the unclosed entry that are not moved
    files: int = 0  # of the unclosed entry

    @property
    def is_half_done(self) -> bool:
        """Whether a process that ends now leaves work that its successor must not do twice."""
        return self.staged > 0 or self.pending > 0

    @property
    def is_backlog(self) -> bool:
        """Whether there is anything to do at all."""
        return self.is_half_done or self.unread > 0

    def __str__(self) -> str:
        parts = []
        if self.staged:
            parts.append(f"{self.staged:,} files written and in no entry")
        if self.pending:
            whole = f"{self.files:,} files of a batch that is prepared"
            parts.append(f"{self.pending:,} of {whole} are not moved")
        if self.unread:
            parts.append(f"{self.unread:,} records to read")
        return ", ".join(parts) or "nothing"


def look(storage: Storage, name: SliceName, table: str, produced: int) -> InFlight:
    """Return what is in flight on a lake now. Raises LogDamaged, StorageError.

    `produced`: records, so far.
    """
    fold = read_log(storage, name)
    places = places_of(name, fold.unclosed) if fold.unclosed else []
    named = {place.pending for place in places}
    return InFlight(
        unread=max(0, produced - sum(each.landed + each.dead for each in fold.shards.values())),
        staged=sum(
            file.path not in named and file.epoch == fold.epoch and file.batch >= fold.next_batch
            for file in find_staged(storage, name, [table])
        ),
        pending=sum(storage.stat(path) is not None for path in named),
        files=len(places),
    )


def judge_flight(
    lake: tuple[Storage, SliceName, str], produced: int, *, must_be_half_done: bool
) -> Flight:
    """Return what is in flight, and whether a fault that strikes now proves anything.

    Arguments:
        lake: its storage, the slice and the table.
        produced: records, so far.
        must_be_half_done: a backlog is not enough: the fault is about what is begun.

    """
    try:
        found = look(*lake, produced)
    except AshoreError:
        return UNKNOWN
    return Flight(str(found), found.is_half_done if must_be_half_done else found.is_backlog)
