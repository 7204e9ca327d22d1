"""What the last entries of a slice's log say: when they were written, what they ordered of tables.

What it promises: reads a bounded number of entries, back from the end, as far as not archived.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ashore.log.fold import Fold, PartitionState
from ashore.log.names import SliceName
from ashore.log.store.fold_cache import EntryNote
from ashore.log.tables import DELTA
from ashore.topics.open_job import OpenJob

RATE_BATCHES = 10  # a rate is the mean over this many batches
RATE_ENTRIES = 40  # and searched in this many entries


@dataclass(frozen=True, slots=True)
class EntryStatus:
    """An entry of the log."""

    number: int
    kind: str
    age_ms: int
    reason: str | None = None  # of a `commit`: why the log was closed


@dataclass(frozen=True, slots=True)
class TableStatus:
    """What a slice has put into a table, in partitions that the log still keeps in mind."""

    table: str
    partitions: int
    unsealed: int
    rows: int
    files: int
    watermark_ms: int | None
    rules: Mapping[str, str]  # which rows its topics give, by the log: keys of the job file
    # The last snapshot that the log has ordered; of a Delta table, the version it was made after.
    snapshot_id: int | None  # None, as the next: it is in no table format
    format: str | None = None  # iceberg | delta
    snapshot: EntryStatus | None = None  # the entry that ordered it; None too: not a recent one

    @property
    def last_snapshot(self) -> str:
        """Return the last snapshot or version, in words; empty: it is no table of a table format.

        A Delta version may be a later one, where other writers were first.
        """
        if self.snapshot_id is None:
            return ""
        if self.format == DELTA:
            return f"version {self.snapshot_id + 1} or later"
        return f"snapshot {self.snapshot_id}"


def read_recent(opened: OpenJob, name: SliceName, fold: Fold) -> Iterator[EntryNote]:
    """Yield the last entries, the newest first, as far as they are not archived."""
    batches = 0
    for number in range(fold.end, max(-1, fold.end - RATE_ENTRIES), -1):
        note = opened.entry_note(name, number)
        if note is None or batches > RATE_BATCHES:
            return
        yield note
        batches += note.fetched is not None


def entry_status(note: EntryNote, now_ms: int) -> EntryStatus:
    """Return what is shown of an entry."""
    return EntryStatus(note.number, note.kind, max(0, now_ms - note.written_ms), note.reason)


def rate_of(batches: Sequence[tuple[int, int]]) -> float | None:
    """Return records per second of `(time in ms, records)`, newest first; None: not known.

    The oldest batch only says when the next one began.
    """
    if len(batches) < 2 or batches[0][0] <= batches[-1][0]:
        return None
    records = sum(fetched for _, fetched in batches[:-1])
    return records * 1000 / (batches[0][0] - batches[-1][0])


def table_statuses(fold: Fold, notes: Sequence[EntryNote], now_ms: int) -> tuple[TableStatus, ...]:
    """Return what a slice has put into each table. `notes`: of the last entries, newest first."""
    by_table: dict[str, list[PartitionState]] = {}
    for state in fold.partitions.values():
        by_table.setdefault(state.table, []).append(state)
    ordered: dict[str, EntryStatus] = {}
    for note in reversed(notes):
        ordered |= dict.fromkeys(note.commits, entry_status(note, now_ms))
    return tuple(
        TableStatus(
            table=table,
            partitions=len(states),
            unsealed=sum(1 for state in states if state.sealed_rows != state.rows),
            rows=sum(state.rows for state in states),
            files=sum(state.files for state in states),
            watermark_ms=fold.watermarks.get(table),
            rules=dict(fold.tables[table].rules) if table in fold.tables else {},
            snapshot_id=fold.commits[table].snapshot_id if table in fold.commits else None,
            format=fold.commits[table].format if table in fold.commits else None,
            snapshot=ordered.get(table),
        )
        for table, states in sorted(by_table.items())
    )
