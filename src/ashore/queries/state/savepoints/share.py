"""What a shared savepoint takes from the pool, and what it has to copy there.

What it is: `share_files`, which writes the references of a savepoint and fills the pool, and
`finish_shared`, which writes its manifest.
What it promises: only files are relied on that another complete savepoint has verified, that are
there with their size, and that no sweep is about to delete; each is known by its content, or by a
name that Spark gives once. A savepoint that was deleted while it was taken never becomes complete.
"""

import re
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from ashore.errors import CheckpointUnfit
from ashore.queries.state.checkpoint import Checkpoint
from ashore.queries.state.files import WORKERS, link_between
from ashore.queries.state.layout import ChecksumPath, StatePath, TablePath, parse_path
from ashore.queries.state.savepoints.manifest import (
    Manifest,
    SavedFile,
    write_manifest,
    write_references,
)
from ashore.queries.state.savepoints.pool import pool_of
from ashore.queries.state.savepoints.store import MANIFEST, REFERENCES, UNFINISHED, Savepoint
from ashore.queries.state.savepoints.transfer import (
    Advance,
    ExpectedFile,
    Transferred,
    digest_file,
    has_paths,
    transfer_files,
)

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
