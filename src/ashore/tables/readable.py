"""Which files readers of a table see.

What it is: the one answer, for all that compares a log with its tables. In a table of directories
readers see each file below it that no name on the way hides; in a table format, those that its
current snapshot names.
What it promises: reads only. A directory that cannot be listed is reported, never left out.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

from ashore.errors import CallsHang, StorageError
from ashore.log import names
from ashore.storage.base import FileStat, Storage

LISTING_THREADS = 16  # listing waits, for a disk or a NameNode

Listed = Sequence[FileStat] | StorageError  # files that readers see, or why they are not known


@dataclass(frozen=True, slots=True)
class SnapshotFiles:
    """What the current snapshot of a table in a table format names."""

    files: Mapping[str, int]  # path in the lake, size in bytes
    rewritten: str = ""  # which snapshot of another writer has removed files, in words
    marks: Mapping[str, str] = field(default_factory=dict)  # of sinks: how far they came
    begins: int = 0  # Delta: the oldest version that was read for it
    made: int = 0  # Iceberg: snapshots that the table ever had
    known: frozenset[int] = frozenset()  # Iceberg: the ids of those that have not expired


@dataclass(frozen=True, slots=True)
class RewriteBase:
    """What a compaction of a table in a table format begins with."""

    id: int  # of the current snapshot; in Delta, the current version
    files: frozenset[str]  # paths in the lake
    drawn: int  # what `snapshot_id` of its commit is to be
    refused: str  # why the table is not compacted, in words; empty: it is


Snapshots = Callable[[str], SnapshotFiles | None]  # of a table; None: it is one of directories


def no_snapshots(_table: str) -> None:
    """Return None: all tables are directories."""


def walk_readable(
    storage: Storage, tables: Iterable[str], snapshots: Snapshots = no_snapshots
) -> Iterator[tuple[str, Listed]]:
    """Yield each directory of these tables with its files that readers see.

    A table in a table format is one directory, its files are those of `snapshots`, and may be gone.
    Raises CallsHang, or what `snapshots` raises.
    """
    level = []
    for table in sorted(set(tables)):
        found, path = snapshots(table), names.table_path(table)
        if found is None:
            level.append(path)
        else:
            yield path, [FileStat(*each, 0, False) for each in sorted(found.files.items())]
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
