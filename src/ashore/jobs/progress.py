"""Where slices and queries of a job are, as the events and the heartbeat of its process tell it.

What it is: a step, and what has come of a batch, of a look for old partitions, of a query.
What it must not know: who is told.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from ashore.protocol import codec

STOPPED = "stopped: "  # the message of a worker that goes on no more begins so; then it says why


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
    """Where a query is after a batch, as Spark tells. Of all its operators with state together."""

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
