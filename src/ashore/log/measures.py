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
    """A batch is in the log: the outcomes of its records. For metrics, not shown.

    `tables` has `table`, `outcome`, `records`, `files` and their `size_bytes`; `counters` are those
    of the [log](counters.md); `fetched_bytes`, keys and values as read.
    """

    kind: ClassVar[str] = "batch_counted"
    slice: str
    tables: tuple[TableCounts, ...]
    counters: tuple[tuple[str, int], ...]
    fetched_bytes: int


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


Measure = BatchCounted | FilesMoved | SliceMeasured | CallsCounted | Retrying | CheckpointCleaned
MEASURES: tuple[type[Measure], ...] = (
    *(BatchCounted, FilesMoved, SliceMeasured, CallsCounted),
    *(Retrying, CheckpointCleaned),
)
