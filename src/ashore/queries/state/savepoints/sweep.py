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
from ashore.queries.state.files import WORKERS, list_files
from ashore.queries.state.leftovers import find_directories
from ashore.queries.state.savepoints.pool import Pool, References, pool_of
from ashore.queries.state.savepoints.references import PoolFile, parse_references, write_references
from ashore.queries.state.savepoints.store import (
    MANIFEST,
    REFERENCES,
    UNFINISHED,
    Savepoint,
    count_savepoint,
    delete_path,
    delete_savepoint,
    delete_tree,
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
    own = pool.part(savepoint.unique)
    delete_tree(own.storage, own.path)
    sweep(pool, needed, make_unique)


def count_removed(savepoint: Savepoint) -> int:
    """Return how many files `remove_savepoint` would delete. Raises as that."""
    count = count_savepoint(savepoint)
    if not _is_shared(savepoint):
        return count
    pool = pool_of(savepoint)
    references = pool.read_references(without=savepoint)
    own = _list_part(pool, savepoint.unique)
    candidates = {*_read_own_references(savepoint), *own}
    there = candidates - _list_missing(pool, candidates - own)
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
    condemned = pool.condemned_path(make_unique())
    pool.storage.create(condemned, write_references(doomed))
    # Again, and only now: a taker that has not seen the list has written its references before.
    references = pool.read_references()
    doomed = [each for each in doomed if each not in references]
    with ThreadPoolExecutor(WORKERS) as workers:
        results = list(workers.map(lambda each: _delete(pool, each), doomed))
    _remove_emptied(pool, {each.pool for each in doomed}, references)
    delete_path(pool.storage, condemned)
    return [each for each, is_gone in zip(doomed, results, strict=True) if is_gone]


def _delete(pool: Pool, file: PoolFile) -> bool:
    return delete_path(pool.storage, names.join(pool.part(file.pool).path, file.path))


def _remove_emptied(pool: Pool, parts: Iterable[str], references: References) -> None:
    """Remove directories of the pool in which no file is left, and whose savepoint is gone."""
    for each in sorted(parts):
        part = pool.part(each)
        if each not in references.owners:
            for directory in find_directories(part):
                delete_path(part.storage, names.join(part.path, directory.path))


def _is_shared(savepoint: Savepoint) -> bool:
    """Return whether a savepoint has files in the pool, or may have."""
    if not names.parent(savepoint.path):
        return False  # at the root of a storage: there is no directory for a pool
    storage = savepoint.storage
    if storage.stat(savepoint.references_path) is not None:
        return True
    return storage.stat(pool_of(savepoint).part(savepoint.unique).path) is not None


def _read_own_references(savepoint: Savepoint) -> frozenset[PoolFile]:
    """Return what it may rely on; nothing where that cannot be read: `clean` finds it then."""
    try:
        data = savepoint.storage.read(savepoint.references_path)
        return parse_references(data, savepoint.references_place)
    except (PathMissing, CheckpointUnfit):
        return frozenset()


def _list_part(pool: Pool, name: str) -> set[PoolFile]:
    return {PoolFile(name, each.path) for each in list_files(pool.part(name))}


def _list_missing(pool: Pool, files: Iterable[PoolFile]) -> set[PoolFile]:
    with ThreadPoolExecutor(WORKERS) as workers:

        def look(file: PoolFile) -> PoolFile | None:
            place = names.join(pool.part(file.pool).path, file.path)
            return file if pool.storage.stat(place) is None else None

        return {each for each in workers.map(look, files) if each is not None}


def _remove_directory(savepoint: Savepoint) -> int:
    """Remove the directory of a savepoint, also while it is taken. Returns how many files."""
    storage, deleted = savepoint.storage, 0
    for last_round in (*[False] * (_ROUNDS - 1), True):
        # A manifest gets its name from the unfinished one, which may still happen until that is
        # gone. A taker begins none where the references are gone.
        for name in (MANIFEST, UNFINISHED, MANIFEST, REFERENCES):
            deleted += delete_path(storage, names.join(savepoint.path, name))
        try:
            return deleted + delete_tree(storage, savepoint.path)
        except StorageError:
            if last_round or not storage.list(savepoint.path):
                raise
    raise InvariantBroken("the last round returns or raises")
