"""Spark's checkpoint of one query: read from its text files, and copied.

What it is: which batches are planned and done, what a batch was planned with, and the next one
planned in Spark's place; through the lake's own storage. `open_directory`, the checkpoint in a
directory that a person names, and `reach`, for a storage. `copy_checkpoint`, a copy without what
unfinished batches have left.
What it promises: nothing that is there is changed. A file that is not as Spark 4 writes it is
named.

What is planned and done is read before the state is, so that a checkpoint that its owner still
writes gives a copy of one moment: nothing in it is younger than the batch after the last one that
is done. Spark replaces its files and appends to none, so that a second name (a hard link) is a
copy; where a storage has no second names, only what a start needs is copied.

    offsets, commits        up to the last batch done; offsets of one more
    versions of stores      up to the last batch done, whose number is one less
    tables of stores        taken as they are; a true copy takes those that its snapshots name
    hidden files            left: checksums and temporary files
    operators               with the absolute paths that their schemas have in the copy
    all others              taken as they are
"""

import contextlib
import posixpath
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from ashore.base.clock import Clock
from ashore.errors import CheckpointUnfit, JobFileInvalid, PathExists, PathMissing
from ashore.log import names
from ashore.log.plan_query import NO_BATCH, CheckpointPosition
from ashore.queries.state.files import WORKERS, CheckpointFile, CheckpointStore
from ashore.queries.state.layout import (
    HINT,
    SOURCES,
    STATE,
    BatchLog,
    BatchPath,
    CheckpointPath,
    CommitFile,
    Ends,
    HiddenPath,
    MigrationPath,
    OffsetsFile,
    OperatorFile,
    OperatorPath,
    QueryFile,
    QueryPath,
    SnapshotFile,
    StateKind,
    StatePath,
    Store,
    TablePath,
    VersionPath,
    find_migration,
    is_number,
    parse_path,
)
from ashore.storage.base import FileStat
from ashore.storage.open import LakeAddress, lake_address

F = TypeVar("F")

# Of Spark's state stores (`checkpointFormatVersion`). Spark does not note it, and reads only what
# was written with the one that is set: a root says with which one it was begun.
STATE_FORMAT = 1
OFFSETS_VERSIONS = (1,)  # that the queries of Ashore have: their sources have no names
ANY_VERSION = (1, 2)
KEPT_BATCHES = 3  # in offsets and commits of a true copy: a start reads two
# Snapshots of a store in a true copy: where the newest is bad Spark takes another.
KEPT_SNAPSHOTS = 2
_DEADLINE_S = 30.0  # of a call to the storage: a person waits
_FILE, _HDFS, _S3 = "file://", "hdfs://", "s3://"


@dataclass(frozen=True, slots=True)
class Checkpoint(CheckpointStore):
    """A checkpoint at `path` of a storage, which Spark knows as `uri`.

    Every call may raise StorageError; one that parses a file, CheckpointUnfit.
    """

    @property
    def has_checksum_files(self) -> bool:
        """Whether Hadoop keeps a checksum in a file beside each file, as it does on a local disk.

        Other storages keep checksums themselves, and compare what is read with them.
        """
        return self.uri.startswith("file:")

    def read_position(self) -> CheckpointPosition:
        """Return how far it has come.

        If its owner continues in the meantime, what is done is never ahead of what is planned.
        """
        committed = self._newest(BatchLog.COMMITS)
        return CheckpointPosition(self.read_query_id(), self._newest(BatchLog.OFFSETS), committed)

    def read_query_id(self) -> str | None:
        """Return the id of the query, or None where there is no checkpoint."""
        place = self.full_path(QueryPath().path)
        try:
            return QueryFile.parse(self.read(QueryPath().path), place).query_id
        except PathMissing:
            return None
        except CheckpointUnfit:
            raise CheckpointUnfit(f"{place} has no query id", hint=HINT) from None

    def read_ends(self, batch_id: int) -> Ends:
        """Return where each source's offsets end in a batch; empty for the batch before the first.

        A source that stood there for the first time may be missing in the batch before.
        """
        if batch_id == NO_BATCH:
            return {}
        place = self.full_path(BatchPath(BatchLog.OFFSETS, batch_id).path)
        return self.read_offsets(batch_id).kafka_ends(place)

    def read_offsets(
        self, batch_id: int, versions: Collection[int] = OFFSETS_VERSIONS
    ) -> OffsetsFile:
        """Return what a batch was planned with."""
        place, data = self._read(BatchPath(BatchLog.OFFSETS, batch_id))
        return OffsetsFile.parse(data, place, versions)

    def read_commit(self, batch_id: int) -> CommitFile:
        """Return what a batch that is done leaves."""
        place, data = self._read(BatchPath(BatchLog.COMMITS, batch_id))
        return CommitFile.parse(data, place)

    def read_operator(self, path: OperatorPath) -> OperatorFile:
        """Return what an operator says of itself."""
        return OperatorFile.parse(self.read(path.path), self.full_path(path.path))

    def plan(self, batch_id: int, offsets: OffsetsFile) -> None:
        """Plan a batch, as Spark would have done it.

        Requires: the batch before is done, or Spark does not start here yet.
        If interrupted: the batch is planned, or it is not.
        """
        self.create(BatchPath(BatchLog.OFFSETS, batch_id).path, offsets.write())

    def commit(self, batch_id: int, commit: CommitFile) -> None:
        """Write that a batch is done, as Spark would have done it. Requires: its state is there."""
        self.create(BatchPath(BatchLog.COMMITS, batch_id).path, commit.write())

    def list_versions(self) -> list[int]:
        """Return the versions of the job that it has copies of, sorted."""
        found = (parse_path(each) for each in self.list_names())
        return sorted(each.version for each in found if isinstance(each, VersionPath))

    def read_version(self, version: int) -> bytes:
        """Return a copy of a version."""
        return self.read(VersionPath(version).path)

    def keep_version(self, version: int, data: bytes) -> None:
        """Keep a copy of a version, where there is none.

        Requires: Spark has begun the checkpoint: it refuses to begin one that is not empty.
        If interrupted: the copy is there, or it is not.
        """
        with contextlib.suppress(PathExists):
            self.create(VersionPath(version).path, data)

    def read_migration(self) -> int:
        """Return the migration that has rewritten its state, by its epoch; 0: none."""
        return find_migration(self.list_names())

    def mark_migration(self, attempt: int) -> None:
        """Say that a migration has rewritten the state. `attempt`: the epoch of this one."""
        self.create(MigrationPath(attempt).path, b"{}\n")

    def list_batches(self, log: BatchLog) -> dict[int, FileStat]:
        """Return the files of a log, by their batches."""
        listed = self.list_entries(log)
        found = [(names.leaf(each.path), each) for each in listed if not each.is_directory]
        return {int(name): each for name, each in found if is_number(name)}

    def list_finished(self) -> list[int]:
        """Return the batches that are done and still kept, sorted."""
        done = self.list_batches(BatchLog.COMMITS)
        return sorted(done.keys() & self.list_batches(BatchLog.OFFSETS).keys())

    def count_sources(self) -> int:
        """Return how many sources have files of their own."""
        return len(self.list_directory(SOURCES).directories)

    def has_state(self) -> bool:
        """Return whether an operator of the query keeps state."""
        return bool(self.list_entries(STATE))

    def _newest(self, log: BatchLog) -> int:
        return max(self.list_batches(log), default=NO_BATCH)

    def _read(self, path: BatchPath) -> tuple[str, bytes]:
        place = self.full_path(path.path)
        try:
            return place, self.read(path.path)
        except PathMissing:
            raise CheckpointUnfit(f"{place} does not exist", hint=HINT) from None


# ---- a directory that a person names


def open_directory(
    where: str, clock: Clock, options: Mapping[str, str] | None = None
) -> Checkpoint:
    """Return the checkpoint in a directory, which may not be there yet.

    Arguments:
        where: a path on this machine, `file://...`, `hdfs://...` or `s3://...`.
        clock: of the storage.
        options: of HDFS or S3; without: what the environment says.

    Raises JobFileInvalid, NotInstalled.

    """
    uri = where if where.startswith((_FILE, _HDFS, _S3)) else f"{_FILE}{posixpath.abspath(where)}"
    scheme, _, path = uri.partition("://")
    parent, slash, name = path.rstrip("/").rpartition("/")
    if not name or not slash or (scheme != "file" and not parent):
        raise JobFileInvalid(
            f"{where} is not the directory of a checkpoint",
            hint="name a directory below the root",
        )
    address = reach(f"{scheme}://{parent or '/'}", options)
    return Checkpoint(address.open(clock), name, f"{scheme}://{parent}/{name}")


def reach(uri: str, options: Mapping[str, str] | None = None) -> LakeAddress:
    """Return how a storage is reached that a person names. Raises JobFileInvalid.

    `options`: of HDFS or S3; without: what the environment says.
    """
    return lake_address(uri, _DEADLINE_S, dict(options or {}))


# ---- a copy


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
