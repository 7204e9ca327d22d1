"""Which job may write a table.

What it is: the owner files `owner-<k>.json` beside a table; the highest k rules.
What it promises: a table belongs to one job. Of two jobs that claim a table at once one wins, by
exclusive creation; the other learns who owns it.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from ashore.base import codec
from ashore.base.codec import Malformed
from ashore.errors import LogDamaged, PathExists, PathMissing, StorageError, TableOwned
from ashore.log import names
from ashore.log.entries import (
    FORMAT_VERSION,
    EntryInvalid,
    EntryNewer,
    read_checksummed,
    write_checksummed,
)
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
