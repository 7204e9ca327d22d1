"""Whether the directories of tables are there, before a slice continues with them.

What it is: `require_directories`, one look for each table that has rows, at a start; and
`TableDirectories`, one look for each table of a batch before it counts.
What it promises: a table whose directory was deleted, moved or is not mounted stops the job before
it is claimed, which would create the directory, or before a batch counts whose tasks have created
it. Such a directory has no owner file, so the next start refuses it too. Rows that were retired,
rolled back or given up count no longer, so no directory is required for them.
"""

from collections.abc import Iterable

from ashore.errors import Stopped
from ashore.log.fold import Fold
from ashore.log.names import owner_directory, owner_path, table_path
from ashore.storage.base import Storage

TABLES_SHOWN = 3


def require_directories(storage: Storage, fold: Fold, tables: Iterable[str]) -> None:
    """Raise Stopped where a table has rows by the log, and no directory; StorageError.

    Rows of an unclosed entry are not looked for, nor late and dead-letter tables, which may
    be deleted.
    """
    unclosed = fold.unclosed.number if fold.unclosed else None
    closed = [each for each in fold.partitions.values() if each.entry != unclosed]
    filled = {each.table for each in closed if each.rows > 0}
    to_check = sorted(filled.intersection(tables))
    missing = [table for table in to_check if _is_gone(storage, table)]
    if missing:
        raise _stopped(storage, missing, "but the log counts rows there: nothing was read")


class TableDirectories:
    """The directories of tables that a process has seen, and looks for again. Of one thread."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._seen: set[str] = set()

    def look(self, tables: Iterable[str]) -> list[str]:
        """Look for directories, which are known from then on. Returns those that are gone.

        Requires: the tables are claimed; one without an owner file is not known. Raises
        StorageError.
        """
        missing = []
        for table in sorted(set(tables)):
            if self._storage.stat(owner_path(table, 0)) is not None:
                self._seen.add(table)
            elif table in self._seen:
                missing.append(table)
        return missing

    def require(self, tables: Iterable[str]) -> None:
        """Raise Stopped where the directory of a table is gone or replaced; as `look`."""
        missing = self.look(tables)
        if missing:
            why = "as it had when the job was started: the batch does not count"
            raise _stopped(self._storage, missing, why)


def _is_gone(storage: Storage, table: str) -> bool:
    """Return whether a table has no directory, or one that only tasks have created again."""
    if storage.stat(owner_path(table, 0)) is not None:
        return False
    return (
        storage.stat(table_path(table)) is None or storage.stat(owner_directory(table)) is not None
    )


def _stopped(storage: Storage, missing: list[str], why: str) -> Stopped:
    paths = [table_path(table) for table in missing]
    shown = ", ".join(paths[:TABLES_SHOWN])
    more = f" and {len(missing) - TABLES_SHOWN:,} more" if len(missing) > TABLES_SHOWN else ""
    return Stopped(
        f"{storage.describe()} has no directory {shown}{more}, {why}",
        hint="restore the directory, or mount it; to continue without its rows, create it "
        "empty: `ashore verify` then names the partitions that are gone, and how to retire "
        "them",
        tables=missing,
        paths=paths,
    )
