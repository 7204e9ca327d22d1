"""Deleting savepoints, and what nothing needs of the pool then.

What it is: `remove_savepoint` for any savepoint, and `sweep` over files of the pool.
What it promises: a file of the pool is deleted only where no savepoint needs it, also while
another one is taken or deleted: see `pool`. A savepoint is no savepoint any more before any of its
files is deleted.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

from ashore.errors import CheckpointUnfit, InvariantBroken, PathMissing, StorageError
from ashore.log import names
from ashore.queries.state.cleaner import find_directories
from ashore.queries.state.files import WORKERS
from ashore.queries.state.savepoints.manifest import PoolFile, write_references
from ashore.queries.state.savepoints.pool import Pool, References, pool_of
from ashore.queries.state.savepoints.store import (
    MANIFEST,
    REFERENCES,
    UNFINISHED,
    Savepoint,
    count_savepoint,
    delete_savepoint,
    require_savepoint,
)

_ROUNDS = 5  # a taker that has not noticed the deletion yet writes one file more, once


def remove_savepoint(savepoint: Savepoint, make_unique: Callable[[], str]) -> int:
    """Delete a savepoint, also one that was begun and not finished. Returns how many files.

    Of a shared one that is its own files, and those of the pool that no other one needs.

    If interrupted: delete it again; where its directory is gone `sweep` finds the rest.

    Arguments:
        savepoint: to delete.
        make_unique: returns 16 hexadecimal digits that it never returned before.

    Raises CheckpointUnfit where the directory has another name than a savepoint, and, before
    anything is changed, where another one does not list what it needs; StorageError.

    """
    require_savepoint(savepoint)
    if not _is_shared(savepoint):
        return delete_savepoint(savepoint)
    pool = pool_of(savepoint)
    pool.read_references(without=savepoint)  # or raise, as long as nothing is changed
    needed = _read_own_references(savepoint)
    deleted = _remove_directory(savepoint)
    candidates = {*needed, *_list_part(pool, savepoint.unique)}
    return deleted + len(sweep(pool, candidates, make_unique))


def abandon_shared(savepoint: Savepoint, make_unique: Callable[[], str]) -> None:
    """Delete what a taker has made of a savepoint. Raises as `remove_savepoint`.

    What it has copied is deleted as it is, which a full disk allows too: nothing relies on that.

    Requires: its manifest was never begun.
    If interrupted: `remove_savepoint` continues with it; where its directory is gone `clean` does.
    """
    pool = pool_of(savepoint)
    needed = _read_own_references(savepoint)
    _remove_directory(savepoint)
    pool.part(savepoint.unique).delete_all()
    sweep(pool, needed, make_unique)


def count_removed(savepoint: Savepoint) -> int:
    """Return how many files `remove_savepoint` would delete. Raises as that."""
    count = count_savepoint(savepoint)
    if not _is_shared(savepoint):
        return count
    pool = pool_of(savepoint)
    references = pool.read_references(without=savepoint)
    own = _list_part(pool, savepoint.unique)
    candidates = own | _read_own_references(savepoint)
    there = own.union(pool.stat_files(candidates - own))
    return count + sum(each not in references for each in there)


def sweep(
    pool: Pool, candidates: Iterable[PoolFile], make_unique: Callable[[], str]
) -> list[PoolFile]:
    """Delete those of some files that no savepoint needs. Returns those that were deleted.

    If interrupted: the list of what it was about to delete is left in the pool, and keeps later
    savepoints from relying on that; `clean` finds the rest.
    Raises CheckpointUnfit where a savepoint does not list what it needs; StorageError.
    """
    references = pool.read_references()
    doomed = [each for each in candidates if each not in references]
    if not doomed:
        return []
    condemned = f"condemned-{make_unique()}.json"
    pool.create(condemned, write_references(doomed))
    # Again, and only now: a taker that has not seen the list has written its references before.
    references = pool.read_references()
    doomed = [each for each in doomed if each not in references]
    with ThreadPoolExecutor(WORKERS) as workers:
        deleted = list(workers.map(lambda each: pool.delete(each.path_in_pool), doomed))
    _remove_emptied(pool, {each.pool for each in doomed}, references)
    pool.delete(condemned)
    return [each for each, was_there in zip(doomed, deleted, strict=True) if was_there]


def _remove_emptied(pool: Pool, parts: Iterable[str], references: References) -> None:
    """Remove directories of the pool in which no file is left, and whose savepoint is gone."""
    for each in sorted(parts):
        part = pool.part(each)
        if each not in references.owners:
            for directory in find_directories(part):
                part.delete(directory.path)


def _is_shared(savepoint: Savepoint) -> bool:
    """Return whether a savepoint has files in the pool, or may have."""
    if not names.parent(savepoint.path):
        return False  # at the root of a storage: there is no directory for a pool
    return savepoint.has_references() or pool_of(savepoint).stat(savepoint.unique) is not None


def _read_own_references(savepoint: Savepoint) -> frozenset[PoolFile]:
    """Return what it may rely on; nothing where that cannot be read: `clean` finds it then."""
    try:
        return savepoint.read_references()
    except (PathMissing, CheckpointUnfit):
        return frozenset()


def _list_part(pool: Pool, name: str) -> set[PoolFile]:
    return {PoolFile(name, each.path) for each in pool.part(name).list_files()}


def _remove_directory(savepoint: Savepoint) -> int:
    """Remove the directory of a savepoint, also while it is taken. Returns how many files."""
    deleted = 0
    for last_round in (*[False] * (_ROUNDS - 1), True):
        # A manifest gets its name from the unfinished one, which may still happen until that is
        # gone. A taker begins none where the references are gone.
        for name in (MANIFEST, UNFINISHED, MANIFEST, REFERENCES):
            deleted += savepoint.delete(name)
        try:
            return deleted + savepoint.delete_all()
        except StorageError:
            if last_round or not savepoint.list_entries():
                raise
    raise InvariantBroken("the last round returns or raises")
