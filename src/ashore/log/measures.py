"""What a job process reports for metrics: events that are counted, and never shown.

What it is: one frozen value an event, as in `events`, which sends them.
What it promises: counts of a batch are reported once, when its entry is in the log; what is
cumulative says so.
"""

from dataclasses import dataclass
from typing import ClassVar


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
    """An entry counts that holds a batch: what became of its records; for metrics, not shown.

    `tables` has `table`, `outcome`, `records`, `files` and `size_bytes` of these files; `counters`
    are those of the [log](counters.md); `fetched_bytes`, keys and values as they were read.
    """

    kind: ClassVar[str] = "batch_counted"
    slice: str
    tables: tuple[TableCounts, ...]
    counters: tuple[tuple[str, int], ...]
    fetched_bytes: int


@dataclass(frozen=True, slots=True)
class FilesMoved:
    """The moves of an entry ended, well or not: how each file ended; for metrics, not shown.

    `prepared` = `moved` + `already_moved` + `lost` + `conflict` + `pending`. Files that are
    `pending` were not moved, for the lake gave no answer: they are prepared again after the next
    `open`.
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
    """Where a slice stands, after each look at Kafka and after each batch; for metrics, not shown.

    `lag` is how many offsets wait, none of a query; `deferred`, actions that are still to be done,
    by kind; `newest_ms`, the highest event time that landed; `complete_ms`, the last time of which
    is known that all Kafka had then has landed.
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
    """Calls of the job process to the lake by kind and result, all since its start; not shown.

    `hanging` is how many were given up and have not come back. Calls of tasks are not counted.
    """

    kind: ClassVar[str] = "calls_counted"
    calls: tuple[tuple[str, str, int], ...]
    hanging: int


@dataclass(frozen=True, slots=True)
class Retrying:
    """A slice failed in a way that may pass, and waits `wait_ms` for its next try; not shown."""

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


Measure = BatchCounted | FilesMoved | SliceMeasured | CallsCounted | Retrying | CheckpointCleaned
MEASURES: tuple[type[Measure], ...] = (
    *(BatchCounted, FilesMoved, SliceMeasured, CallsCounted),
    *(Retrying, CheckpointCleaned),
)
