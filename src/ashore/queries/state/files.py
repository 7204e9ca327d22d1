"""Files of checkpoints, over a storage.

What it is: `CheckpointStore`, a directory with such files: a checkpoint, its attempts, a savepoint
or the pool of savepoints.
What it promises: the one place where code of checkpoints calls a storage. Paths are those below
the directory. A file is what its path says, and has the size and time that the storage says.
"""

import posixpath
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from ashore.errors import PathMissing
from ashore.log import names
from ashore.queries.state.layout import (
    STATE,
    TABLES,
    CheckpointPath,
    Store,
    is_number,
    is_store,
    parse_path,
)
from ashore.storage.base import FileStat, Links, Staged, Storage
from ashore.storage.local import LocalStorage

PIECE_BYTES = 4 << 20
_FILE = "file://"
WORKERS = 32  # calls at a time: closing a small file on HDFS takes a quarter of a second
# Gives the file at a path of one checkpoint the same path in another; False: it cannot, and nothing
# happened. Raises PathMissing, PathExists.
Link = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class CheckpointFile:
    """A file of a checkpoint."""

    of: CheckpointPath
    size_bytes: int
    modified_ms: int

    @property
    def path(self) -> str:
        """Where it is, below the root."""
        return self.of.path

    @classmethod
    def listed(cls, found: FileStat) -> "CheckpointFile":
        """Return a file as a store lists it."""
        return cls(parse_path(found.path), found.size, found.modified_ms)


@dataclass(frozen=True, slots=True)
class DirectoryListing:
    """What is directly in a directory of a checkpoint; directories are paths below its root."""

    files: list[CheckpointFile]
    directories: list[str]


@dataclass(frozen=True, slots=True)
class CheckpointStore:
    """Files below the directory `path` of a storage, which Spark knows as `uri`.

    Every call may raise StorageError. An empty path is the directory itself.
    """

    storage: Storage
    path: str
    uri: str

    @property
    def place(self) -> str:
        """Where it is, for messages: a path on this machine, or an address."""
        return self.uri.removeprefix(_FILE)

    def full_path(self, path: str) -> str:
        """Return a path of the storage."""
        return names.join(self.path, path)

    # ---- listing

    def list_entries(self, directory: str = "") -> list[FileStat]:
        """Return what is directly in a directory, sorted; empty where it is not there.

        Their paths are below the root. All that this class lists comes from here.
        """
        root = f"{self.path}/"
        listed = self.storage.list(self.full_path(directory))
        return [each._replace(path=each.path.removeprefix(root)) for each in listed]

    def list_names(self, directory: str = "") -> list[str]:
        """Return the names of what is directly in a directory."""
        return [names.leaf(each.path) for each in self.list_entries(directory)]

    def list_directory(self, directory: str = "") -> DirectoryListing:
        """Return the files and the directories that are directly in a directory."""
        found = self.list_entries(directory)
        return DirectoryListing(
            [CheckpointFile.listed(each) for each in found if not each.is_directory],
            [each.path for each in found if each.is_directory],
        )

    def list_files(self) -> list[CheckpointFile]:
        """Return all files, sorted by path."""
        waiting, found = [""], list[CheckpointFile]()
        with ThreadPoolExecutor(WORKERS) as pool:
            while waiting:
                listed = list(pool.map(self.list_directory, waiting))
                waiting = [path for each in listed for path in each.directories]
                found += [file for each in listed for file in each.files]
        return sorted(found, key=lambda each: each.path)

    def list_partitions(self) -> dict[int, list[int]]:
        """Return the partitions that each operator has state of, sorted."""
        operators = self._list_numbers(STATE)
        return {each: self._list_numbers(names.join(STATE, str(each))) for each in operators}

    def list_stores(self, operator: int, partition: int) -> dict[Store, list[CheckpointFile]]:
        """Return the files of each store of a partition, tables too."""
        only = Store(operator, partition)
        found = self.list_directory(only.path)
        listed = {only: found.files}
        if not found.files:
            stores = [names.leaf(each) for each in found.directories]
            named = [Store(operator, partition, name) for name in stores if is_store(name)]
            listed = {store: self.list_directory(store.path).files for store in named}
        return {
            store: [*files, *self.list_directory(names.join(store.path, TABLES)).files]
            for store, files in listed.items()
        }

    def _list_numbers(self, directory: str) -> list[int]:
        return sorted(int(name) for name in self.list_names(directory) if is_number(name))

    def walk(self, directory: str = "") -> Iterator[FileStat]:
        """Yield what is below a directory: a directory before what is in it."""
        for each in self.list_entries(directory):
            yield each
            if each.is_directory:
                yield from self.walk(each.path)

    def stat(self, path: str = "") -> FileStat | None:
        """Return what is at a path, or None."""
        return self.storage.stat(self.full_path(path))

    # ---- reading

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        """Return what a file holds, or `length` bytes of it. Raises PathMissing."""
        return self.storage.read(self.full_path(path), start, length)

    def read_all(self, paths: Sequence[CheckpointPath]) -> list[bytes]:
        """Return what files hold, in their order. Raises PathMissing."""
        if len(paths) == 1:
            return [self.read(paths[0].path)]
        with ThreadPoolExecutor(WORKERS) as pool:
            return list(pool.map(lambda each: self.read(each.path), paths))

    def read_pieces(self, path: str) -> Iterator[bytes]:
        """Yield what a file holds in pieces of PIECE_BYTES. Raises PathMissing."""
        start = 0
        while data := self.read(path, start, PIECE_BYTES):
            yield data
            start += len(data)

    # ---- writing

    def create(self, path: str, data: bytes) -> None:
        """Write a small file at once. Raises PathExists."""
        self.storage.create(self.full_path(path), data)

    def write(self, path: str, pieces: Iterable[bytes]) -> None:
        """Write a file piece by piece. Its name is durable after `sync`. Raises PathExists.

        If interrupted, or where `pieces` raises: a part of it may be there.
        """
        writer = self.storage.open_write(self.full_path(path))
        try:
            for data in pieces:
                writer.write(data)
            writer.close()
        finally:
            writer.abandon()

    def link(self, path: str, target: "CheckpointStore", to: str) -> bool:
        """Give a file a second name in a store on the same storage, durable after its `sync`.

        False: the storage does not support it, and nothing was changed.
        """
        storage = self.storage
        return isinstance(storage, Links) and storage.link(
            self.full_path(path), target.full_path(to)
        )

    def publish(self, path: str, final: str) -> None:
        """Give a file that was created its final name, durably. Raises PathMissing, PathExists."""
        self.storage.publish(Staged(self.full_path(path)), self.full_path(final))
        self.sync([final])

    def sync(self, paths: Iterable[str]) -> None:
        """Make the names of files durable."""
        self.storage.sync(sorted({names.parent(self.full_path(each)) for each in paths}))

    # ---- removing

    def delete(self, path: str = "") -> bool:
        """Delete a file or an empty directory. Returns whether it was there."""
        try:
            self.storage.delete(self.full_path(path))
        except PathMissing:
            return False
        return True

    def delete_all(self, directory: str = "") -> int:
        """Delete a directory and all that is below it. Returns how many files.

        If interrupted: some of it is left.
        """
        found = list(self.walk(directory))
        files = [each.path for each in found if not each.is_directory]
        with ThreadPoolExecutor(WORKERS) as pool:
            for _done in pool.map(self.delete, files):
                pass
        for each in reversed([each.path for each in found if each.is_directory]):
            self.delete(each)
        self.delete(directory)
        return len(files)


def link_between(source: CheckpointStore, target: CheckpointStore) -> Link | None:
    """Return what links files of one checkpoint into another; None where they are not both here.

    Where the disk refuses, as across volumes, the link says so, and the file is to be copied.
    """
    if not source.uri.startswith(f"{_FILE}/") or not target.uri.startswith(f"{_FILE}/"):
        return None
    paths = [each.uri.removeprefix(_FILE) for each in (source, target)]
    root = posixpath.commonpath(paths)
    storage = LocalStorage(root)
    source_root, target_root = (posixpath.relpath(each, root) for each in paths)
    return lambda path: storage.link(f"{source_root}/{path}", f"{target_root}/{path}")
