"""Packing old entries, so that a log directory stays short.

What it is: the archiver: packs whole thousands of entries below the newest snapshot, reads the
archive back, and only then removes the entries.
What it promises: an `open` is the number that the writer before it tries next, should it only be
frozen; so it goes only where that writer looks for the archive of its number after each append. Of
each archive the first and the last `open` stay: the writer before the first one is recorded
elsewhere, and the last one names the owner of the slice. Archives are never deleted, the two newest
snapshots stay. Off the commit path; may stop anywhere and run again, also twice at the same time.
"""

import contextlib
import gzip
import io
import itertools
from collections.abc import Sequence

from ashore.errors import LogDamaged, PathExists, PathMissing
from ashore.log import names
from ashore.log.entries import Entry, EntryInvalid, Open, read_entry
from ashore.log.names import SliceName
from ashore.log.store.reader import LogListing, list_log, read_archive
from ashore.storage.base import Storage

SNAPSHOTS_KEPT = 2


def archive_log(storage: Storage, name: SliceName) -> int:
    """Pack what can be packed and remove what is packed. Returns the number of files removed.

    Raises LogDamaged for entries or an archive that are not whole; nothing of them is removed.
    If interrupted: an archive is there, and some of its entries still are; the next call continues.
    """
    listing = list_log(storage, name)
    removed = 0
    for index in _unsettled(listing):
        if index not in listing.archives:
            _pack(storage, name, index)
        removed += _remove_packed(storage, name, index, listing)
    for number in listing.snapshots[:-SNAPSHOTS_KEPT]:
        removed += _remove(storage, names.snapshot_path(name, number))
    return removed


def _unsettled(listing: LogListing) -> range:
    """Return the thousands that may have something left to do.

    A process that packs a thousand has settled all before it: so of those that are packed only the
    newest is looked at again, however many `open`s of earlier releases a log has kept.
    """
    whole = max(listing.snapshots, default=-1) // names.ARCHIVE_ENTRIES
    packed, archives = 0, set(listing.archives)
    while packed in archives:
        packed += 1
    return range(max(0, min(packed - 1, whole)), whole)


def find_staying(opens: Sequence[Entry]) -> set[int]:
    """Return the numbers of the `open` entries that keep their own files, of those of an archive.

    `opens`: in their order. Where some have been removed already, the others stay as before.
    """
    numbers = [entry.number for entry in opens]
    staying = {*numbers[:1], *numbers[-1:]}
    for before, entry in itertools.pairwise(opens):
        if not (isinstance(before.body, Open) and before.body.looks_back):
            staying.add(entry.number)
    return staying


def _pack(storage: Storage, name: SliceName, index: int) -> None:
    """Write archive `index`, unless another archiver is faster."""
    packed = io.BytesIO()
    previous: str | None = None
    first = index * names.ARCHIVE_ENTRIES
    with gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as lines:
        for number in range(first, first + names.ARCHIVE_ENTRIES):
            path = names.entry_path(name, number)
            try:
                data = storage.read(path)
                entry = read_entry(data)
            except (PathMissing, EntryInvalid) as error:
                return _require_archive(storage, name, index, f"{path}: {error}")
            if number > first and entry.previous != previous:
                reason = f"{path}: it has another predecessor"
                return _require_archive(storage, name, index, reason)
            previous = entry.checksum
            lines.write(data)
    with contextlib.suppress(PathExists):  # another archiver packed the same entries
        storage.create(names.archive_path(name, index), packed.getvalue())
    return None


def _require_archive(storage: Storage, name: SliceName, index: int, reason: str) -> None:
    """Raise LogDamaged unless another archiver has packed these entries and is removing them."""
    if storage.stat(names.archive_path(name, index)) is None:
        raise LogDamaged(reason, hint="restore it from a backup; nothing was removed")


def _remove_packed(storage: Storage, name: SliceName, index: int, listing: LogListing) -> int:
    """Remove the files of entries that an archive holds, once it has been read back."""
    first = index * names.ARCHIVE_ENTRIES
    there = [n for n in listing.entries if first <= n < first + names.ARCHIVE_ENTRIES]
    if _is_settled(storage, name, there):
        return 0  # the usual case, found without reading the archive
    opens: list[Entry] = []
    previous: str | None = None
    for entry in read_archive(storage, name, index):
        if entry.number > first and entry.previous != previous:
            path = names.archive_path(name, index)
            raise LogDamaged(f"{path}: chain at entry {entry.number}", hint="restore it", path=path)
        previous = entry.checksum
        if isinstance(entry.body, Open):
            opens.append(entry)
    # The process that made archive and snapshot may have been killed, or hang, before its last
    # sync.
    storage.sync([names.log_directory(name)])
    staying = find_staying(opens)
    return sum(
        _remove(storage, names.entry_path(name, each)) for each in there if each not in staying
    )


def _is_settled(storage: Storage, name: SliceName, there: list[int]) -> bool:
    """Return whether of these entries nothing but what stays has a file."""
    found: list[Entry] = []
    for number in there:
        try:
            found.append(read_entry(storage.read(names.entry_path(name, number))))
        except PathMissing:
            continue  # another archiver is at it
        except EntryInvalid:
            return False
    opens = [entry for entry in found if isinstance(entry.body, Open)]
    return len(opens) == len(found) == len(find_staying(opens))


def _remove(storage: Storage, path: str) -> int:
    try:
        storage.delete(path)
    except PathMissing:
        return 0
    return 1
