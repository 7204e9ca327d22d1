"""Reading a landing log that others may be writing, archiving and cleaning at the same time.

What it is: `read_log`, which folds a log from its newest snapshot, and `read_history`, which
yields every entry ever appended.
What it promises: the model's reading rule: whoever has found the end, or what looks like damage,
looks for a snapshot or archive newer than what the reading began with, and begins again if there
is one. A number that an archive holds is read from the archive alone, so that a stray late entry
at a removed number is never seen. Every damaged, empty or foreign file is named.
What it must not know: who appends.
"""

import gzip
import io
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

from ashore.errors import LogDamaged, PathMissing
from ashore.protocol import names
from ashore.protocol.entries import Entry, EntryInvalid, read_entry
from ashore.protocol.extend import extend
from ashore.protocol.fold import EMPTY, Fold
from ashore.protocol.names import SliceName
from ashore.protocol.snapshot import read_snapshot
from ashore.storage.base import Storage


@dataclass(frozen=True, slots=True)
class LogListing:
    """What a listing of a log directory shows. Not atomic: only ever a hint of what to open."""

    entries: tuple[int, ...]
    snapshots: tuple[int, ...]
    archives: tuple[int, ...]

    @property
    def horizon(self) -> int:
        """The highest number up to which entries may have been removed; -1: none."""
        archived = (max(self.archives) + 1) * names.ARCHIVE_ENTRIES - 1 if self.archives else -1
        return max(archived, max(self.snapshots, default=-1))

    @property
    def latest(self) -> int:
        """The highest number that was ever appended, as far as the listing shows."""
        return max(self.horizon, max(self.entries, default=-1))


def list_log(storage: Storage, name: SliceName) -> LogListing:
    """List a log. Raises LogDamaged for a file that no writer made."""
    directory = names.log_directory(name)
    entries, snapshots, archives = [], [], []
    for found in storage.list(directory):
        file_name = names.leaf(found.path)
        if file_name.startswith("."):
            continue  # a storage's own temporary file
        if (number := names.parse_entry(file_name)) is not None:
            entries.append(number)
        elif (number := names.parse_snapshot(file_name)) is not None:
            snapshots.append(number)
        elif (number := names.parse_archive(file_name)) is not None:
            archives.append(number)
        else:
            _damaged(found.path, "no writer of the log makes such a name", "move it elsewhere")
    return LogListing(tuple(sorted(entries)), tuple(sorted(snapshots)), tuple(sorted(archives)))


def read_log(storage: Storage, name: SliceName) -> Fold:
    """Return the fold of a log as it is now. Appends nothing.

    Raises LogDamaged, or any StorageError of the reads.
    """
    while True:
        began = list_log(storage, name)
        try:
            fold, damage = _read_from(storage, name, began)
        except _Vanished:
            continue
        ended = list_log(storage, name)
        if must_begin_again(began, ended):
            continue
        if damage:
            raise damage
        if fold.end >= ended.latest:
            return fold
        if _has_next(storage, name, fold.end + 1):
            continue  # appended while this was reading
        if not must_begin_again(began, list_log(storage, name)):
            path = names.entry_path(name, fold.end + 1)
            _damaged(path, "the entry is missing, later ones are there", "restore it")


def must_begin_again(began: LogListing, ended: LogListing) -> bool:
    """Tell whether what was read between two listings may have been removed, or be stray.

    Entries are removed only after an archive of them is there, and archives stay, so a listing
    without a new one proves that every entry was there and true when it was read.
    """
    return ended.horizon > began.horizon


def read_history(storage: Storage, name: SliceName, start: int = 0) -> Iterator[Entry]:
    """Yield every entry from `start` to the end, archives first. Each follows its predecessor.

    Keeps at most the entries of one archive in memory. Raises LogDamaged for an entry that is
    missing or damaged.
    """
    number, previous = start, None
    while True:
        listing = list_log(storage, name)
        if number // names.ARCHIVE_ENTRIES in listing.archives:
            found = _archived_from(storage, name, number)
        else:
            found = iter(_unarchived_from(storage, name, number))
        began = number
        try:
            for entry in found:
                if entry.previous != previous and (entry.number != start or start == 0):
                    path = names.entry_path(name, entry.number)
                    _damaged(path, "it names another predecessor", "restore the log from a backup")
                number, previous = entry.number + 1, entry.checksum
                yield entry
        except _Vanished:
            continue
        if number > began:
            continue
        if list_log(storage, name).latest < number:
            return
        if _has_next(storage, name, number):
            continue
        if number // names.ARCHIVE_ENTRIES not in list_log(storage, name).archives:
            _damaged(names.entry_path(name, number), "the entry is missing", "restore it")


def read_number(storage: Storage, name: SliceName, number: int) -> Entry | None:
    """Return the entry whose file stands at `number`, or None. Raises LogDamaged."""
    path = names.entry_path(name, number)
    try:
        data = storage.read(path)
    except PathMissing:
        return None
    return _parse(path, data, number)


def read_archive(storage: Storage, name: SliceName, index: int) -> Iterator[Entry]:
    """Yield the entries of an archive. Raises LogDamaged, or PathMissing.

    One at a time: a thousand entries of a large job are too much to hold.
    """
    path = names.archive_path(name, index)
    number, end = index * names.ARCHIVE_ENTRIES, (index + 1) * names.ARCHIVE_ENTRIES
    for line in _unpack(path, storage.read(path)):
        if number == end:
            _damaged(path, "it holds too many entries", "restore it from a backup")
        yield _parse(path, line, number)
        number += 1
    if number < end:
        _damaged(path, f"it ends before entry {number}", "restore it from a backup")


def _unpack(path: str, data: bytes) -> Iterator[bytes]:
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as lines:
            yield from lines
    except (OSError, EOFError, zlib.error):
        _damaged(path, "it is not a whole gzip file", "restore it from a backup")


class _Vanished(Exception):
    """A file that was listed is gone: the listing is old."""


def _read_from(
    storage: Storage, name: SliceName, listing: LogListing
) -> tuple[Fold, LogDamaged | None]:
    """Fold what `listing` shows and what follows; also return what stopped it, if not the end."""
    fold = EMPTY
    try:
        fold = newest_snapshot(storage, name, listing)
        for entry in _entries_from(storage, name, listing, fold.end + 1):
            fold = extend(fold, entry)
    except LogDamaged as error:
        return fold, error
    return fold, None


def newest_snapshot(storage: Storage, name: SliceName, listing: LogListing) -> Fold:
    """Return the fold that the newest snapshot of a listing holds. Raises LogDamaged."""
    if not listing.snapshots:
        return EMPTY
    path = names.snapshot_path(name, listing.snapshots[-1])
    try:
        fold = read_snapshot(storage.read(path))
    except PathMissing:
        raise _Vanished from None
    except EntryInvalid as error:
        _damaged(path, str(error), "delete it: the log is then folded from its entries")
    if fold.end != listing.snapshots[-1]:
        _damaged(path, f"it ends at entry {fold.end}", "delete it")
    return fold


def _entries_from(
    storage: Storage, name: SliceName, listing: LogListing, number: int
) -> Iterator[Entry]:
    """Yield entries from `number` to the first that is missing."""
    archives = set(listing.archives)
    while True:
        index = number // names.ARCHIVE_ENTRIES
        if index in archives:
            yield from _archived_from(storage, name, number)
            number = (index + 1) * names.ARCHIVE_ENTRIES
            continue
        entry = read_number(storage, name, number)
        if entry is None:
            return
        yield entry
        number += 1


def _archived_from(storage: Storage, name: SliceName, number: int) -> Iterator[Entry]:
    """Yield the entries of the archive that holds `number`, from that on."""
    try:
        for entry in read_archive(storage, name, number // names.ARCHIVE_ENTRIES):
            if entry.number >= number:
                yield entry
    except PathMissing:
        raise _Vanished from None


def _unarchived_from(storage: Storage, name: SliceName, number: int) -> list[Entry]:
    """Return the entries from `number` on that one archive will hold; none if there is one now."""
    entries: list[Entry] = []
    index = number // names.ARCHIVE_ENTRIES
    damage: LogDamaged | None = None
    try:
        for each in range(number, (index + 1) * names.ARCHIVE_ENTRIES):
            entry = read_number(storage, name, each)
            if entry is None:
                break
            entries.append(entry)
    except LogDamaged as error:
        damage = error
    if index in list_log(storage, name).archives:
        return []  # some may have been removed while this was reading, and be stray
    if damage:
        raise damage
    return entries


def _has_next(storage: Storage, name: SliceName, number: int) -> bool:
    return storage.stat(names.entry_path(name, number)) is not None


def _parse(path: str, data: bytes, number: int) -> Entry:
    try:
        entry = read_entry(data)
    except EntryInvalid as error:
        _damaged(path, str(error), "restore it from a backup; nothing was skipped")
    if entry.number != number:
        _damaged(path, f"it holds entry {entry.number}, not {number}", "restore it from a backup")
    return entry


def _damaged(path: str, reason: str, what_to_do: str) -> NoReturn:
    raise LogDamaged(f"{path}: {reason}", hint=what_to_do, path=path)
