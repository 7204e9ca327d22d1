"""Walking a landing log a few entries at a time, and its last batches.

What it is: `read_window`, the entries of some numbers; `read_batches`, what the last batches did
and how long their steps took, as far as the log records it.
What it promises: reads only, and of a long log only what is asked for: files of entries that have
not been archived, else the archive that has them.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from ashore.errors import PathMissing
from ashore.log.entries import Entry, Prepare
from ashore.log.names import ARCHIVE_ENTRIES, SliceName
from ashore.log.store.reader import list_log, read_archive, read_number
from ashore.storage.base import Storage

LOOKED_AT = 4  # entries for each batch that is asked for: others stand between batches


def read_window(storage: Storage, name: SliceName, start: int, stop: int) -> tuple[Entry, ...]:
    """Return the entries `start` to `stop - 1`, as far as there are such. Raises LogDamaged."""
    found: list[Entry] = []
    number = max(0, start)
    while number < stop:
        entry = read_number(storage, name, number)
        if entry is not None:
            found.append(entry)
            number += 1
            continue
        end = min(stop, (number // ARCHIVE_ENTRIES + 1) * ARCHIVE_ENTRIES)
        found += _archived(storage, name, number, end)
        number = end
    return tuple(found)


def _archived(storage: Storage, name: SliceName, start: int, stop: int) -> Iterator[Entry]:
    try:
        entries = read_archive(storage, name, start // ARCHIVE_ENTRIES)
    except PathMissing:
        return  # they have not been appended yet
    for entry in entries:
        if start <= entry.number < stop:
            yield entry


@dataclass(frozen=True, slots=True)
class RecentBatch:
    """A batch as the log records it. Times are in milliseconds."""

    batch: int
    entry: int  # that made it count
    epoch: int  # of its writer
    planned_ms: int
    prepared_ms: int  # when its files were written and it began to count
    closed_ms: int | None  # when a later entry said that its files are in their tables
    fetched: int  # records, as the next four; of a query, offsets
    landed: int  # in a main or a late table; of a query, or sent to a topic
    dead: int  # in a dead-letter table
    filtered: int  # left out by `where`
    dropped: int  # left out as invalid
    files: int
    size_bytes: int
    tables: tuple[str, ...]  # that its files are of


def read_batches(storage: Storage, name: SliceName, count: int) -> tuple[RecentBatch, ...]:
    """Return the last batches of a slice, oldest first. Raises LogDamaged, StorageError."""
    end = list_log(storage, name).latest
    entries = read_window(storage, name, end + 1 - LOOKED_AT * count, end + 1)
    closers = {each.closing.entry: each for each in entries if each.closing}
    found = [
        _recent(each, each.body, closers.get(each.number))
        for each in entries
        if isinstance(each.body, Prepare)
    ]
    return tuple(found[-count:])


def _recent(entry: Entry, body: Prepare, closer: Entry | None) -> RecentBatch:
    return RecentBatch(
        batch=body.batch,
        entry=entry.number,
        epoch=entry.epoch,
        planned_ms=body.time.now_ms,
        prepared_ms=entry.written_ms,
        closed_ms=closer.written_ms if closer else None,
        fetched=body.read,
        landed=body.landed,
        dead=sum(each.dead for each in body.shards),
        filtered=sum(each.filtered for each in body.shards),
        dropped=sum(each.dropped for each in body.shards),
        files=len(body.files),
        size_bytes=sum(each.size_bytes for each in body.files),
        tables=tuple(sorted({each.table for each in body.targets})),
    )
