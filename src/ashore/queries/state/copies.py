"""A checkpoint copied to a new attempt, without what unfinished batches have left.

What it is: `copy_checkpoint`: which files a copy takes, and how each gets there.
What it promises: what is planned and done is read before the state is, so that a checkpoint that
its owner still writes gives a copy of one moment: nothing in it is younger than the batch after the
last one that is done. The source is only read. Spark replaces its files and appends to none, so
that a second name (a hard link) is a copy; where a storage has no second names, only what a start
needs is copied.

    offsets, commits        up to the last batch done; offsets of one more
    versions of stores      up to the last batch done, whose number is one less
    tables of stores        taken as they are; a true copy takes those that its snapshots name
    hidden files            left: checksums and temporary files
    operators               with the absolute paths that their schemas have in the copy
    all others              taken as they are
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from ashore.errors import CheckpointUnfit
from ashore.log.plan_query import CheckpointPosition
from ashore.queries.state.checkpoint import Checkpoint
from ashore.queries.state.files import WORKERS, CheckpointFile
from ashore.queries.state.layout import (
    BatchLog,
    BatchPath,
    CheckpointPath,
    HiddenPath,
    OperatorPath,
    SnapshotFile,
    StateKind,
    StatePath,
    Store,
    TablePath,
)

F = TypeVar("F")

KEPT_BATCHES = 3  # in offsets and commits of a true copy: a start reads two
KEPT_SNAPSHOTS = (
    2  # snapshots of a store in a true copy: where the newest is bad Spark takes another
)


def copy_checkpoint(
    source: Checkpoint, target: Checkpoint, upto: CheckpointPosition | None = None
) -> None:
    """Copy what finished batches have left, and what the next one plans.

    Requires: no other process uses the target.
    If interrupted: some files are there; the source is as it was.

    Arguments:
        source: to copy.
        target: that is made.
        upto: an earlier position of the source; without it, the newest.

    Raises StorageError; PathMissing where the source's owner deletes old files meanwhile;
    CheckpointUnfit where a file cannot be read that has absolute paths in it.

    """
    position = upto or source.read_position()
    same: list[CheckpointFile] = []
    moved: list[OperatorPath] = []
    for each in plan_copy(position, source.list_files()):
        if isinstance(each.of, OperatorPath) and each.of.has_paths:
            moved.append(each.of)
        else:
            same.append(each)
    if same and source.link(same[0].path, target, same[0].path):
        _for_each(same[1:], lambda each: _link(source, target, each.path, each.path))
    else:
        same = plan_true_copy(same, lambda snapshot: _read_tables(source, snapshot))
        _for_each(same, lambda each: target.write(each.path, source.read_pieces(each.path)))
    # With the old paths an operator would name another attempt.
    _for_each(
        moved,
        lambda path: target.create(
            path.path, source.read_operator(path).move_to(target.uri).write()
        ),
    )
    target.sync([*(each.path for each in same), *(each.path for each in moved)])


def copy_renamed(
    source: Checkpoint, target: Checkpoint, files: Sequence[tuple[CheckpointFile, str]]
) -> None:
    """Give files of a checkpoint a second name in another, at other paths, or copy them.

    Requires: both are on one storage, with the same root. If interrupted: some are there.
    `files`: of the source, each with its path below the root of the target.

    Raises StorageError.
    """
    _for_each(files, lambda each: _link(source, target, each[0].path, each[1]))
    target.sync(path for _, path in files)


def plan_copy(
    position: CheckpointPosition, files: Iterable[CheckpointFile]
) -> list[CheckpointFile]:
    """Return the files of a checkpoint as it was at `position`: nothing that came later."""
    return [each for each in files if not _is_left_out(each, position)]


def _is_left_out(file: CheckpointFile, position: CheckpointPosition) -> bool:
    """Return whether a file is younger than the last batch that is done, or no file of Spark."""
    done = position.committed
    match file.of:
        case HiddenPath():
            return True
        case BatchPath(BatchLog.OFFSETS, batch):
            return batch > min(position.planned, done + 1)
        case BatchPath(_, batch):
            return batch > done
        case StatePath(version=version):
            return version > done + 1
        case _:
            return False


def plan_true_copy(
    files: Sequence[CheckpointFile], read_snapshot: Callable[[StatePath], Collection[str] | None]
) -> list[CheckpointFile]:
    """Return those of `files` that a start needs.

    Arguments:
        files: all of the checkpoint.
        read_snapshot: returns the names of the tables that a snapshot is made of; None: any.

    """
    versions: dict[Store, list[StatePath]] = {}
    logs: dict[BatchLog, list[BatchPath]] = {}
    for each in files:
        match each.of:
            case StatePath(store=store) as version:
                versions.setdefault(store, []).append(version)
            case BatchPath(log=log) as batch:
                logs.setdefault(log, []).append(batch)
    dropped: set[CheckpointPath] = {path for some in versions.values() for path in _older(some)}
    for batches in logs.values():
        dropped |= set(sorted(batches, key=lambda path: path.batch)[:-KEPT_BATCHES])
    kept: dict[Store, frozenset[str]] = {}
    for store, some in versions.items():
        tables = [read_snapshot(path) for path in some if path.is_whole and path not in dropped]
        if all(each is not None for each in tables):
            kept[store] = frozenset(name for each in tables if each is not None for name in each)
    return [each for each in files if each.of not in dropped and not _is_unused(each.of, kept)]


def _older(store: Sequence[StatePath]) -> Iterator[StatePath]:
    snapshots = sorted({each.version for each in store if each.is_whole})
    first = snapshots[-KEPT_SNAPSHOTS] if len(snapshots) >= KEPT_SNAPSHOTS else 0
    return (each for each in store if each.version < first)


def _is_unused(path: CheckpointPath, kept: Mapping[Store, frozenset[str]]) -> bool:
    """Return whether no kept snapshot names a table. `kept`: of stores with readable snapshots."""
    match path:
        case TablePath(store, name) if store in kept:
            return name not in kept[store]
        case _:
            return False


def _read_tables(source: Checkpoint, snapshot: StatePath) -> Collection[str] | None:
    """Return the tables that a snapshot names; None where it does not name them, or has none."""
    if snapshot.kind is not StateKind.ROCKSDB_SNAPSHOT:
        return None
    try:
        return SnapshotFile.read(source.read(snapshot.path), snapshot.path).tables.keys()
    except CheckpointUnfit:
        return None


def _for_each(files: Iterable[F], act: Callable[[F], None]) -> None:
    with ThreadPoolExecutor(WORKERS) as pool:
        for _done in pool.map(act, files):
            pass


def _link(source: Checkpoint, target: Checkpoint, path: str, to: str) -> None:
    """Link a file; copy it where its directory is on another volume, or it has too many names."""
    if not source.link(path, target, to):
        target.write(to, source.read_pieces(path))
