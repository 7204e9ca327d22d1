"""Taking a savepoint: a whole copy of what one batch needs, or what of it a pool does not have yet.

What it is: `save`; `share_files`, which writes the references of a shared savepoint and fills the
pool, and `finish_shared`, which writes its manifest.
What it promises: the checkpoint is only read. The savepoint is complete once its manifest is there,
which is written after all files are durable and were read back. It may be taken beside a running
Spark: a batch that is done does not change. Where Spark deletes a file meanwhile, as it keeps only
the newest batches, a newer batch is taken. Shared: only files are relied on that another complete
savepoint has verified, that are there with their size, and that no sweep is about to delete; each
is known by its content, or by a name that Spark gives once. A savepoint that was deleted while it
was taken never becomes complete.
"""

import contextlib
import re
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from ashore import __version__
from ashore.base.clock import Clock
from ashore.base.unique import unique
from ashore.errors import CheckpointUnfit, InvariantBroken, PathMissing, StorageError
from ashore.queries.state.checkpoint import Checkpoint, open_directory
from ashore.queries.state.files import WORKERS, CheckpointStore, link_between
from ashore.queries.state.layout import ChecksumPath, StatePath, TablePath, parse_path
from ashore.queries.state.savepoints.manifest import (
    Manifest,
    SavedFile,
    SavepointKind,
    write_manifest,
    write_references,
)
from ashore.queries.state.savepoints.pool import Pool, pool_of
from ashore.queries.state.savepoints.store import (
    MANIFEST,
    REFERENCES,
    UNFINISHED,
    Savepoint,
    delete_savepoint,
    savepoint_in,
    savepoint_name,
)
from ashore.queries.state.savepoints.sweep import abandon_shared, remove_savepoint
from ashore.queries.state.savepoints.transfer import (
    Advance,
    ExpectedFile,
    Transferred,
    digest_file,
    has_paths,
    transfer_files,
)
from ashore.queries.state.survey import Survey, take_survey

T = TypeVar("T")

TRIES = 5  # with a newer batch each time: Spark keeps a hundred of them by default
_TABLE = re.compile(r"[0-9]+-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\.sst")


def share_files(
    source: Checkpoint,
    files: Sequence[ExpectedFile],
    savepoint: Savepoint,
    advance: Advance,
    *,
    links: bool,
) -> Transferred:
    """Say what a savepoint relies on in the pool, and copy there what is missing.

    What is returned are all its files, sorted by path; linked are those of them that were copied.

    Requires: only the caller knows the savepoint.
    If interrupted: references may be there, and files of its own in the pool; no manifest.

    Arguments:
        source: that is copied.
        files: which files.
        savepoint: that is made, beside the pool.
        advance: called as files are done.
        links: whether files may get a second name instead of a copy, where the disk can.

    Raises as `transfer_files`; CheckpointUnfit where a list of the pool is damaged.

    """
    pool = pool_of(savepoint)
    candidates = plan_sharing(files, pool.find_saved())
    references = [each.in_pool for each in candidates.values()]
    savepoint.create(REFERENCES, write_references(references))
    # Only now: a sweep that has not seen the references has condemned its files before.
    condemned = pool.read_condemned()
    there = pool.stat_files(references)
    fit = [
        each
        for each in candidates.values()
        if each.in_pool not in condemned
        and (found := there.get(each.in_pool))
        and found.size == each.size_bytes
    ]
    shared = {each.path: each for each in _find_same(source, fit)}
    copied = [each for each in files if each.path not in shared]
    part = pool.part(savepoint.unique)
    done = transfer_files(
        copied,
        source,
        part,
        link_between(source, part) if links else None,
        lambda number, _: advance(len(shared) + number, len(files)),
    )
    own = [
        SavedFile(each.path, each.size_bytes, each.checksum, savepoint.unique)
        for each in done.files
    ]
    saved = sorted([*shared.values(), *own], key=lambda each: each.path)
    return Transferred(tuple(saved), done.linked)


def finish_shared(savepoint: Savepoint, manifest: Manifest) -> None:
    """Write the manifest, last.

    A deletion takes the references away before it looks whether the directory is empty: so either
    that is seen here, or the unfinished manifest is seen there, and deleted before it has its name.

    If interrupted: the savepoint is complete, or it has no manifest.
    Raises CheckpointUnfit where the savepoint was deleted meanwhile; StorageError.
    """
    savepoint.create(UNFINISHED, write_manifest(manifest))
    if not savepoint.has_references():
        raise CheckpointUnfit(
            f"{savepoint.place} was deleted while it was taken",
            hint="take another one",
            why="no_savepoint",
        )
    savepoint.publish(UNFINISHED, MANIFEST)


def plan_sharing(
    files: Iterable[ExpectedFile], saved: "dict[tuple[str, int], SavedFile]"
) -> dict[str, SavedFile]:
    """Return what may be the same in the pool as a wanted file, by its path. Pure."""
    return {
        each.path: found
        for each in files
        if (found := saved.get((each.path, each.size_bytes))) and not has_paths(each.path)
    }


def is_named_once(path: str) -> bool:
    """Return whether Spark never gives a file's path to another content: it has a UUID in it."""
    match parse_path(path):
        case TablePath(name=name):
            return _TABLE.fullmatch(name) is not None
        case StatePath(unique=unique) | ChecksumPath(StatePath(unique=unique)):
            return unique != ""
        case _:
            return False


def _find_same(source: Checkpoint, candidates: Sequence[SavedFile]) -> list[SavedFile]:
    """Return those whose content is that of the source, read where names do not show it."""
    with ThreadPoolExecutor(WORKERS) as workers:
        same = workers.map(lambda each: _is_same(source, each), candidates)
        return [each for each, is_same in zip(candidates, same, strict=True) if is_same]


def _is_same(source: Checkpoint, candidate: SavedFile) -> bool:
    if is_named_once(candidate.path):
        return True
    return digest_file(source, candidate.path) == (candidate.size_bytes, candidate.checksum)


@dataclass(frozen=True, slots=True)
class Shelf(CheckpointStore):
    """A directory for savepoints.

    Arguments:
        make_unique: returns 16 hexadecimal digits that it never returned before.
        links: whether files may get a second name instead of a copy, where the disk can.
        kind: whether savepoints have their files themselves, or share those of the pool.

    """

    make_unique: Callable[[], str]
    links: bool = True
    kind: SavepointKind = SavepointKind.FULL

    @property
    def pool(self) -> Pool:
        """The pool of its shared savepoints."""
        return Pool.beside(self)

    def savepoint(self, batch: int) -> Savepoint:
        """Return a savepoint that is not there yet."""
        return savepoint_in(self, savepoint_name(batch, self.make_unique()))


def open_shelf(to: str, clock: Clock, *, links: bool, is_shared: bool = False) -> Shelf:
    """Return the directory `to`, for savepoints: nothing is read or written yet.

    Arguments:
        to: a path on this machine, `file://...`, `hdfs://...` or `s3://...`.
        clock: of the storage.
        links: whether files may get a second name instead of a copy.
        is_shared: whether savepoints share files in a pool in that directory.

    Raises JobFileInvalid, NotInstalled.

    """
    place = open_directory(to, clock)
    kind = SavepointKind.SHARED if is_shared else SavepointKind.FULL
    return Shelf(place.storage, place.path, place.uri, unique, links, kind)


@dataclass(frozen=True, slots=True)
class Saved:
    """A savepoint that was taken."""

    savepoint: Savepoint
    manifest: Manifest
    linked: int  # files that have a second name instead of a copy
    seconds: float

    @property
    def shared(self) -> tuple[SavedFile, ...]:
        """Files that were not copied, as the pool had them."""
        own = {"", self.savepoint.unique}
        return tuple(each for each in self.manifest.files if each.pool not in own)

    @property
    def shared_bytes(self) -> int:
        """Of these files."""
        return sum(each.size_bytes for each in self.shared)


def save(
    checkpoint: Checkpoint, batch: int | None, shelf: Shelf, clock: Clock, advance: Advance
) -> Saved:
    """Take a savepoint.

    If interrupted: a part of one may be there without a manifest: it is never restored, and
    `remove_savepoint` removes it.

    Arguments:
        checkpoint: that is copied.
        batch: that is done; None: the newest.
        shelf: where savepoints go.
        clock: for the time in the manifest.
        advance: called as files are done.

    Raises CheckpointUnfit where the checkpoint does not keep the batch, or is damaged;
    StorageError.

    """
    started_s = clock.monotonic_s()

    def take() -> Saved:
        survey = take_survey(checkpoint, batch)
        savepoint = shelf.savepoint(survey.required.batch)
        manifest, linked = _save(survey, savepoint, shelf, clock, advance)
        return Saved(savepoint, manifest, linked, clock.monotonic_s() - started_s)

    return copy_newest(checkpoint, batch, take)


def copy_newest(checkpoint: Checkpoint, batch: int | None, copy: Callable[[], T]) -> T:
    """Return what `copy` returns; where Spark has deleted a file of a batch, of a newer batch.

    `batch`: that was chosen, and is the only one that is tried; None: the newest.

    Raises CheckpointUnfit where a file of the batch is gone; StorageError; what `copy` raises.
    """
    for last_try in (*[False] * (TRIES - 1), True):
        newest = checkpoint.list_finished()[-1:]
        try:
            return copy()
        except (PathMissing, CheckpointUnfit) as error:
            if not last_try and batch is None and checkpoint.list_finished()[-1:] != newest:
                continue
            if isinstance(error, CheckpointUnfit):
                raise
            raise CheckpointUnfit(
                f"{error.message}: a file of the batch is gone",
                hint="is the job running? then omit --batch, so that its newest batch is taken",
                why="missing",
            ) from error
    raise InvariantBroken("the last try returns or raises")


def _save(
    survey: Survey, savepoint: Savepoint, shelf: Shelf, clock: Clock, advance: Advance
) -> tuple[Manifest, int]:
    source, required = survey.checkpoint, survey.required
    files = [ExpectedFile(each.path, each.size_bytes) for each in required.files]
    done = _copy(source, files, savepoint, shelf, advance)
    manifest = Manifest(
        query_id=required.query_id,
        batch=required.batch,
        planned=required.planned,
        made_ms=clock.now_ms(),
        source=source.uri,
        release=__version__,
        files=done.files,
        kind=shelf.kind,
    )
    if shelf.kind is SavepointKind.SHARED:
        _finish(savepoint, manifest, shelf)
    else:
        savepoint.create(MANIFEST, write_manifest(manifest))
    return manifest, done.linked


def _copy(
    source: Checkpoint,
    files: Sequence[ExpectedFile],
    savepoint: Savepoint,
    shelf: Shelf,
    advance: Advance,
) -> Transferred:
    """Copy all files, or those that the pool does not have; where that fails leave nothing."""
    is_shared = shelf.kind is SavepointKind.SHARED
    try:
        if is_shared:
            return share_files(source, files, savepoint, advance, links=shelf.links)
        link = link_between(source, savepoint.checkpoint) if shelf.links else None
        return transfer_files(files, source, savepoint.checkpoint, link, advance)
    except (StorageError, CheckpointUnfit):
        with contextlib.suppress(StorageError, CheckpointUnfit):
            if is_shared:
                abandon_shared(savepoint, shelf.make_unique)
            else:
                delete_savepoint(savepoint)
        raise


def _finish(savepoint: Savepoint, manifest: Manifest, shelf: Shelf) -> None:
    try:
        finish_shared(savepoint, manifest)
    except (StorageError, CheckpointUnfit):
        with contextlib.suppress(StorageError, CheckpointUnfit):
            remove_savepoint(savepoint, shelf.make_unique)
        raise
