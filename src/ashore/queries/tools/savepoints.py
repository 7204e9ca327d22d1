"""Savepoints: the use cases behind `ashore checkpoint savepoint`, `list`, `verify`, `delete` and
`restore`.

What it promises: what a plan shows is what is done, unless the query has gone on in between.
"""

from dataclasses import dataclass

from ashore.base.clock import Clock
from ashore.base.unique import unique
from ashore.errors import CheckpointUnfit, JobFileInvalid
from ashore.queries.state.checkpoint import Checkpoint, open_directory
from ashore.queries.state.required_files import Required
from ashore.queries.state.savepoints.manifest import Manifest, SavedFile, SavepointKind
from ashore.queries.state.savepoints.restore import Restored, require_empty, restore
from ashore.queries.state.savepoints.save import Saved, Shelf, plan_sharing, save
from ashore.queries.state.savepoints.store import (
    FoundSavepoint,
    Savepoint,
    list_savepoints,
    savepoint_in,
)
from ashore.queries.state.savepoints.sweep import count_removed, remove_savepoint
from ashore.queries.state.savepoints.transfer import Advance, ExpectedFile, check_files, shift
from ashore.queries.state.survey import take_survey


@dataclass(frozen=True, slots=True)
class PlannedSavepoint:
    """What a savepoint would hold.

    Arguments:
        required: what the batch needs.
        kind: of the savepoint.
        shared: files that the pool seems to have, by path and size.

    """

    required: Required
    kind: SavepointKind
    shared: tuple[SavedFile, ...] = ()


def plan_savepoint(checkpoint: Checkpoint, batch: int | None, shelf: Shelf) -> PlannedSavepoint:
    """Return what a savepoint would copy. Raises as `take_survey`."""
    required = take_survey(checkpoint, batch).required
    if shelf.kind is SavepointKind.FULL:
        return PlannedSavepoint(required, shelf.kind)
    files = [ExpectedFile(each.path, each.size_bytes) for each in required.files]
    shared = plan_sharing(files, shelf.pool.find_saved())
    return PlannedSavepoint(required, shelf.kind, tuple(shared.values()))


def take_savepoint(
    checkpoint: Checkpoint, batch: int | None, shelf: Shelf, clock: Clock, advance: Advance
) -> Saved:
    """Take a savepoint. Raises as `save`."""
    return save(checkpoint, batch, shelf, clock, advance)


def list_directory(directory: str, clock: Clock) -> list[FoundSavepoint]:
    """Return the savepoints in a directory. Raises as `list_savepoints`; JobFileInvalid."""
    return list_savepoints(open_directory(directory, clock))


def find_savepoint(where: str, clock: Clock) -> Savepoint:
    """Return the savepoint at a place, which may not be one. Raises JobFileInvalid."""
    place = open_directory(where, clock)
    directory, _, name = place.uri.rpartition("/")
    try:
        shelf = open_directory(directory, clock)
    except JobFileInvalid:  # at the root, where no savepoint shares files
        return Savepoint(place.storage, place.path, place.uri)
    return savepoint_in(shelf, name)


def verify_savepoint(
    savepoint: Savepoint, advance: Advance
) -> tuple[Manifest, list[CheckpointUnfit]]:
    """Return what a savepoint is, and what is wrong with its files.

    Raises CheckpointUnfit where its manifest cannot be read; StorageError.
    """
    manifest = savepoint.read_manifest()
    wrong, done = list[CheckpointUnfit](), 0
    for store, files in savepoint.parts(manifest):
        wrong += check_files(files, store, shift(advance, done, len(manifest.files)))
        done += len(files)
    return manifest, wrong


def delete(savepoint: Savepoint) -> int:
    """Delete a savepoint, and return how many files it had. Raises as `remove_savepoint`."""
    return remove_savepoint(savepoint, unique)


def count_files(savepoint: Savepoint) -> int:
    """Return how many files `delete` would delete. Raises as `delete`."""
    return count_removed(savepoint)


def plan_restore(savepoint: Savepoint, to: str, clock: Clock) -> Manifest:
    """Return what `restore_savepoint` would bring. Raises CheckpointUnfit, JobFileInvalid."""
    manifest = savepoint.read_manifest()
    require_empty(open_directory(to, clock))
    return manifest


def restore_savepoint(
    savepoint: Savepoint, to: str, clock: Clock, advance: Advance, *, links: bool
) -> Restored:
    """Make a checkpoint in the directory `to`. Raises as `restore`; JobFileInvalid."""
    return restore(savepoint, open_directory(to, clock), clock, advance, links=links)
