"""What a job process is asked beside its job file.

What it is: values that cross from a command to the process that it starts, or that runs, as JSON.
What it promises: pure; `read_request(SqlRequest, write_request(request)) == request`.
"""

import json
from dataclasses import dataclass
from typing import TypeVar

from ashore.base import codec
from ashore.base.codec import Malformed
from ashore.errors import NotDone, fail
from ashore.plans.change.rewriting import StateRewrite

R = TypeVar("R")

TAKE_SAVEPOINT = "take a savepoint"  # what a job process is asked with a SavepointRequest


@dataclass(frozen=True, slots=True)
class OffsetsOfTopic:
    """Offsets of a topic, or of one of its partitions, that a query is to read."""

    topic: str
    partition: int | None  # None: each of its partitions
    start: int
    end: int | None  # the first that is not read; None: up to the end


@dataclass(frozen=True, slots=True)
class SqlRequest:
    """A SELECT over a job's topics, which runs once.

    Arguments:
        sql: the statement.
        last: how many of the newest offsets of a topic it reads, of all partitions together.
        offsets: what it reads instead, for the topics that are named here.
        limit: how many rows are returned at most.

    """

    sql: str
    last: int
    offsets: tuple[OffsetsOfTopic, ...]
    limit: int


@dataclass(frozen=True, slots=True)
class CasesRequest:
    """Files of test cases that are to be run."""

    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Outline:
    """What Spark compares with a query before it starts one, of the checkpoint of a slice.

    `path`: a directory of this machine, which no other process uses; see `copy_outline`.
    """

    slice: str
    path: str


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """Queries of a job file are to be planned, and compared with state that is there.

    The process then rewrites states for them: a `MigrateRequest` a line, until an empty one.
    """

    outlines: tuple[Outline, ...]


@dataclass(frozen=True, slots=True)
class SparkRequest:
    """The Spark that a verb of `ashore checkpoint` runs on: its master, and its settings."""

    master: str
    conf: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class CheckpointAddress:
    """Where a checkpoint is, and how its storage is reached; see `LakeAddress`."""

    uri: str
    options: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class RescaleRequest:
    """State that is to be rewritten into another number of partitions.

    Arguments:
        spark: that does it.
        source: the checkpoint to read.
        target: the one to write: all but its state is there.
        batch: whose state it is, in both.
        partitions: of the target.
        state_format: of both: `checkpointFormatVersion`.

    """

    spark: SparkRequest
    source: CheckpointAddress
    target: CheckpointAddress
    batch: int
    partitions: int
    state_format: int


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """State that is to be loaded, each store of it.

    Arguments:
        spark: that does it.
        checkpoint: that is read.
        batch: whose state it is.
        state_format: of the checkpoint: `checkpointFormatVersion`.

    """

    spark: SparkRequest
    checkpoint: CheckpointAddress
    batch: int
    state_format: int


@dataclass(frozen=True, slots=True)
class MigrateRequest:
    """State that is to be rewritten for other SQL.

    Arguments:
        source: the checkpoint to read.
        target: the one to write: offsets, sources and copies of versions are there; operators, the
            schemas of their state, and the state are not. It gets as many partitions as its
            offsets say.
        batch: whose state it is, in both.
        state_format: of both: `checkpointFormatVersion`.
        query: the table or topic that the SQL which continues fills.
        rewrite: what the state is made of.
        log: the slice whose log says where a replay begins; empty: nothing is filled of one.

    """

    source: CheckpointAddress
    target: CheckpointAddress
    batch: int
    state_format: int
    query: str
    rewrite: StateRewrite
    log: str = codec.added("")


@dataclass(frozen=True, slots=True)
class StateTable:
    """State of an operator as a table, and how Spark reads it.

    Arguments:
        operator: its number.
        operator_name: Spark's name of it.
        name: of the table: `default`, a side of a join, a store of one, or a variable.
        options: of Spark's reader, beside checkpoint, batch and operator.
        keys: what the columns of keys are called; none: as Spark does.
        values: what the columns of values are called; none: as Spark does.
        is_named: whether the names are those of the SQL.
        is_bag: whether a key may have several rows.

    """

    operator: int
    operator_name: str
    name: str
    options: tuple[tuple[str, str], ...]
    keys: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    is_named: bool = False
    is_bag: bool = False


@dataclass(frozen=True, slots=True)
class StateBatch:
    """State at the end of a batch.

    Arguments:
        checkpoint: a copy that no other process uses.
        batch: that is done.
        place: what it is a copy of, for messages.

    """

    checkpoint: CheckpointAddress
    batch: int
    place: str


@dataclass(frozen=True, slots=True)
class RowsRequest:
    """State that is to be shown, or two batches of it that are to be compared.

    Arguments:
        spark: that does it.
        state_format: of the checkpoint: `checkpointFormatVersion`.
        now: the state that is shown.
        before: that of an earlier batch; None: rows are shown, and nothing is compared.
        tables: to read.
        partition: whose rows are returned; None: of all.
        keys: names of columns of keys, and the value that each has to have, as text; None: NULL.
        limit: how many rows of each table are sent, or written; None: all.
        to: a file on this machine that is written instead; None: rows are sent.

    """

    spark: SparkRequest
    state_format: int
    now: StateBatch
    before: StateBatch | None
    tables: tuple[StateTable, ...]
    partition: int | None
    keys: tuple[tuple[str, str | None], ...]
    limit: int | None
    to: str | None


@dataclass(frozen=True, slots=True)
class StopRequest:
    """A job is to stop in order. `finishes`: the batch under way is never cancelled."""

    finishes: bool


@dataclass(frozen=True, slots=True)
class LastEntry:
    """The last entry of a slice's log, as its writer left it."""

    slice: str
    entry: int


@dataclass(frozen=True, slots=True)
class StopDone:
    """A job has stopped: the batch under way is over, and its logs are closed."""

    logs: tuple[LastEntry, ...]  # that were open


@dataclass(frozen=True, slots=True)
class SavepointRequest:
    """Take a savepoint of a query; the job continues.

    Arguments:
        slice: of the query.
        to: the directory of savepoints, as an address.
        links: whether files may get a second name instead of a copy.
        is_shared: whether it shares files with others, in a pool.

    """

    slice: str
    to: str
    links: bool
    is_shared: bool = False


@dataclass(frozen=True, slots=True)
class SavepointDone:
    """A savepoint was taken, at `place`: its manifest says the rest."""

    place: str
    linked: int  # files that have a second name instead of a copy
    took_ms: int


def write_request(request: object) -> str:
    """Return the JSON of a request, or of an answer, on one line."""
    return json.dumps(codec.encode(request))


def read_request(kind: type[R], text: str) -> R:
    """Return the request that was written: both ends are of one release."""
    try:
        return codec.decode(kind, json.loads(text))
    except (ValueError, Malformed) as error:
        fail(f"a request cannot be read: {error}")


def read_asked(kind: type[R], text: str) -> R:
    """Return a request, or an answer, of a process that may be of another release.

    Raises NotDone.
    """
    try:
        return codec.decode(kind, json.loads(text))
    except (ValueError, Malformed) as error:
        message = f"what the other process wrote cannot be read: {error}"
        hint = "the job runs another release of Ashore: use the command of that one"
        raise NotDone(message, hint=hint) from None
