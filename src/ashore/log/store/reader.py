"""Reading a landing log that others may be writing, archiving and cleaning at the same time.

What it is: `read_log`, which folds a log from its newest snapshot, and `read_history`, which
yields every entry ever appended.
What it promises: the model's reading rule, in `_read_undisturbed`: a reading that has found the
end, or what looks like damage, looks for a snapshot or archive newer than what the reading began
with, and begins again if there is one. A number that an archive holds is read from the archive
alone, so that a stray late entry at a removed number is never seen. Every damaged, empty or foreign
file is named.
"""

import gzip
import io
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Generic, NamedTuple, NoReturn, TypeVar

from ashore.errors import LogDamaged, LogNewer, PathMissing
from ashore.log import names
from ashore.log.entries import Entry, EntryInvalid, EntryNewer, read_entry, split_checksum
from ashore.log.extend import extend
from ashore.log.fold import EMPTY, Fold
from ashore.log.names import SliceName
from ashore.log.snapshot import read_snapshot
from ashore.storage.base import Storage

T = TypeVar("T")


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
            _damaged(found.path, "no writer of the log creates such a name", "move it elsewhere")
    return LogListing(tuple(sorted(entries)), tuple(sorted(snapshots)), tuple(sorted(archives)))


def read_log(storage: Storage, name: SliceName, known: Fold = EMPTY) -> Fold:
    """Return the fold of a log as it is now. Appends nothing.

    `known`: what an earlier reading has returned: while its last entry stands in the log, only what
    follows is read.

    Raises LogDamaged, or any StorageError of the reads.
    """
    return _read_undisturbed(storage, name, partial(_fold_from, storage, name, known))


def read_on(storage: Storage, name: SliceName, known: Fold) -> list[Entry] | None:
    """Return the entries that follow a fold, without a listing; None: `read_log` has to look.

    A call an entry, and three more. None where the last entry of the fold no longer stands in the
    log, where an archive holds the number of something that was read, or where something looks
    damaged. What was read is true: a number is removed only once an archive holds it, archives
    stay, and there was none after it was read. So no stray late entry is among them. That an entry
    is missing before others is not seen: `read_log` sees it.
    """
    if known.end < 0:
        return None
    entries: list[Entry] = []
    try:
        if not _is_last(storage, name, known):
            return None
        number, previous = known.end + 1, known.last
        while (entry := read_number(storage, name, number)) is not None:
            if entry.previous != previous:
                return None
            entries.append(entry)
            number, previous = number + 1, entry.checksum
    except LogDamaged:
        return None
    first, last = known.end // names.ARCHIVE_ENTRIES, number // names.ARCHIVE_ENTRIES
    is_archived = any(
        storage.stat(names.archive_path(name, index)) is not None
        for index in range(first, last + 1)
    )
    return None if is_archived else entries


def read_history(storage: Storage, name: SliceName, start: int = 0) -> Iterator[Entry]:
    """Yield every entry from `start` to the end, archives first. Each follows its predecessor.

    The end is where it was when it was reached: a slow consumer gets no entries that came
    after that. Keeps at most the entries of one archive in memory. Raises LogDamaged for an entry
    that is missing or damaged.
    """
    number, previous, is_end = start, None, False
    while not is_end:
        read = partial(_next_from, storage, name, number)
        entries, is_end = _read_undisturbed(storage, name, read)
        for entry in entries:
            if entry.previous != previous and (entry.number != start or start == 0):
                path = names.entry_path(name, entry.number)
                _damaged(path, "it has another predecessor", "restore the log from a backup")
            number, previous = entry.number + 1, entry.checksum
            yield entry


# ---- the reading rule


class _Found(NamedTuple, Generic[T]):
    """What one reading has found."""

    value: T
    missing: int | None  # the first number that has no entry; None: it did not read so far
    is_archived: bool = False  # all of it is from an archive, which stays as it is


class _Vanished(Exception):
    """A file that was listed is gone: the listing is old."""


def _read_undisturbed(
    storage: Storage, name: SliceName, read: Callable[[LogListing], _Found[T]]
) -> T:
    """Return what `read` finds in a log, once nothing was removed while it was reading.

    The model's reading rule. A reader that has found the end, or what looks like damage, lists the
    log again, and begins again if `must_begin_again`. Only then is damage damage, and only a number
    that has not been appended yet is the end: a listing is no proof, so the number is looked for by
    its name as well.

    Arguments:
        storage: the lake.
        name: of the slice.
        read: reads what a listing shows, and what follows. May raise LogDamaged.

    """
    while True:
        began = list_log(storage, name)
        found = _try(read, began)
        if found is None:
            continue
        if not isinstance(found, LogDamaged) and found.is_archived:
            return found.value
        ended = list_log(storage, name)
        if must_begin_again(began, ended):
            continue
        if isinstance(found, LogDamaged):
            raise found
        if found.missing is None or found.missing > ended.latest:
            return found.value
        if storage.stat(names.entry_path(name, found.missing)) is not None:
            continue  # appended while this was reading
        if not must_begin_again(began, list_log(storage, name)):
            path = names.entry_path(name, found.missing)
            _damaged(path, "the entry is missing, but later entries exist", "restore it")


def _try(
    read: Callable[[LogListing], _Found[T]], listing: LogListing
) -> _Found[T] | LogDamaged | None:
    """Return what `read` finds, or what looks like damage; None: the listing is old."""
    try:
        return read(listing)
    except _Vanished:
        return None
    except LogDamaged as error:
        return error


def must_begin_again(began: LogListing, ended: LogListing) -> bool:
    """Return whether what was read between two listings may have been removed, or be stray.

    Entries are removed only after an archive of them is there, and archives stay, so a listing
    without a new one proves that every entry was there and true when it was read. One that the
    first listing has missed is new as well.
    """
    return ended.horizon > began.horizon or not set(ended.archives) <= set(began.archives)


# ---- single files


def read_number(storage: Storage, name: SliceName, number: int) -> Entry | None:
    """Return the entry whose file stands at `number`, or None. Raises LogDamaged."""
    path = names.entry_path(name, number)
    try:
        data = storage.read(path)
    except PathMissing:
        return None
    return _parse(path, data, number)


def read_archive(storage: Storage, name: SliceName, index: int) -> Iterator[Entry]:
    """Return the entries of an archive. Raises PathMissing at once, LogDamaged where it is reached.

    One at a time: a thousand entries of a large job are too much to hold.
    """
    path = names.archive_path(name, index)
    return _parse_archive(path, storage.read(path), index)


def _parse_archive(path: str, data: bytes, index: int) -> Iterator[Entry]:
    number, end = index * names.ARCHIVE_ENTRIES, (index + 1) * names.ARCHIVE_ENTRIES
    for line in _unpack(path, data):
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
        _damaged(path, "it is not a complete gzip file", "restore it from a backup")


# ---- what is read between two listings


def _fold_from(storage: Storage, name: SliceName, known: Fold, listing: LogListing) -> _Found[Fold]:
    """Fold what `listing` shows and what follows, from `known` on where that is of this log."""
    is_known = known.end in listing.entries and _is_last(storage, name, known)
    fold = known if is_known else newest_snapshot(storage, name, listing)
    for entry in _entries_from(storage, name, listing, fold.end + 1):
        fold = extend(fold, entry)
    return _Found(fold, fold.end + 1)


def _is_last(storage: Storage, name: SliceName, known: Fold) -> bool:
    """Return whether the last entry of a fold stands in a log: then so do those before it.

    It has been parsed once, so its bytes are compared only. Raises LogDamaged.
    """
    path = names.entry_path(name, known.end)
    try:
        return split_checksum(storage.read(path))[1] == known.last
    except PathMissing:
        return False
    except EntryInvalid as error:
        _damaged(path, str(error), "restore it from a backup; nothing was skipped")


def newest_snapshot(storage: Storage, name: SliceName, listing: LogListing) -> Fold:
    """Return the fold that the newest snapshot of a listing holds. Raises LogDamaged."""
    if not listing.snapshots:
        return EMPTY
    path = names.snapshot_path(name, listing.snapshots[-1])
    try:
        fold = read_snapshot(storage.read(path))
    except PathMissing:
        raise _Vanished from None
    except EntryNewer as error:
        raise newer(path, error) from None
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


def _next_from(
    storage: Storage, name: SliceName, number: int, listing: LogListing
) -> _Found[tuple[Iterable[Entry], bool]]:
    """Return the entries from `number` on that one archive holds, or will hold; is it the end?"""
    index = number // names.ARCHIVE_ENTRIES
    if index in listing.archives:
        return _Found((_archived_from(storage, name, number), False), None, is_archived=True)
    entries: list[Entry] = []
    for each in range(number, (index + 1) * names.ARCHIVE_ENTRIES):
        entry = read_number(storage, name, each)
        if entry is None:
            return _Found((entries, True), each)
        entries.append(entry)
    return _Found((entries, False), None)


def _archived_from(storage: Storage, name: SliceName, number: int) -> Iterator[Entry]:
    """Return the entries of the archive that holds `number`, from that on."""
    try:
        entries = read_archive(storage, name, number // names.ARCHIVE_ENTRIES)
    except PathMissing:
        raise _Vanished from None
    return (entry for entry in entries if entry.number >= number)


def _parse(path: str, data: bytes, number: int) -> Entry:
    try:
        entry = read_entry(data)
    except EntryNewer as error:
        raise newer(path, error) from None
    except EntryInvalid as error:
        _damaged(path, str(error), "restore it from a backup; nothing was skipped")
    if entry.number != number:
        _damaged(path, f"it holds entry {entry.number}, not {number}", "restore it from a backup")
    return entry


def newer(path: str, error: EntryNewer) -> LogNewer:
    """Return the error of a file that is whole and that a later release has written."""
    return LogNewer(
        f"{path}: {error}: a later release of Ashore has written it",
        hint="run the release that wrote it, or a later one; this one has changed nothing: "
        "docs/operate/upgrade.md",
        path=path,
    )


def _damaged(path: str, reason: str, what_to_do: str) -> NoReturn:
    raise LogDamaged(f"{path}: {reason}", hint=what_to_do, path=path)


def find_missing(storage: Storage, name: SliceName) -> range | None:
    """Return the first entries of a log that neither a file nor an archive holds, or None.

    A fold that begins with a snapshot does not notice. Looked at twice: entries go to an archive
    during a listing.
    """
    for again in (True, False):
        listing = list_log(storage, name)
        archives = [
            range(each * names.ARCHIVE_ENTRIES, (each + 1) * names.ARCHIVE_ENTRIES)
            for each in listing.archives
        ]
        ranges = sorted([*archives, *(range(each, each + 1) for each in listing.entries)], key=min)
        missing = _first_hole(ranges)
        if missing is None or not again:
            return missing
    return None


def _first_hole(ranges: list[range]) -> range | None:
    end = 0
    for each in ranges:
        if each.start > end:
            return range(end, each.start)
        end = max(end, each.stop)
    return None
