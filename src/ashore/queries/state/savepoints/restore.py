"""Restoring a savepoint: a checkpoint that Spark continues from, at a new place.

What it promises: the savepoint is only read, and each file is compared with its manifest. Nothing
is overwritten: the place must be empty. The file `metadata` comes last, and at once: until then
Spark refuses the directory.
"""

import contextlib
from dataclasses import dataclass

from ashore.base.clock import Clock
from ashore.errors import CheckpointUnfit, PathExists, StorageError
from ashore.queries.state.checkpoint import Checkpoint
from ashore.queries.state.files import link_between
from ashore.queries.state.layout import QueryPath
from ashore.queries.state.savepoints.manifest import Manifest, SavedFile
from ashore.queries.state.savepoints.store import Savepoint
from ashore.queries.state.savepoints.transfer import (
    Advance,
    ExpectedFile,
    read_whole,
    shift,
    transfer_files,
)


@dataclass(frozen=True, slots=True)
class Restored:
    """A savepoint that was restored."""

    checkpoint: Checkpoint
    manifest: Manifest
    linked: int  # files that have a second name instead of a copy
    seconds: float


def require_empty(target: Checkpoint) -> None:
    """Raise CheckpointUnfit where something is at a place already. Raises StorageError."""
    found = target.stat()
    if found is None or (found.is_directory and not target.list_entries()):
        return
    raise CheckpointUnfit(
        f"{target.place} is not empty",
        hint="name a directory that does not exist yet, or delete this one",
        why="not_empty",
    )


def restore(
    savepoint: Savepoint, target: Checkpoint, clock: Clock, advance: Advance, *, links: bool = True
) -> Restored:
    """Make a checkpoint out of a savepoint.

    Requires: no other process writes to the target.
    If interrupted: files may be at the target, without `metadata`; delete them and call it again.

    Arguments:
        savepoint: that is read.
        target: where the checkpoint is made.
        clock: measures how long it took.
        advance: called as files are done.
        links: whether files may get a second name instead of a copy, where the disk can.

    Raises CheckpointUnfit where the savepoint is incomplete or damaged, or the target not empty;
    StorageError. Then what was written is deleted again, as far as the storage lets it. Nothing is
    deleted where another process writes to the target (PathExists), and where only `metadata`
    failed.

    """
    started_s = clock.monotonic_s()
    manifest = savepoint.read_manifest()
    require_empty(target)
    try:
        linked = _transfer(savepoint, manifest, target, advance, links=links)
    except PathExists:
        raise  # another process writes there: what is deleted might be theirs
    except (StorageError, CheckpointUnfit):
        with contextlib.suppress(StorageError):
            target.delete_all()
        raise
    for store, saved in savepoint.parts(manifest):
        for each in saved:
            if each.path == QueryPath().path:
                # At once, and never deleted: it may be there although the call failed.
                data = read_whole(store, _expect(each))
                target.create(each.path, data)
    return Restored(target, manifest, linked, clock.monotonic_s() - started_s)


def _transfer(
    savepoint: Savepoint, manifest: Manifest, target: Checkpoint, advance: Advance, *, links: bool
) -> int:
    """Copy or link all files but `metadata`, and return how many were linked."""
    linked = done = 0
    for store, saved in savepoint.parts(manifest):
        files = [_expect(each) for each in saved if each.path != QueryPath().path]
        link = link_between(store, target) if links else None
        shown = shift(advance, done, len(manifest.files) - 1)
        linked += transfer_files(files, store, target, link, shown).linked
        done += len(files)
    return linked


def _expect(file: SavedFile) -> ExpectedFile:
    return ExpectedFile(file.path, file.size_bytes, file.checksum)
