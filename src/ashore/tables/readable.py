"""Which files readers of a table see.

What it is: the one answer, for all that compares a log with its tables. In a table of directories
readers see each file below it that no name on the way hides; a table format would ask its newest
snapshot.
What it promises: reads only. A directory that cannot be listed is reported, never left out.
"""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from ashore.errors import CallsHang, StorageError
from ashore.log import names
from ashore.storage.base import FileStat, Storage

LISTING_THREADS = 16  # listing waits, for a disk or a NameNode

Listed = Sequence[FileStat] | StorageError  # files that readers see, or why they are not known


def walk_readable(storage: Storage, tables: Iterable[str]) -> Iterator[tuple[str, Listed]]:
    """Yield each directory of these tables with its files that readers see. Raises CallsHang."""
    level = [names.table_path(table) for table in sorted(set(tables))]
    with ThreadPoolExecutor(LISTING_THREADS, "ashore-list") as pool:
        while level:
            below: list[str] = []
            for path, listed in zip(level, pool.map(partial(_list, storage), level), strict=True):
                if isinstance(listed, StorageError):
                    yield path, listed
                    continue
                shown = [each for each in listed if names.is_visible(names.leaf(each.path))]
                below += [each.path for each in shown if each.is_directory]
                yield path, [each for each in shown if not each.is_directory]
            level = below


def _list(storage: Storage, path: str) -> Listed:
    try:
        return storage.list(path)
    except CallsHang:
        raise
    except StorageError as error:
        return error
