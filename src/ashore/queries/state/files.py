"""The files of a checkpoint, listed.

What it is: all of them, or those of one partition's stores.
What it promises: reads only. A file is what its path says, and has the size and time that the
storage says.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from ashore.log import names
from ashore.queries.state.checkpoint import Checkpoint
from ashore.queries.state.layout import (
    STATE,
    TABLES,
    CheckpointPath,
    Store,
    is_number,
    is_store,
    parse_path,
)
from ashore.storage.base import FileStat

PIECE_BYTES = 4 << 20
WORKERS = 32  # calls at a time: closing a small file on HDFS takes a quarter of a second


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


def list_files(checkpoint: Checkpoint) -> list[CheckpointFile]:
    """Return all files of a checkpoint, sorted. Raises StorageError."""
    waiting, found = [checkpoint.path], []
    with ThreadPoolExecutor(WORKERS) as pool:
        while waiting:
            listed = [each for some in pool.map(checkpoint.storage.list, waiting) for each in some]
            waiting = [each.path for each in listed if each.is_directory]
            found += [_file(checkpoint, each) for each in listed if not each.is_directory]
    return sorted(found, key=lambda each: each.path)


@dataclass(frozen=True, slots=True)
class DirectoryListing:
    """What is directly in a directory of a checkpoint; directories are paths below its root."""

    files: list[CheckpointFile]
    directories: list[str]


def list_directory(checkpoint: Checkpoint, directory: str) -> DirectoryListing:
    """Return what is directly in a directory; one that is not there is empty. Raises StorageError.

    `directory`: below the root; empty: the root.
    """
    found = _list(checkpoint, directory)
    return DirectoryListing(
        [_file(checkpoint, each) for each in found if not each.is_directory],
        [each.path.removeprefix(f"{checkpoint.path}/") for each in found if each.is_directory],
    )


def list_partitions(checkpoint: Checkpoint) -> dict[int, list[int]]:
    """Return the partitions that each operator has state of, sorted. Raises StorageError."""
    operators = _list_numbers(checkpoint, STATE)
    return {each: _list_numbers(checkpoint, names.join(STATE, str(each))) for each in operators}


def list_stores(
    checkpoint: Checkpoint, operator: int, partition: int
) -> dict[Store, list[CheckpointFile]]:
    """Return the files of each store of a partition, tables too. Raises StorageError."""
    only = Store(operator, partition)
    found = _list(checkpoint, only.path)
    if any(not each.is_directory for each in found):
        listed = {only: found}
    else:
        named = [names.leaf(each.path) for each in found]
        stores = [Store(operator, partition, name) for name in named if is_store(name)]
        listed = {store: _list(checkpoint, store.path) for store in stores}
    return {
        store: [
            _file(checkpoint, each)
            for each in (*files, *_list(checkpoint, names.join(store.path, TABLES)))
            if not each.is_directory
        ]
        for store, files in listed.items()
    }


def _list(checkpoint: Checkpoint, path: str) -> list[FileStat]:
    return list(checkpoint.storage.list(names.join(checkpoint.path, path)))


def _list_numbers(checkpoint: Checkpoint, path: str) -> list[int]:
    found = [names.leaf(each.path) for each in _list(checkpoint, path)]
    return sorted(int(name) for name in found if is_number(name))


def _file(checkpoint: Checkpoint, found: FileStat) -> CheckpointFile:
    path = found.path.removeprefix(f"{checkpoint.path}/")
    return CheckpointFile(parse_path(path), found.size, found.modified_ms)


def read_pieces(checkpoint: Checkpoint, path: str) -> Iterator[bytes]:
    """Yield the content of a file in pieces of PIECE_BYTES. Raises StorageError.

    `path`: below the root of the checkpoint.
    """
    start, place = 0, names.join(checkpoint.path, path)
    while data := checkpoint.storage.read(place, start, PIECE_BYTES):
        yield data
        start += len(data)
