"""What of a checkpoint Spark compares with a query before it starts a batch: no state.

What it is: `copy_outline`: offsets and the commit of the last batch, what operators say of
themselves, and schemas; `copied_outlines`, those of all queries of a job, in directories of this
machine that are deleted at the end.
What it promises: the source is only read, also beside a Spark that writes it. Only small files are
read, a few for each operator. Operators of the copy name its own schemas. Where a checkpoint of a
job cannot be copied, that is said, and nothing is raised: a verdict does not need it.
"""

import contextlib
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from ashore.base.clock import Clock
from ashore.errors import AshoreError, CheckpointUnfit, PathMissing
from ashore.jobs.requests import Outline
from ashore.log import names
from ashore.log.plan_query import NO_BATCH
from ashore.plans.query import PlannedQuery, StateCheck
from ashore.queries.state.attempts import open_attempts
from ashore.queries.state.checkpoint import Checkpoint, open_directory
from ashore.queries.state.files import WORKERS, CheckpointFile
from ashore.queries.state.layout import (
    STATE,
    TABLES,
    BatchLog,
    BatchPath,
    CheckpointPath,
    OperatorFile,
    OperatorPath,
    SchemaPath,
    StoreSchemaPath,
    is_number,
)
from ashore.topics.loop.job import lake_of
from ashore.topics.loop.sinks import find_sink, sink_slice, sinks_of
from ashore.topics.open_job import OpenJob


def copy_outline(
    source: Checkpoint, target: Checkpoint, operators: Collection[int] | None = None
) -> int:
    """Copy what Spark compares, and return the last batch that is done.

    Requires: nothing is at the target. If interrupted: a part of it is there.

    Arguments:
        source: to copy.
        target: that is made.
        operators: whose schemas are copied; None: of all. To Spark the others have no state yet.

    Raises CheckpointUnfit where no batch is done; StorageError; PathMissing where a running Spark
    deletes old files meanwhile: try again.

    """
    position = source.read_position()
    done = position.committed
    if done == NO_BATCH:
        raise CheckpointUnfit(
            f"{source.path}: no batch of it is finished",
            hint="run the query first",
            why="empty_checkpoint",
        )
    batches: list[CheckpointPath] = [BatchPath(BatchLog.COMMITS, done)]
    batches += [BatchPath(BatchLog.OFFSETS, each) for each in {done, position.planned}]
    schemas = [each.of for each in _list_schemas(source)]
    found = [*batches, *(each for each in schemas if _is_copied(each, operators))]
    for path, data in zip(found, source.read_all(found), strict=True):
        target.create(path.path, _rewrite(path, data, target, operators))
    return done


def _rewrite(
    path: CheckpointPath, data: bytes, target: Checkpoint, operators: Collection[int] | None
) -> bytes:
    if not isinstance(path, OperatorPath):
        return data
    operator = OperatorFile.parse(data, path.path).move_to(target.uri)
    if operators is not None and path.operator not in operators:
        stores = tuple(replace(each, schemas=()) for each in operator.stores)
        operator = replace(operator, stores=stores)
    return operator.write()


def _is_copied(path: CheckpointPath, operators: Collection[int] | None) -> bool:
    match path:
        case OperatorPath():
            return True
        case StoreSchemaPath(store):
            return operators is None or store.operator in operators
        case SchemaPath(operator):
            return operators is None or operator in operators
        case _:
            return False


def _list_schemas(source: Checkpoint) -> Iterator[CheckpointFile]:
    """Yield what operators say of themselves, and schemas, with few calls: no state is listed."""
    operators = source.list_directory(STATE).directories
    waiting = [each for each in operators if is_number(names.leaf(each))]
    while waiting:
        with ThreadPoolExecutor(WORKERS) as pool:
            listed = list(pool.map(source.list_directory, waiting))
        for each in listed:
            yield from (file for file in each.files if _is_copied(file.of, None))
        waiting = [path for each in listed for path in each.directories if _may_have_schemas(path)]


def _may_have_schemas(directory: str) -> bool:
    """Return whether a directory is none of tables, nor of another partition than the first."""
    name = names.leaf(directory)
    return name != TABLES and (not is_number(name) or name == "0")


T = TypeVar("T")
TRIES = 3  # beside a running Spark, which deletes old files


# ---- of all queries of a job


@dataclass(frozen=True, slots=True)
class Outlines:
    """What could be copied, and why something could not, by the slice of the query."""

    copies: tuple[Outline, ...]
    unknown: Mapping[str, str]

    def explain(self, planned: PlannedQuery) -> PlannedQuery:
        """Return a query with why Spark was not asked of its state, where it was to be."""
        why = self.unknown.get(planned.slice)
        return planned if why is None else replace(planned, spark=StateCheck(unknown=why))


@contextmanager
def copied_outlines(opened: OpenJob, query: str | None = None) -> Iterator[Outlines]:
    """Copy the outlines of the newest checkpoints of a job's queries, and delete them at the end.

    `query`: the table or topic of the only one that is wanted.

    Raises JobFileInvalid.
    """
    job, lake = opened.job, lake_of(opened.job)
    sinks = sinks_of(job) if query is None else {query: find_sink(job, query)}
    copies, unknown = [], {}
    with tempfile.TemporaryDirectory(prefix="ashore-migrate-") as directory:
        for sink in sinks.values():
            name = sink_slice(job.job, sink)
            path = f"{directory}/{name.slice}"
            attempts = open_attempts(job, name, lake, opened.storage, opened.clock)
            try:
                newest = attempts.newest()
                if newest is None:
                    unknown[name.slice] = "there is no checkpoint"
                    continue
                copy = partial(_copy, newest, path, opened.clock)
                copies.append(Outline(name.slice, try_beside_spark(copy)))
            except AshoreError as error:
                unknown[name.slice] = error.message
        yield Outlines(tuple(copies), unknown)


def try_beside_spark(look: Callable[[int], T]) -> T:
    """Return what `look` returns for the number of a try: Spark may delete old files meanwhile."""
    for number in range(1, TRIES):
        with contextlib.suppress(PathMissing):
            return look(number)
    return look(TRIES)


def _copy(newest: Checkpoint, path: str, clock: Clock, number: int) -> str:
    """Copy the outline of a checkpoint to a new directory, and return which it is.

    A try that has failed has left files: the next one has a directory of its own.
    """
    place = f"{path}.{number}"
    copy_outline(newest, open_directory(place, clock))
    return place
