"""Which job may write a table, and whether the directory of the table is there.

What it is: the owner files `owner-<k>.json` beside a table; the highest k rules.
`require_directories`, one look for each table that has rows, at a start; `TableDirectories`, one
look for each table of a batch before it counts.
What it promises: a table belongs to one job. Of two jobs that claim a table at once one wins, by
exclusive creation; the other learns who owns it. A table whose directory was deleted, moved or is
not mounted stops the job before it is claimed, which would create the directory, or before a batch
counts whose tasks have created it. Such a directory has no owner file, so the next start refuses it
too. Rows that were retired, rolled back or given up count no longer, so no directory is required
for them.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from ashore.base import codec
from ashore.base.codec import Malformed
from ashore.errors import LogDamaged, PathExists, PathMissing, Stopped, StorageError, TableOwned
from ashore.log import names
from ashore.log.entries import (
    FORMAT_VERSION,
    EntryInvalid,
    EntryNewer,
    read_checksummed,
    write_checksummed,
)
from ashore.log.fold import Fold
from ashore.log.names import owner_directory, owner_path, table_path
from ashore.log.store.reader import newer
from ashore.storage.base import Storage


@dataclass(frozen=True, slots=True)
class Owner:
    """An owner file."""

    format_version: int
    number: int
    job: str
    claimed_ms: int
    checksum: str


def read_owner(storage: Storage, table: str) -> Owner | None:
    """Return the owner that rules, or None. Raises LogDamaged for a file that is not one."""
    listed = storage.list(names.owner_directory(table))
    numbers = [names.parse_owner(names.leaf(found.path)) for found in listed]
    known = [number for number in numbers if number is not None]
    if not known:
        return None
    path = names.owner_path(table, max(known))
    try:
        return codec.decode(Owner, dict(read_checksummed(storage.read(path))))
    except EntryNewer as error:
        raise newer(path, error) from None
    except (EntryInvalid, Malformed) as error:
        raise LogDamaged(f"{path}: {error}", hint="restore the file", path=path) from None


def claim_tables(storage: Storage, tables: Iterable[str], job: str, now_ms: int) -> None:
    """Make `job` the owner of each table that has none. Raises TableOwned.

    If interrupted: some tables are claimed; claiming again is harmless.
    """
    for table in sorted(set(tables)):
        owner = read_owner(storage, table)
        if owner is None:
            _claim(storage, table, job, now_ms)
            owner = read_owner(storage, table)
        if owner is None:
            raise StorageError(f"the owner file of {table} was written but cannot be found")
        _require_own(table, owner, job)


def require_free(storage: Storage, tables: Iterable[str], job: str) -> None:
    """Raise TableOwned or LogDamaged where `claim_tables` would. Claims nothing."""
    for table in sorted(set(tables)):
        owner = read_owner(storage, table)
        if owner is not None:
            _require_own(table, owner, job)


def _require_own(table: str, owner: Owner, job: str) -> None:
    if owner.job != job:
        raise TableOwned(
            f"table {table} belongs to job {owner.job}",
            hint=f"give this job another table, or run {owner.job}",
            table=table,
            owner=owner.job,
        )


def _claim(storage: Storage, table: str, job: str, now_ms: int) -> None:
    data = write_checksummed(
        {"format_version": FORMAT_VERSION, "number": 0, "job": job, "claimed_ms": now_ms}
    )
    path = names.owner_path(table, 0)
    try:
        storage.create(path, data)
    except PathExists:
        return
    except StorageError:
        # Unclear: whether it is there is settled by reading; absent, the claim failed.
        try:
            storage.read(path)
        except PathMissing:
            storage.create(path, data)


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
