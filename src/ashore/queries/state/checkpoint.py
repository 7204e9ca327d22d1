"""Spark's checkpoint of one query, read from its text files.

What it is: which batches are planned and done, what a batch was planned with, and the next one
planned in Spark's place; through the lake's own storage. `open_directory`, the checkpoint in a
directory that a person names, and `reach`, for a storage.
What it promises: nothing that is there is changed. A file that is not as Spark 4 writes it is
named.
"""

import contextlib
import posixpath
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from ashore.base.clock import Clock
from ashore.errors import CheckpointUnfit, JobFileInvalid, PathExists, PathMissing
from ashore.log import names
from ashore.log.plan_query import NO_BATCH, CheckpointPosition
from ashore.queries.state.files import CheckpointStore
from ashore.queries.state.layout import (
    HINT,
    SOURCES,
    STATE,
    BatchLog,
    BatchPath,
    CommitFile,
    Ends,
    MigrationPath,
    OffsetsFile,
    OperatorFile,
    OperatorPath,
    QueryFile,
    QueryPath,
    VersionPath,
    find_migration,
    is_number,
    parse_path,
)
from ashore.storage.base import FileStat
from ashore.storage.open import LakeAddress, lake_address

# Of Spark's state stores (`checkpointFormatVersion`). Spark does not note it, and reads only what
# was written with the one that is set: a root says with which one it was begun.
STATE_FORMAT = 1
OFFSETS_VERSIONS = (1,)  # that the queries of Ashore have: their sources have no names
ANY_VERSION = (1, 2)


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


_DEADLINE_S = 30.0  # of a call to the storage: a person waits
_FILE, _HDFS = "file://", "hdfs://"


def open_directory(
    where: str, clock: Clock, options: Mapping[str, str] | None = None
) -> Checkpoint:
    """Return the checkpoint in a directory, which may not be there yet.

    Arguments:
        where: a path on this machine, `file://...` or `hdfs://...`.
        clock: of the storage.
        options: of HDFS; without: what HADOOP_CONF_DIR says.

    Raises JobFileInvalid, NotInstalled.

    """
    uri = where if where.startswith((_FILE, _HDFS)) else f"{_FILE}{posixpath.abspath(where)}"
    scheme, _, path = uri.partition("://")
    parent, slash, name = path.rstrip("/").rpartition("/")
    if not name or not slash or (scheme == "hdfs" and not parent):
        raise JobFileInvalid(
            f"{where} is not the directory of a checkpoint",
            hint="name a directory below the root",
        )
    address = reach(f"{scheme}://{parent or '/'}", options)
    return Checkpoint(address.open(clock), name, f"{scheme}://{parent}/{name}")


def reach(uri: str, options: Mapping[str, str] | None = None) -> LakeAddress:
    """Return how a storage is reached that a person names. Raises JobFileInvalid.

    `options`: of HDFS; without: what HADOOP_CONF_DIR says.
    """
    return lake_address(uri, _DEADLINE_S, dict(options or {}))
