"""The progress of the slices and queries of a job, as its process reports it.

What it is: `Progress`, which the loops report to, and the values that it takes: steps, batches,
retired partitions, queries.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from ashore.base import codec
from ashore.log.measures import Measure

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
    state_rows: int
    state_bytes: int  # of memory and of files that are whole
    commit_ms: int  # how long it took to commit the state of the batch
    dropped: int  # rows that were left out as too late, since the query was started
    held_by: str | None = codec.added(None)  # the view whose silence holds the watermark back
    held_since_ms: int | None = codec.added(None)  # when that brought its last record
    lag: int | None = codec.added(None)  # offsets that the batch left behind, when it was planned


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
