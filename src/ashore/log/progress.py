"""The progress of the slices and queries of a job, as its process reports it.

What it is: `Progress`, which the loops report to, and the values that it takes: steps, batches,
retired partitions, queries, which are shown; and measures, which are counted for metrics and never
shown, each a frozen value as in `events`, which sends them.
What it promises: what is counted of a batch is what its entry says, so that counters and log agree;
it is reported once, when the entry is in the log. What is cumulative says so.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Protocol

from ashore.base import codec
from ashore.log.entries import Prepare
from ashore.log.files import Role
from ashore.log.fold import Fold
from ashore.log.plan_commit import MoveOutcome, Outcomes
from ashore.log.tables import DEAD_SUFFIX, LATE_SUFFIX


@dataclass(frozen=True, slots=True)
class TableCounts:
    """What a batch did for one table, or topic: records, files and bytes of one outcome."""

    table: str
    outcome: str  # landed | late | dead | filtered | dropped | sent
    records: int
    files: int
    size_bytes: int  # of the files


@dataclass(frozen=True, slots=True)
class BatchCounted:
    """A batch is in the log: the outcomes of its records. For metrics, not shown.

    `tables` has `table`, `outcome`, `records`, `files` and their `size_bytes`; `counters` are those
    of the [log](counters.md); `fetched_bytes`, keys and values as read; `snapshots`, the tables
    that get a snapshot or version.
    """

    kind: ClassVar[str] = "batch_counted"
    slice: str
    tables: tuple[TableCounts, ...]
    counters: tuple[tuple[str, int], ...]
    fetched_bytes: int
    snapshots: tuple[str, ...] = codec.added(())


@dataclass(frozen=True, slots=True)
class FilesMoved:
    """The moves of an entry ended: how many files by outcome. For metrics, not shown.

    `prepared` = `moved` + `already_moved` + `lost` + `conflict` + `pending`. The lake did not
    answer for `pending` files: they are prepared again after the next `open`.
    """

    kind: ClassVar[str] = "files_moved"
    slice: str
    prepared: int
    moved: int
    already_moved: int
    lost: int
    conflict: int
    pending: int


@dataclass(frozen=True, slots=True)
class SliceMeasured:
    """Progress of a slice, after each look at Kafka and each batch. For metrics, not shown.

    `lag` is the number of offsets that wait, none for a query; `deferred`, actions by kind;
    `newest_ms`, the highest event time that landed; `complete_ms`, the last time at which
    everything in Kafka was known to have landed.
    """

    kind: ClassVar[str] = "slice_measured"
    slice: str
    epoch: int
    lag: int | None
    deferred: tuple[tuple[str, int], ...]
    newest_ms: int | None
    complete_ms: int | None


@dataclass(frozen=True, slots=True)
class CallsCounted:
    """Calls of the job process to the lake by kind and result since its start; not shown.

    `hanging` is the number of abandoned calls that have not returned. Tasks are not counted.
    """

    kind: ClassVar[str] = "calls_counted"
    calls: tuple[tuple[str, str, int], ...]
    hanging: int


@dataclass(frozen=True, slots=True)
class Retrying:
    """A slice failed and retries in `wait_ms`; not shown."""

    kind: ClassVar[str] = "retrying"
    slice: str
    wait_ms: int


@dataclass(frozen=True, slots=True)
class CheckpointCleaned:
    """The checkpoint of a query was looked through for what no kept batch refers to; not shown.

    `files` and `size_bytes` were deleted; `left_alone` is how many state stores and operators keep
    all that they have, as it could not be understood. Not sent where all three are 0.
    """

    kind: ClassVar[str] = "checkpoint_cleaned"
    slice: str
    files: int
    size_bytes: int
    left_alone: int


@dataclass(frozen=True, slots=True)
class FilesCompacted:
    """A running job has put small files of a table together. For metrics, not shown.

    `files` of `size_bytes` were replaced by `written` files.
    """

    kind: ClassVar[str] = "files_compacted"
    slice: str
    table: str
    files: int
    size_bytes: int
    written: int


Measure = (
    BatchCounted
    | FilesMoved
    | SliceMeasured
    | CallsCounted
    | Retrying
    | CheckpointCleaned
    | FilesCompacted
)
MEASURES: tuple[type[Measure], ...] = (
    *(BatchCounted, FilesMoved, SliceMeasured, CallsCounted),
    *(Retrying, CheckpointCleaned, FilesCompacted),
)


STOPPED = "stopped: "  # the message of a worker that has stopped begins so; the reason follows


class Step(StrEnum):
    """What a slice is at."""

    OPEN = "open"
    PLAN = "plan"
    WRITE = "write"
    PREPARE = "prepare"
    MOVE = "move"
    SEAL = "seal"
    RETIRE = "retire"
    COMPACT = "compact"
    IDLE = "idle"


@dataclass(frozen=True, slots=True)
class BatchLanded:
    """A batch that has become readable."""

    batch: int  # its number within the slice
    entry: int  # of the log, that made it count
    rows: int
    files: int
    lag: int  # offsets still to read
    tables: tuple[str, ...] = ()  # that its files are of; the topic, where a query writes one


@dataclass(frozen=True, slots=True)
class PartitionsRetired:
    """Table partitions that a job has dropped because they are old."""

    entry: int  # of the log, that says so
    partitions: int
    files: int  # that were deleted
    tables: tuple[str, ...]


NAMES_MAX = 20


@dataclass(frozen=True, slots=True)
class TablePartitions:
    """Partitions of tables: how many, and the first ones as `database.table/day=2026-11-27`."""

    count: int
    names: tuple[str, ...]

    @classmethod
    def of(cls, partitions: Iterable[tuple[str, str]]) -> "TablePartitions":
        """Return those of tables and partitions."""
        found = sorted({f"{table}/{partition}" for table, partition in partitions})
        return cls(len(found), tuple(found[:NAMES_MAX]))


@dataclass(frozen=True, slots=True)
class QueryProgress:
    """Where a query is after a batch, by Spark; of all its operators with state together."""

    batch: int  # Spark's number
    watermark_ms: int | None  # None: it has none
    state_rows: int | None  # None: Spark does not count them
    state_bytes: int  # of memory and of files that are whole
    commit_ms: int  # how long it took to commit the state of the batch
    dropped: int  # rows that were left out as too late, since the query was started
    held_by: str | None = codec.added(None)  # the view whose silence holds the watermark back
    held_since_ms: int | None = codec.added(None)  # when that brought its last record
    lag: int | None = codec.added(None)  # offsets that the batch left behind, when it was planned
    behind: str | None = codec.added(None)  # TOPIC/PARTITION that the others are read in step with
    read: int | None = codec.added(None)  # offsets that it has read since it was started


class StateWork(StrEnum):
    """What a state process does with stores."""

    COUNT = "count"
    WRITE = "write"
    COMPARE = "compare"
    SAMPLE = "sample"
    LOAD = "load"
    READ = "read"
    REPLAY = "replay"


class Progress(Protocol):
    """Takes what the loop does, for displays and metrics. Must not raise and not block."""

    def step(self, slice_name: str, step: Step) -> None:
        """Take the step that begins."""
        ...

    def landed(self, slice_name: str, batch: BatchLanded) -> None:
        """Take a batch that is readable."""
        ...

    def retired(self, slice_name: str, retired: PartitionsRetired) -> None:
        """Take old partitions that are dropped."""
        ...

    def sealed(self, slice_name: str, entry: int, sealed: TablePartitions) -> None:
        """Take the partitions that an entry seals."""
        ...

    def registered(self, slice_name: str, registered: TablePartitions) -> None:
        """Take the partitions that the catalog has now."""
        ...

    def recovered(self, slice_name: str, after_ms: int, tries: int) -> None:
        """Take the recovery of a worker, with the number of failed tries and their duration."""
        ...

    def warn(self, slice_name: str, message: str) -> None:
        """Take a failure that the loop retries."""
        ...

    def note(self, slice_name: str, message: str) -> None:
        """Take a message that is no failure."""
        ...

    def query(self, slice_name: str, progress: QueryProgress) -> None:
        """Take where a query is after a batch."""
        ...

    def stopped(self, slice_name: str, message: str) -> None:
        """Take the reason of a worker that has stopped."""
        ...

    def measured(self, measure: Measure) -> None:
        """Take what is only counted."""
        ...


class Quiet:
    """Drops what it takes, but reports a stopped worker as a warning."""

    def step(self, slice_name: str, step: Step) -> None:
        """Drop it."""

    def landed(self, slice_name: str, batch: BatchLanded) -> None:
        """Drop it."""

    def retired(self, slice_name: str, retired: PartitionsRetired) -> None:
        """Drop it."""

    def sealed(self, slice_name: str, entry: int, sealed: TablePartitions) -> None:
        """Drop it."""

    def registered(self, slice_name: str, registered: TablePartitions) -> None:
        """Drop it."""

    def recovered(self, slice_name: str, after_ms: int, tries: int) -> None:
        """Drop it."""

    def warn(self, slice_name: str, message: str) -> None:
        """Drop it."""

    def note(self, slice_name: str, message: str) -> None:
        """Drop it."""

    def query(self, slice_name: str, progress: QueryProgress) -> None:
        """Drop it."""

    def stopped(self, slice_name: str, message: str) -> None:
        """Report it as a warning."""
        self.warn(slice_name, f"{STOPPED}{message}")

    def measured(self, measure: Measure) -> None:
        """Drop it."""


_OUTCOMES = {Role.MAIN: "landed", Role.LATE: "late", Role.DEAD: "dead"}
_SUFFIXES = {Role.MAIN: "", Role.LATE: LATE_SUFFIX, Role.DEAD: DEAD_SUFFIX}


def count_batch(slice_name: str, body: Prepare) -> BatchCounted:
    """Return what became of the records of a batch, by table and outcome."""
    tables = tuple(sorted(_count_files(body), key=lambda each: (each.table, each.outcome)))
    fetched_bytes = sum(read.size_bytes for read in body.shards)
    counts = (*tables, *_count_left_out(body))
    snapshots = tuple(each.table for each in body.commits)
    return BatchCounted(slice_name, counts, body.counters, fetched_bytes, snapshots)


def _count_files(body: Prepare) -> Iterator[TableCounts]:
    records, files, sizes = (Counter[tuple[str, str]]() for _ in range(3))
    for file in body.files:
        target = body.targets[file.target]
        # The table that the records are for, so that the outcomes of a table can be compared.
        main = target.table.removesuffix(_SUFFIXES[target.role])
        key = main, _OUTCOMES[target.role]
        records[key] += file.rows
        files[key] += 1
        sizes[key] += file.size_bytes
    for (table, outcome), count in files.items():
        key = table, outcome
        yield TableCounts(table, outcome, records[key], count, sizes[key])


def _count_left_out(body: Prepare) -> Iterator[TableCounts]:
    """Yield the records that no file has: the batch was to leave them out."""
    filtered, dropped = defaultdict[str, int](int), defaultdict[str, int](int)
    for read in body.shards:
        filtered[read.table] += read.filtered
        dropped[read.table] += read.dropped
    for outcome, counts in (("dropped", dropped), ("filtered", filtered)):
        for table, count in sorted(counts.items()):
            if count:
                yield TableCounts(table, outcome, count, 0, 0)


def count_sent(counted: BatchCounted, topic: str, rows: int) -> BatchCounted:
    """Return a batch of a query whose rows went into a topic."""
    sent = TableCounts(topic, "sent", rows, 0, 0)
    return BatchCounted(counted.slice, (sent,), counted.counters, counted.fetched_bytes)


def count_moves(slice_name: str, outcomes: Outcomes) -> FilesMoved:
    """Return how the moves of an entry ended."""
    return FilesMoved(
        slice_name,
        prepared=sum(outcomes.values()),
        moved=outcomes.get(MoveOutcome.MOVED, 0),
        already_moved=outcomes.get(MoveOutcome.ALREADY_MOVED, 0),
        lost=outcomes.get(MoveOutcome.LOST, 0),
        conflict=outcomes.get(MoveOutcome.CONFLICT, 0),
        pending=outcomes.get(MoveOutcome.AGAIN, 0),
    )


def measure_slice(
    slice_name: str, fold: Fold, lag: int | None, complete_ms: int | None
) -> SliceMeasured:
    """Return where a slice stands. `lag`, `complete_ms`: see SliceMeasured."""
    deferred = Counter(str(each.action) for each in fold.deferred.values())
    events = [state.event_max_ms for state in fold.current().values()]
    newest_ms = max((each for each in events if each is not None), default=None)
    return SliceMeasured(
        slice_name, fold.epoch, lag, tuple(sorted(deferred.items())), newest_ms, complete_ms
    )
