"""Files of a checkpoint that no kept batch refers to.

What it is: `plan_store`, `plan_operator`, `plan_logs` and `plan_hidden`, from what is in a few
directories to the files that may go; `KeptBatches`, what the logs say of the batches that are kept.
What it promises: pure. A kept batch is one that is planned, done and still in both logs; what a
restart after it reads stays, and so does what leads from there to any later one. What is younger
than the last batch that is done is a running writer's, and what was written since `before_ms` may
be: neither is returned. A store whose files lead to no kept batch is refused, as it is not known
what they are for. Files that Spark 4.2 does not write stay.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from ashore.errors import CheckpointUnfit
from ashore.log import names
from ashore.queries.state.files import CheckpointFile
from ashore.queries.state.layout import (
    BatchLog,
    BatchPath,
    CheckpointPath,
    ChecksumPath,
    HiddenPath,
    OperatorPath,
    SchemaPath,
    StateKind,
    StatePath,
    Store,
    TablePath,
)

_CHECKSUM = ".crc"  # a local file system of Hadoop keeps `.name.crc` beside each `name`

StoreIds = Mapping[int, Sequence[Sequence[str]]]  # operator, partition: the ids of its files


class Unneeded(StrEnum):
    """Why nothing refers to a file."""

    OLD_VERSION = "older than what a kept batch needs"
    DEAD_TASK = "of a task whose batch was made by another"
    TABLE = "a table that no snapshot names"
    PARTITION = "of a partition that no longer exists"
    BATCH = "of a batch that is not kept"
    OPERATOR = "what an operator was before the batches that are kept"
    SCHEMA = "a schema that no operator names"
    HALF_MADE = "a writer died while it made it"
    CHECKSUM = "the checksum of a file that is gone"
    ATTEMPT = "of an attempt that another one has followed"
    POOL = "in the pool, and of no savepoint"
    EMPTY = "an empty directory"


@dataclass(frozen=True, slots=True)
class Garbage:
    """A file that may go."""

    path: str  # below the root of the checkpoint
    size_bytes: int
    why: Unneeded


@dataclass(frozen=True, slots=True)
class KeptBatches:
    """The batches that are kept, and what they say of state.

    Arguments:
        done: planned and done, ascending; never empty.
        partitions: the highest number that one of them has; None: one of them does not say.
        store_ids: of batches whose commit names the files of state, format 2.
        before_ms: what was modified at this time or later may be a running writer's.

    """

    done: tuple[int, ...]
    partitions: int | None
    store_ids: Mapping[int, StoreIds] = field(default_factory=dict)
    before_ms: int = 0

    @property
    def oldest(self) -> int:
        """The version of state that the oldest kept batch has made."""
        return self.done[0] + 1

    @property
    def newest(self) -> int:
        """The version of state that the newest batch has made. Later ones are a writer's."""
        return self.done[-1] + 1

    def is_old(self, file: CheckpointFile) -> bool:
        """Return whether no running writer can be at work on a file."""
        return file.modified_ms < self.before_ms


def plan_logs(files: Iterable[CheckpointFile], kept: KeptBatches) -> Iterator[Garbage]:
    """Yield the files of `offsets` and `commits` that are of no kept batch, nor of a later one.

    The batch before the oldest kept one stays planned: a restart reads it. Commits of format 2 stay
    for Spark to delete: they name the files of state that later batches build on.
    """
    for each in files:
        match each.of:
            case BatchPath(BatchLog.COMMITS) if kept.store_ids:
                pass
            case BatchPath(log, batch):
                first = kept.done[0] - (log is BatchLog.OFFSETS)
                if batch < first and kept.is_old(each):
                    yield Garbage(each.path, each.size_bytes, Unneeded.BATCH)


def plan_hidden(
    files: Sequence[CheckpointFile], kept: KeptBatches, unneeded: set[str]
) -> Iterator[Garbage]:
    """Yield hidden files of directories that are no use: half-made ones, and checksums of none.

    Arguments:
        files: all of some directories.
        kept: what stays.
        unneeded: the paths of those among them that go.

    """
    there = {each.path for each in files} - unneeded
    for each in files:
        match each.of:
            case HiddenPath(path) if kept.is_old(each):
                name = names.leaf(path)
                if name.endswith(_CHECKSUM):
                    of = names.join(names.parent(path), name[1 : -len(_CHECKSUM)])
                    if of not in there:
                        yield Garbage(path, each.size_bytes, Unneeded.CHECKSUM)
                else:
                    yield Garbage(path, each.size_bytes, Unneeded.HALF_MADE)


# Returns the schemas that an operator names: store and file name.
ReadSchemas = Callable[[OperatorPath], Collection[tuple[str, str]]]


def plan_operator(
    files: Sequence[CheckpointFile], kept: KeptBatches, read_schemas: ReadSchemas
) -> Iterator[Garbage]:
    """Yield what an operator says of itself for batches that are not kept, and old schemas.

    The newest that it says up to the oldest kept batch holds from there on. An operator that does
    not say which schemas it has, as those of most kinds, keeps what there is.

    Arguments:
        files: all of its directories beside the partitions.
        kept: what stays.
        read_schemas: is asked for what the operator says that stays, where schemas may go.

    Raises what `read_schemas` raises.

    """
    operators: dict[int, tuple[OperatorPath, CheckpointFile]] = {}
    schemas: dict[tuple[str, str], CheckpointFile] = {}
    for each in files:
        match each.of:
            case OperatorPath(batch=int(batch)) as path:
                operators[batch] = (path, each)
            case SchemaPath(batch=batch) as path if batch <= kept.done[-1] and kept.is_old(each):
                schemas[path.store_name, names.leaf(path.path)] = each
    holds_from = max((batch for batch in operators if batch <= kept.done[0]), default=None)
    if holds_from is None:
        return
    for batch, (path, each) in sorted(operators.items()):
        if batch < holds_from and kept.is_old(each):
            yield Garbage(each.path, each.size_bytes, Unneeded.OPERATOR)
        elif schemas:
            for named in read_schemas(path):
                schemas.pop(named, None)
    for each in schemas.values():
        yield Garbage(each.path, each.size_bytes, Unneeded.SCHEMA)


# Returns the names of the tables that a snapshot names.
ReadTables = Callable[[StatePath], Iterable[str]]


def plan_store(
    store: Store, files: Sequence[CheckpointFile], kept: KeptBatches, read_tables: ReadTables
) -> Iterator[Garbage]:
    """Yield the files of a state store that may go.

    Arguments:
        store: that they are of.
        files: all of its directories, tables too, listed after the logs were read.
        kept: what stays.
        read_tables: is asked for the snapshots that stay, where there are tables that may go.

    Raises CheckpointUnfit where the files lead to no kept batch, and what `read_tables` raises.

    """
    if kept.partitions is not None and store.partition >= kept.partitions:
        visible = [each for each in files if not isinstance(each.of, HiddenPath)]
        for each in visible:
            if kept.is_old(each) and _version_of(each.of) <= kept.newest:
                yield Garbage(each.path, each.size_bytes, Unneeded.PARTITION)
        return
    base = _find_base(store, files, kept)
    unneeded = {
        each.of: why for each in files if (why := _judge(each, base, store, kept)) is not None
    }
    unneeded |= _judge_checksums(files, kept, unneeded.keys())
    unneeded |= _judge_tables(files, kept, unneeded.keys(), read_tables)
    for each in files:
        if each.of in unneeded:
            yield Garbage(each.path, each.size_bytes, unneeded[each.of])


def _version_of(path: CheckpointPath) -> int:
    match path:
        case StatePath(version=version) | ChecksumPath(StatePath(version=version)):
            return version
        case _:
            return 0


def _find_base(store: Store, files: Iterable[CheckpointFile], kept: KeptBatches) -> int:
    """Return the version that the chains of kept batches begin with, or later; 0: with nothing.

    Batches that no chain leads to count for nothing: Spark deletes old state and old logs apart.
    """
    versions: dict[int, set[StatePath]] = {0: set()}
    for each in files:
        match each.of:
            case StatePath(version=version) as path if not _is_dead(path, store, kept):
                versions.setdefault(version, set()).add(path)
    base: int | None = None  # of the version before
    for version in range(kept.newest + 1):
        found = versions.get(version)
        if found is None:
            base = None
        elif version == 0 or _is_snapshot(found, version, kept):
            base = version
        if base is not None and version >= kept.oldest:
            return base
    raise CheckpointUnfit(
        f"{store.path}: its files do not lead to any batch that is kept",
        hint="look at the checkpoint: ashore checkpoint inspect",
        why="missing",
    )


def _is_snapshot(found: Collection[StatePath], version: int, kept: KeptBatches) -> bool:
    """Return whether one of the files of a version holds all of it, and counts.

    Of several tasks that made a version only its commit names the one that counts.
    """
    is_one = version - 1 in kept.store_ids or len({path.unique for path in found}) == 1
    return is_one and any(path.is_whole for path in found)


def _judge(file: CheckpointFile, base: int, store: Store, kept: KeptBatches) -> Unneeded | None:
    match file.of:
        case StatePath(version=version) as path if version <= kept.newest and kept.is_old(file):
            if version < base:
                return Unneeded.OLD_VERSION
            return Unneeded.DEAD_TASK if _is_dead(path, store, kept) else None
        case _:
            return None


def _is_dead(path: StatePath, store: Store, kept: KeptBatches) -> bool:
    """Return whether the commit of the batch that made a version names other files for it."""
    ids = kept.store_ids.get(path.version - 1)
    if ids is None:
        return False
    of_operator = ids.get(store.operator, ())
    named = of_operator[store.partition] if store.partition < len(of_operator) else None
    return named is not None and path.unique not in named


def _judge_checksums(
    files: Iterable[CheckpointFile], kept: KeptBatches, unneeded: Iterable[CheckpointPath]
) -> dict[CheckpointPath, Unneeded]:
    there = {each.of for each in files}.difference(unneeded)
    return {
        each.of: Unneeded.CHECKSUM
        for each in files
        if isinstance(each.of, ChecksumPath)
        and each.of.of not in there
        and each.of.of.version <= kept.newest
        and kept.is_old(each)
    }


def _judge_tables(
    files: Sequence[CheckpointFile],
    kept: KeptBatches,
    unneeded: Iterable[CheckpointPath],
    read_tables: ReadTables,
) -> dict[CheckpointPath, Unneeded]:
    """Return the tables that no snapshot names which stays."""
    known = frozenset(unneeded)
    unnamed = {
        each.of.name: each.of
        for each in files
        if isinstance(each.of, TablePath) and kept.is_old(each)
    }
    snapshots = [
        each.of
        for each in files
        if isinstance(each.of, StatePath) and each.of.kind is StateKind.ROCKSDB_SNAPSHOT
    ]
    for snapshot in sorted(snapshots, key=lambda each: -each.version):
        if not unnamed:
            break
        if snapshot not in known:
            for name in read_tables(snapshot):
                unnamed.pop(name, None)
    return dict.fromkeys(unnamed.values(), Unneeded.TABLE)
