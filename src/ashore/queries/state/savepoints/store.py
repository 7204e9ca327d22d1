"""Where savepoints are: listed, opened, deleted.

What it promises: a directory is a savepoint by its name, and a complete one by its manifest. Only
such directories are deleted: the manifest first, so that what is left of one is never restored.
"""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from ashore.errors import CheckpointUnfit, PathMissing
from ashore.log import names
from ashore.queries.state.checkpoint import Checkpoint
from ashore.queries.state.files import WORKERS
from ashore.queries.state.savepoints.manifest import Manifest, SavedFile, parse_manifest
from ashore.storage.base import FileStat, Storage

MANIFEST = "savepoint.json"
UNFINISHED = "savepoint.json.new"  # the manifest of a shared savepoint, for a moment
REFERENCES = "references.json"  # of a shared savepoint: what it may rely on in the pool
FILES = "checkpoint"
POOL = "pool"  # beside savepoints: files of shared ones
_NAME = re.compile(r"savepoint-(0|[1-9][0-9]{0,18})-[0-9a-f]{16}")


@dataclass(frozen=True, slots=True)
class SavedPart:
    """Files of a savepoint that are in one directory."""

    checkpoint: Checkpoint
    files: tuple[SavedFile, ...]


@dataclass(frozen=True, slots=True)
class Savepoint:
    """A savepoint at `path` of a storage, which Spark would know as `uri`."""

    storage: Storage
    path: str
    uri: str

    @property
    def checkpoint(self) -> Checkpoint:
        """Its files, as a checkpoint."""
        return Checkpoint(self.storage, names.join(self.path, FILES), f"{self.uri}/{FILES}")

    @property
    def manifest_path(self) -> str:
        """Of the storage."""
        return names.join(self.path, MANIFEST)

    @property
    def references_path(self) -> str:
        """Of the storage."""
        return names.join(self.path, REFERENCES)

    @property
    def unique(self) -> str:
        """The digits that are its own. In the pool they name the directory of what it copied."""
        return names.leaf(self.path).rpartition("-")[2]

    @property
    def place(self) -> str:
        """Where it is, for messages."""
        return self.uri.removeprefix("file://")

    @property
    def references_place(self) -> str:
        """Where its references are, for messages."""
        return f"{self.place}/{REFERENCES}"

    def parts(self, manifest: Manifest) -> list[SavedPart]:
        """Return where the files of its manifest are: with it, or in directories of the pool."""
        by_pool: dict[str, list[SavedFile]] = {}
        for each in manifest.files:
            by_pool.setdefault(each.pool, []).append(each)
        return [SavedPart(self._part(pool), tuple(files)) for pool, files in by_pool.items()]

    def _part(self, pool: str) -> Checkpoint:
        if not pool:
            return self.checkpoint
        place = names.join(names.parent(self.path), POOL, pool)
        return Checkpoint(self.storage, place, f"{self.uri.rpartition('/')[0]}/{POOL}/{pool}")

    def read(self) -> Manifest:
        """Return what it is. Raises CheckpointUnfit where it is none, or damaged; StorageError."""
        place = f"{self.place}/{MANIFEST}"
        try:
            data = self.storage.read(self.manifest_path)
        except PathMissing:
            raise CheckpointUnfit(
                f"{self.place} is not a complete savepoint: {place} is missing",
                hint=f"name a savepoint: `ashore checkpoint list {self.place}` shows those of a"
                " directory, and which are complete",
                why="no_savepoint",
            ) from None
        return parse_manifest(data, place)


@dataclass(frozen=True, slots=True)
class FoundSavepoint:
    """A directory that has the name of a savepoint.

    Arguments:
        savepoint: that is there, or was begun.
        manifest: None where it is not complete, or damaged.
        problem: what is wrong with it; empty: nothing.

    """

    savepoint: Savepoint
    manifest: Manifest | None
    problem: str = ""


def savepoint_name(batch: int, unique: str) -> str:
    """Return the name of a directory. `unique`: 16 hexadecimal digits, used once."""
    return f"savepoint-{batch}-{unique}"


def find_savepoints(storage: Storage, path: str, uri: str) -> list[Savepoint]:
    """Return the savepoints in a directory, also those that are not complete.

    Raises StorageError.
    """
    return [
        Savepoint(storage, each.path, f"{uri}/{names.leaf(each.path)}")
        for each in storage.list(path)
        if each.is_directory and _NAME.fullmatch(names.leaf(each.path))
    ]


def list_savepoints(storage: Storage, path: str, uri: str) -> list[FoundSavepoint]:
    """Return the savepoints in a directory, oldest first; those without a time come last.

    Raises StorageError.
    """
    found = find_savepoints(storage, path, uri)
    with ThreadPoolExecutor(WORKERS) as pool:
        listed = list(pool.map(_look, found))
    return sorted(
        listed,
        key=lambda each: (
            each.manifest is None,
            each.manifest.made_ms if each.manifest else 0,
            each.savepoint.path,
        ),
    )


def _look(savepoint: Savepoint) -> FoundSavepoint:
    try:
        return FoundSavepoint(savepoint, savepoint.read())
    except CheckpointUnfit as error:
        return FoundSavepoint(savepoint, None, error.message)


def delete_savepoint(savepoint: Savepoint) -> int:
    """Delete a savepoint, also one that was begun and not finished. Returns how many files.

    If interrupted: it is no savepoint any more; delete it again.
    Raises CheckpointUnfit where the directory has another name than a savepoint; StorageError.
    """
    require_savepoint(savepoint)
    has_manifest = delete_path(savepoint.storage, savepoint.manifest_path)
    return has_manifest + delete_tree(savepoint.storage, savepoint.path)


def count_savepoint(savepoint: Savepoint) -> int:
    """Return how many files `delete_savepoint` would delete. Raises as that."""
    require_savepoint(savepoint)
    return sum(1 for each in walk(savepoint.storage, savepoint.path) if not each.is_directory)


def require_savepoint(savepoint: Savepoint) -> None:
    """Raise CheckpointUnfit where a directory is no savepoint, or not there."""
    if not _NAME.fullmatch(names.leaf(savepoint.path)):
        problem = "is not a savepoint: its name is not like savepoint-118-3f9c0a12b4d5e6f7"
    elif savepoint.storage.stat(savepoint.path) is None:
        problem = "does not exist"
    else:
        return
    raise CheckpointUnfit(
        f"{savepoint.place} {problem}",
        hint="`ashore checkpoint list DIR` shows savepoints",
        why="no_savepoint",
    )


def delete_tree(storage: Storage, path: str) -> int:
    """Delete a directory and all that is below it. Returns how many files.

    If interrupted: some of it is left.
    Raises StorageError.
    """
    found = list(walk(storage, path))
    files = [each.path for each in found if not each.is_directory]
    with ThreadPoolExecutor(WORKERS) as pool:
        for _done in pool.map(lambda each: delete_path(storage, each), files):
            pass
    for each in reversed([each.path for each in found if each.is_directory]):
        delete_path(storage, each)
    delete_path(storage, path)
    return len(files)


def walk(storage: Storage, path: str) -> Iterator[FileStat]:
    """Yield what is below a directory: a directory before what is in it."""
    for each in storage.list(path):
        yield each
        if each.is_directory:
            yield from walk(storage, each.path)


def delete_path(storage: Storage, path: str) -> bool:
    """Delete a file or an empty directory. Returns whether it was there."""
    try:
        storage.delete(path)
    except PathMissing:
        return False
    return True
