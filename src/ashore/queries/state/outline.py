"""What of a checkpoint Spark compares with a query before it starts a batch: no state.

What it is: `copy_outline`: offsets and the commit of the last batch, what operators say of
themselves, and schemas.
What it promises: the source is only read, also beside a Spark that writes it. Only small files are
read, a few for each operator. Operators of the copy name its own schemas.
"""

from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from ashore.errors import CheckpointUnfit
from ashore.log import names
from ashore.log.plan_query import NO_BATCH
from ashore.queries.state.checkpoint import Checkpoint
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
