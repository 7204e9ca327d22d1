"""Savepoints: the use cases behind `ashore checkpoint savepoint`, `list`, `verify`, `delete` and
`restore`.

What it promises: what a plan shows is what is done, unless the query has gone on in between.
What it must not know: terminals.
"""

from ashore.base.clock import Clock
from ashore.checkpoints.checkpoint import Checkpoint
from ashore.checkpoints.directories import open_directory
from ashore.checkpoints.required import Required
from ashore.checkpoints.savepoints.manifest import Manifest
from ashore.checkpoints.savepoints.restore import Restored, require_empty, restore
from ashore.checkpoints.savepoints.save import Saved, Shelf, save
from ashore.checkpoints.savepoints.store import (
    FoundSavepoint,
    Savepoint,
    count_savepoint,
    delete_savepoint,
    list_savepoints,
)
from ashore.checkpoints.savepoints.transfer import Advance, check_files
from ashore.checkpoints.survey import take_survey
from ashore.errors import CheckpointUnfit


def plan_savepoint(checkpoint: Checkpoint, batch: int | None) -> Required:
    """Return what a savepoint would copy. Raises as `take_survey`."""
    return take_survey(checkpoint, batch).required


def take_savepoint(
    checkpoint: Checkpoint, batch: int | None, shelf: Shelf, clock: Clock, advance: Advance
) -> Saved:
    """Take a savepoint. Raises as `save`."""
    return save(checkpoint, batch, shelf, clock, advance)


def list_directory(directory: str, clock: Clock) -> list[FoundSavepoint]:
    """Return the savepoints in a directory. Raises as `list_savepoints`; JobFileInvalid."""
    place = open_directory(directory, clock)
    return list_savepoints(place.storage, place.path, place.uri)


def find_savepoint(where: str, clock: Clock) -> Savepoint:
    """Return the savepoint at a place, which may not be one. Raises JobFileInvalid."""
    place = open_directory(where, clock)
    return Savepoint(place.storage, place.path, place.uri)


def verify(savepoint: Savepoint, advance: Advance) -> tuple[Manifest, list[CheckpointUnfit]]:
    """Return what a savepoint is, and what is wrong with its files.

    Raises CheckpointUnfit where its manifest cannot be read; StorageError.
    """
    manifest = savepoint.read()
    return manifest, check_files(manifest.files, savepoint.checkpoint, advance)


def delete(savepoint: Savepoint) -> int:
    """Delete a savepoint, and return how many files it had. Raises as `delete_savepoint`."""
    return delete_savepoint(savepoint)


def count_files(savepoint: Savepoint) -> int:
    """Return how many files `delete` would delete. Raises as `delete`."""
    return count_savepoint(savepoint)


def plan_restore(savepoint: Savepoint, to: str, clock: Clock) -> Manifest:
    """Return what `restore_savepoint` would bring. Raises CheckpointUnfit, JobFileInvalid."""
    manifest = savepoint.read()
    require_empty(open_directory(to, clock))
    return manifest


def restore_savepoint(
    savepoint: Savepoint, to: str, clock: Clock, advance: Advance, *, links: bool
) -> Restored:
    """Make a checkpoint in the directory `to`. Raises as `restore`; JobFileInvalid."""
    return restore(savepoint, open_directory(to, clock), clock, advance, links=links)
