"""What no savepoint needs of a pool any more: found, and deleted.

What it promises: `find_unneeded` only reads: a listing of each directory of the pool, and the
references of each savepoint, which are held in memory, as is what is found. What an unfinished
savepoint may rely on is needed, since nothing tells whether it is still being taken.
"""

from collections.abc import Callable, Iterator, Mapping

from ashore.log import names
from ashore.queries.state.files import list_files
from ashore.queries.state.savepoints.pool import Pool
from ashore.queries.state.savepoints.references import PoolFile
from ashore.queries.state.savepoints.store import Savepoint, delete_path, list_savepoints
from ashore.queries.state.savepoints.sweep import sweep
from ashore.storage.base import FileStat
from ashore.storage.paths import is_temporary


def find_unneeded(pool: Pool, before_ms: int) -> dict[PoolFile, int]:
    """Return files that no savepoint needs, and the bytes of each.

    `before_ms`: what was modified at this time or later is left out.
    Raises CheckpointUnfit where a savepoint does not tell what it needs; StorageError.
    """
    references = pool.read_references()
    return {
        file: each.size_bytes
        for part in pool.list_parts()
        if part not in references.owners
        for each in list_files(pool.part(part))
        if each.modified_ms < before_ms
        and (file := PoolFile(part, each.path)) not in references.files
    }


def find_left_lists(pool: Pool, before_ms: int) -> list[FileStat]:
    """Return what sweeps that were interrupted have left beside the files. Raises StorageError.

    `before_ms`: as above; a sweep that goes on needs its list.
    """
    listed = [*pool.list_condemned(), *_list_temporary(pool)]
    return [each for each in listed if each.modified_ms < before_ms]


def find_unfinished(pool: Pool) -> list[Savepoint]:
    """Return the savepoints that keep files of the pool and are not complete, or damaged."""
    listed = list_savepoints(pool.storage, pool.path, pool.uri)
    return [
        each.savepoint
        for each in listed
        if each.manifest is None and pool.storage.stat(each.savepoint.references_path) is not None
    ]


def delete_unneeded(
    pool: Pool, found: Mapping[PoolFile, int], left: list[FileStat], make_unique: Callable[[], str]
) -> Iterator[int]:
    """Delete what was found, unless a savepoint has come to need it, and yield the bytes of each.

    Raises as `sweep`. If interrupted: the rest is found again.
    """
    for each in sweep(pool, found, make_unique):
        yield found[each]
    for file in left:
        if delete_path(pool.storage, file.path):
            yield file.size


def _list_temporary(pool: Pool) -> list[FileStat]:
    listed = pool.storage.list(names.parent(pool.condemned_path("")))
    return [each for each in listed if not each.is_directory and is_temporary(each.path)]
