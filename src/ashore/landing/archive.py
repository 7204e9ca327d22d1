"""Packing old entries, so that a log directory stays short.

What it is: the archiver: packs whole thousands of entries below the newest snapshot, reads the
archive back, and only then removes the entries.
What it promises: `open` entries stay, since the number that a frozen writer tries next is one.
Archives are never deleted, the two newest snapshots stay. Off the commit path; may stop anywhere
and run again, also twice at the same time.
What it must not know: the fold.
"""

import contextlib
import gzip

from ashore.errors import LogDamaged, PathExists, PathMissing, check
from ashore.landing.log_reader import LogListing, list_log, read_archive
from ashore.protocol import names
from ashore.protocol.entries import Entry, EntryInvalid, Open, read_entry
from ashore.protocol.names import ARCHIVE_ENTRIES, SliceName
from ashore.storage.base import Storage

SNAPSHOTS_KEPT = 2


def archive_log(storage: Storage, name: SliceName) -> int:
    """Pack what can be packed and remove what is packed. Returns the number of files removed.

    If interrupted: an archive more, some entries of it still there; the next call goes on.
    """
    listing = list_log(storage, name)
    removed = 0
    whole = max(listing.snapshots, default=-1) // ARCHIVE_ENTRIES
    for index in range(whole):
        if index not in listing.archives and not _pack(storage, name, index):
            break
        removed += _remove_packed(storage, name, index, listing)
    for number in listing.snapshots[:-SNAPSHOTS_KEPT]:
        removed += _remove(storage, names.snapshot_path(name, number))
    return removed


def _pack(storage: Storage, name: SliceName, index: int) -> bool:
    """Write archive `index`. False: its entries are not all there any more (another archiver)."""
    lines: list[bytes] = []
    previous: str | None = None
    first = index * ARCHIVE_ENTRIES
    for number in range(first, first + ARCHIVE_ENTRIES):
        path = names.entry_path(name, number)
        try:
            data = storage.read(path)
            entry = read_entry(data)
        except PathMissing:
            return False
        except EntryInvalid as error:
            raise LogDamaged(f"{path}: {error}", hint="restore it", path=path) from None
        if number > first and entry.previous != previous:
            return False  # stray: written where an entry had been removed
        previous = entry.checksum
        lines.append(data)
    with contextlib.suppress(PathExists):  # another archiver packed the same entries
        packed = gzip.compress(b"".join(lines), mtime=0)
        storage.create(names.archive_path(name, index), packed)
    return True


def _remove_packed(storage: Storage, name: SliceName, index: int, listing: LogListing) -> int:
    first = index * ARCHIVE_ENTRIES
    there = [n for n in listing.entries if first <= n < first + ARCHIVE_ENTRIES]
    if len(there) <= 1:
        return 0
    entries = read_archive(storage, name, index)
    _check_whole(entries, first)
    removable = [n for n in there if not isinstance(entries[n - first].body, Open)]
    return sum(_remove(storage, names.entry_path(name, number)) for number in removable)


def _check_whole(entries: list[Entry], first: int) -> None:
    for offset, entry in enumerate(entries):
        check(entry.number == first + offset, f"archive holds {entry.number} at {first + offset}")
        if offset:
            check(entry.previous == entries[offset - 1].checksum, f"chain at {entry.number}")


def _remove(storage: Storage, path: str) -> int:
    try:
        storage.delete(path)
    except PathMissing:
        return 0
    return 1
