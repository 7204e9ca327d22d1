"""The pool: files of shared savepoints, beside them, and who needs which of them.

What it is: `Pool`, and the two lists by which takers and sweeps keep out of each other's way.
What it promises: the pool keeps no count. A file is needed while a savepoint beside the pool names
it: in its manifest, or in `references.json` as long as it has none, which is there before the
savepoint relies on anything and goes last; and all that a savepoint has copied itself, while its
directory is there. A name in the pool is used once, so that a deletion that arrives late deletes
nothing that came after it. Where a savepoint does not list what it needs, that is an error, and
nothing is known to be free.

    <directory>/pool/3f9c0a12b4d5e6f7/      what the savepoint of these digits has copied
                                            files as Spark wrote them, at their own paths
    <directory>/pool/condemned-<digits>.json     what a sweep is about to delete

A taker writes its references, then reads what is condemned, and copies that itself. A sweep writes
what it condemns, then reads all references, and spares what they name. So at least one of the two
sees the other, whatever comes between.
"""

import re
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from ashore.errors import CheckpointUnfit, PathMissing
from ashore.log import names
from ashore.queries.state.files import WORKERS, CheckpointStore
from ashore.queries.state.layout import QueryPath
from ashore.queries.state.savepoints.manifest import (
    PoolFile,
    SavedFile,
    SavepointKind,
    is_unique,
    parse_references,
)
from ashore.queries.state.savepoints.store import POOL, Savepoint, find_savepoints, list_savepoints
from ashore.storage.base import FileStat

_CONDEMNED = re.compile(r"condemned-[0-9a-f]{16}\.json")


@dataclass(frozen=True, slots=True)
class References:
    """What savepoints need of a pool.

    Arguments:
        files: that they name.
        owners: directories of the pool whose savepoint is there, all of whose files are needed.

    """

    files: frozenset[PoolFile]
    owners: frozenset[str]

    def __contains__(self, file: PoolFile) -> bool:
        return file.pool in self.owners or file in self.files


@dataclass(frozen=True, slots=True)
class Pool(CheckpointStore):
    """The pool at `path` of a storage, beside the savepoints that share it."""

    savepoints: CheckpointStore

    @classmethod
    def beside(cls, savepoints: CheckpointStore) -> "Pool":
        """Return the pool of the savepoints in a directory, which may not be there."""
        path = savepoints.full_path(POOL)
        return cls(savepoints.storage, path, f"{savepoints.uri}/{POOL}", savepoints)

    def part(self, name: str) -> CheckpointStore:
        """Return a directory of the pool: files of a checkpoint, at their own paths."""
        return CheckpointStore(self.storage, self.full_path(name), f"{self.uri}/{name}")

    def is_there(self) -> bool:
        """Return whether there is a pool, and no checkpoint of that name. Raises StorageError."""
        found = self.stat()
        if found is None or not found.is_directory:
            return False
        return self.stat(QueryPath().path) is None

    def list_parts(self) -> list[str]:
        """Return the directories of the pool. Raises StorageError."""
        return [name for name in self.list_names() if is_unique(name)]

    def list_condemned(self) -> list[FileStat]:
        """Return the lists of sweeps that run, or were interrupted. Raises StorageError."""
        return [each for each in self.list_entries() if _CONDEMNED.fullmatch(each.path)]

    def read_condemned(self) -> frozenset[PoolFile]:
        """Return what sweeps are about to delete. Raises CheckpointUnfit, StorageError."""
        found = frozenset[PoolFile]()
        for each in self.list_condemned():
            try:
                found |= parse_references(self.read(each.path), f"{self.place}/{each.path}")
            except PathMissing:  # the sweep is done, and all that it has deleted is gone
                continue
        return found

    def read_references(self, without: Savepoint | None = None) -> References:
        """Return what savepoints need, all of them or all but one.

        Raises CheckpointUnfit where one does not list its files; StorageError.
        """
        found = find_savepoints(self.savepoints)
        others = [each for each in found if without is None or each.path != without.path]
        with ThreadPoolExecutor(WORKERS) as pool:
            files = frozenset[PoolFile]().union(*pool.map(_read_needed, others))
        return References(files, frozenset(each.unique for each in others))

    def find_saved(self) -> dict[tuple[str, int], SavedFile]:
        """Return what complete savepoints have in the pool, by path and size in bytes.

        Where several have the same, it is that of the newest. What is there may be deleted at any
        time, unless it is referred to. Raises StorageError.
        """
        listed = list_savepoints(self.savepoints)
        return {
            (file.path, file.size_bytes): file
            for each in listed
            if each.manifest is not None and each.manifest.kind is SavepointKind.SHARED
            for file in each.manifest.files
        }

    def stat_files(self, files: Collection[PoolFile]) -> dict[PoolFile, FileStat]:
        """Return those of some files that are there. Raises StorageError."""
        with ThreadPoolExecutor(WORKERS) as pool:
            found = pool.map(lambda each: self.stat(each.path_in_pool), files)
            return {file: stat for file, stat in zip(files, found, strict=True) if stat}


def pool_of(savepoint: Savepoint) -> Pool:
    """Return the pool beside a savepoint, which may not be there."""
    path, uri = names.parent(savepoint.path), savepoint.uri.rpartition("/")[0]
    return Pool.beside(CheckpointStore(savepoint.storage, path, uri))


def _read_needed(savepoint: Savepoint) -> frozenset[PoolFile]:
    """Return what a savepoint needs of the pool: what it uses, or may use if it is not complete."""
    unread: CheckpointUnfit | None = None
    try:
        files = savepoint.read_manifest().files
        return frozenset(each.in_pool for each in files if each.pool)
    except CheckpointUnfit as error:
        if savepoint.is_taken():
            unread = error
    try:
        return savepoint.read_references()
    except PathMissing:  # it is full, or is being deleted
        if unread is None or savepoint.checkpoint.stat() is not None:
            return frozenset()
        raise unread from None
