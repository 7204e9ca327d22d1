"""Where savepoints are: listed, opened, deleted.

What it promises: a directory is a savepoint by its name, and a complete one by its manifest. Only
such directories are deleted: the manifest first, so that what is left of one is never restored.
"""

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from ashore.errors import CheckpointUnfit, PathMissing
from ashore.log import names
from ashore.queries.state.checkpoint import Checkpoint
from ashore.queries.state.files import WORKERS, CheckpointStore
from ashore.queries.state.savepoints.manifest import (
    Manifest,
    PoolFile,
    SavedFile,
    parse_manifest,
    parse_references,
)

MANIFEST = "savepoint.json"
UNFINISHED = "savepoint.json.new"  # the manifest of a shared savepoint, for a moment
REFERENCES = "references.json"  # of a shared savepoint: what it may rely on in the pool
FILES = "checkpoint"
POOL = "pool"  # beside savepoints: files of shared ones
_NAME = re.compile(r"savepoint-(0|[1-9][0-9]{0,18})-[0-9a-f]{16}")


@dataclass(frozen=True, slots=True)
class Savepoint(CheckpointStore):
    """A savepoint at `path` of a storage, which Spark would know as `uri`."""

    @property
    def checkpoint(self) -> Checkpoint:
        """Its files, as a checkpoint."""
        return Checkpoint(self.storage, names.join(self.path, FILES), f"{self.uri}/{FILES}")

    @property
    def unique(self) -> str:
        """The digits that are its own. In the pool they name the directory of what it copied."""
        return names.leaf(self.path).rpartition("-")[2]

    def is_taken(self) -> bool:
        """Return whether it has a manifest, whatever is in it. Raises StorageError."""
        return self.stat(MANIFEST) is not None

    def has_references(self) -> bool:
        """Return whether it may rely on files of a pool. Raises StorageError."""
        return self.stat(REFERENCES) is not None

    def read_references(self) -> frozenset[PoolFile]:
        """Return what it may rely on in a pool. Raises CheckpointUnfit, StorageError."""
        return parse_references(self.read(REFERENCES), f"{self.place}/{REFERENCES}")

    def parts(self, manifest: Manifest) -> list[tuple[CheckpointStore, list[SavedFile]]]:
        """Return where the files of its manifest are: with it, or in directories of the pool."""
        by_pool: dict[str, list[SavedFile]] = {}
        for each in manifest.files:
            by_pool.setdefault(each.pool, []).append(each)
        return [(self._part(pool), files) for pool, files in by_pool.items()]

    def _part(self, pool: str) -> CheckpointStore:
        if not pool:
            return self.checkpoint
        path = names.join(names.parent(self.path), POOL, pool)
        return CheckpointStore(self.storage, path, f"{self.uri.rpartition('/')[0]}/{POOL}/{pool}")

    def read_manifest(self) -> Manifest:
        """Return what it is. Raises CheckpointUnfit where it is none, or damaged; StorageError."""
        place = f"{self.place}/{MANIFEST}"
        try:
            data = self.read(MANIFEST)
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


def find_savepoints(directory: CheckpointStore) -> list[Savepoint]:
    """Return the savepoints in a directory, also those that are not complete.

    Raises StorageError.
    """
    listed = directory.list_directory().directories
    return [savepoint_in(directory, name) for name in listed if _NAME.fullmatch(name)]


def savepoint_in(directory: CheckpointStore, name: str) -> Savepoint:
    """Return the savepoint of a name in a directory, which may not be there yet."""
    return Savepoint(directory.storage, directory.full_path(name), f"{directory.uri}/{name}")


def list_savepoints(directory: CheckpointStore) -> list[FoundSavepoint]:
    """Return the savepoints in a directory, oldest first; those without a time come last.

    Raises StorageError.
    """
    with ThreadPoolExecutor(WORKERS) as pool:
        listed = list(pool.map(_look, find_savepoints(directory)))
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
        return FoundSavepoint(savepoint, savepoint.read_manifest())
    except CheckpointUnfit as error:
        return FoundSavepoint(savepoint, None, error.message)


def delete_savepoint(savepoint: Savepoint) -> int:
    """Delete a savepoint, also one that was begun and not finished. Returns how many files.

    If interrupted: it is no savepoint any more; delete it again.
    Raises CheckpointUnfit where the directory has another name than a savepoint; StorageError.
    """
    require_savepoint(savepoint)
    has_manifest = savepoint.delete(MANIFEST)
    return has_manifest + savepoint.delete_all()


def count_savepoint(savepoint: Savepoint) -> int:
    """Return how many files `delete_savepoint` would delete. Raises as that."""
    require_savepoint(savepoint)
    return sum(1 for each in savepoint.walk() if not each.is_directory)


def require_savepoint(savepoint: Savepoint) -> None:
    """Raise CheckpointUnfit where a directory is no savepoint, or not there."""
    if not _NAME.fullmatch(names.leaf(savepoint.path)):
        problem = "is not a savepoint: its name is not like savepoint-118-3f9c0a12b4d5e6f7"
    elif savepoint.stat() is None:
        problem = "does not exist"
    else:
        return
    raise CheckpointUnfit(
        f"{savepoint.place} {problem}",
        hint="`ashore checkpoint list DIR` shows savepoints",
        why="no_savepoint",
    )
