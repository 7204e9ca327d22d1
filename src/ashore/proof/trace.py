"""Everything that happened to one data file, from the name that it has.

What it is: the job that owns the table, the entry that made the file count and its offsets, how its
move ended, seals, what removed it, and what is there now.
What it promises: reads only, an archive of a log at a time; needs neither the job file nor Kafka.
What the log says and what the lake shows are distinguished, and what is unknown is named.
"""

import posixpath
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass

from ashore.base.clock import SystemClock
from ashore.base.units import format_time
from ashore.errors import RequestInvalid
from ashore.log import names
from ashore.log.entries import (
    Compact,
    Entry,
    Prepare,
    Reland,
    Retire,
    RetiredPartition,
    Rollback,
    Seal,
    SealedPartition,
    Skip,
)
from ashore.log.files import BatchPlace, DataFile, FilePlace
from ashore.log.names import FinalName, SliceName
from ashore.log.positions import ShardKey
from ashore.log.store.owner import Owner, read_owner
from ashore.log.store.reader import read_history
from ashore.log.tables import DELTA
from ashore.storage.base import Storage
from ashore.storage.open import open_storage

DEADLINE_S = 30.0
DATABASE = ".db"
NOW = {
    "final": "in its table",
    "differs": "in its table, with another size: another file has its name",
    "staged": "staged: it is moved when its entry is closed",
    "absent": "neither in its table nor staged",
}


@dataclass(frozen=True, slots=True)
class FileHistoryStep:
    """An event in the history of the file, recorded by `entry` of the log of `slice`."""

    # prepared | moved | done | sealed | lost | retired | rolled_back | given_up | compacted |
    # abandoned
    kind: str
    at: str
    slice: str
    entry: int
    epoch: int  # of its writer
    text: str


@dataclass(frozen=True, slots=True)
class FileRange:
    """Offsets that the file's records are from."""

    topic: str
    partition: str
    start: int
    end: int
    rows: int


@dataclass(frozen=True, slots=True)
class FileHistory:
    """What is known of a file. None: it is not known."""

    path: str
    table: str
    partition: str  # of the table; empty: it has none
    owner: str | None  # the job that owns the table
    slice: str
    epoch: int
    batch: int
    task: int
    rows: int | None
    size_bytes: int | None  # as the log says
    checksum: str | None
    ranges: tuple[FileRange, ...]
    steps: tuple[FileHistoryStep, ...]
    there: str  # a key of NOW: what lies there now
    unknown: tuple[str, ...]  # what could not be found out, and why

    @property
    def now(self) -> str:
        """Where the file is, in words."""
        return NOW[self.there]

    def to_dict(self) -> dict[str, object]:
        """Return the history as `--json` prints it."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class _Where:
    written: str  # as the user has written it
    path: str  # below the lake
    table: str
    partition: str
    name: FinalName

    @property
    def key(self) -> tuple[str, str]:
        return self.table, self.partition


@dataclass(frozen=True, slots=True)
class _Found:
    entry: Entry
    file: DataFile
    place: FilePlace
    shards: tuple[ShardKey, ...]


def trace_file(path: str) -> FileHistory:
    """Return what happened to a file. Raises RequestInvalid, LogDamaged, StorageError.

    Arguments:
        path: of the final file: a path, `file://...` or `hdfs://...`.

    """
    uri = path if "://" in path else f"file://{posixpath.abspath(path)}"
    scheme, _, rest = uri.partition("://")
    parts = rest.split("/")
    at = next((i for i, part in enumerate(parts) if part.endswith(DATABASE)), 0)
    where = _locate(path, "/".join(parts[at:]))
    lake = f"{scheme}://{'/'.join(parts[:at])}"
    storage = open_storage(lake, deadline_s=DEADLINE_S, clock=SystemClock())
    owner = read_owner(storage, where.table)
    return _history_of(storage, where, owner, _slices(storage, where, owner), 0)


def trace_in_lake(storage: Storage, lake: str, job: str, path: str, start: int = 0) -> FileHistory:
    """Return what happened to a file of a job. Raises RequestInvalid, LogDamaged, StorageError.

    Arguments:
        storage: of the lake.
        lake: its address, as `file:///data/lake`.
        job: whose log is read, of the slice that the file's name has.
        path: of the final file, from the lake's root, or as an address.
        start: an entry before which none lists the file, as the user says.

    """
    below = path
    for root in (lake, lake.removeprefix("file://")):
        below = below.removeprefix(root.rstrip("/") + "/")
    where = _locate(path, below.lstrip("/"))
    owner = read_owner(storage, where.table)
    return _history_of(storage, where, owner, [SliceName(job, where.name.slice)], start)


def _locate(written: str, path: str) -> _Where:
    """Return where a file is, from its path below the lake alone. Raises RequestInvalid."""
    database, _, rest = path.partition("/")
    table, _, below = rest.partition("/")
    name = names.parse_final(names.leaf(path))
    if not database.endswith(DATABASE) or name is None or not below:
        raise RequestInvalid(
            f"{written[:300]} is not a data file of a table",
            hint="name a final file, as /data/lake/ods.db/clicks/a-main-1-0-....parquet",
        )
    partition = posixpath.dirname(below)
    return _Where(written, path, f"{database.removesuffix(DATABASE)}.{table}", partition, name)


def _slices(storage: Storage, where: _Where, owner: Owner | None) -> Iterator[SliceName]:
    """Yield the slices that may have written the file: of the owner first, then of other jobs."""
    jobs = [owner.job] if owner else []
    root = posixpath.dirname(names.job_directory("x"))
    found = [names.leaf(each.path) for each in storage.list(root)]
    for job in [*jobs, *(each for each in sorted(found) if each not in jobs)]:
        yield SliceName(job, where.name.slice)


def _history_of(
    storage: Storage, where: _Where, owner: Owner | None, slices: Iterable[SliceName], start: int
) -> FileHistory:
    found, steps = None, list[FileHistoryStep]()
    for name in slices:
        found, steps = _read(storage, name, where, start)
        if found is None and start:  # the named entry was wrong
            found, steps = _read(storage, name, where, 0)
        if found is not None:
            break
    unknown = []
    if found is None:
        unknown.append("no log of a job of this lake lists the file: it does not count")
    elif not any(each.kind in {"moved", "rolled_back"} for each in steps):
        unknown.append("no later entry says how its move ended: the entry is unclosed")
    unknown.append("calls to the storage are counted by metrics and not kept per file")
    file = found.file if found else None
    return FileHistory(
        path=where.written,
        table=where.table,
        partition=where.partition,
        owner=owner.job if owner else None,
        slice=where.name.slice,
        epoch=where.name.epoch,
        batch=where.name.batch,
        task=where.name.task,
        rows=file.rows if file else None,
        size_bytes=file.size_bytes if file else None,
        checksum=file.checksum if file else None,
        ranges=tuple(_ranges(found)) if found else (),
        steps=tuple(steps),
        there=_there(storage, where, found),
        unknown=tuple(unknown),
    )


def _read(
    storage: Storage, name: SliceName, where: _Where, start: int
) -> tuple[_Found | None, list[FileHistoryStep]]:
    found, steps = None, list[FileHistoryStep]()
    compacted = -1  # the entry that replaces the file, if it is closed as done
    for entry in read_history(storage, name, start):
        if found is None:
            found = _find(name, entry, where)
            events = [("prepared", _prepared(found))] if found else []
        else:
            events = [*_closed(entry, found, where), *_later(entry, found.file.unique, where)]
            closing = entry.closing
            if closing is not None and closing.entry == compacted and not closing.abandoned:
                events.append(("compacted", f"entry {compacted} has its rows in another file"))
            if isinstance(entry.body, Compact) and where.path in entry.body.paths:
                compacted = entry.number
        steps += [
            FileHistoryStep(
                kind, format_time(entry.written_ms), name.slice, entry.number, entry.epoch, text
            )
            for kind, text in events
        ]
    return found, steps


def _find(name: SliceName, entry: Entry, where: _Where) -> _Found | None:
    body = entry.body
    if not isinstance(body, Prepare | Reland | Compact) or entry.epoch != where.name.epoch:
        return None
    places = BatchPlace(name, entry.epoch, body.batch)
    for file in body.files:
        if file.unique == where.name.unique:
            place = places.place(file, body.targets[file.target])
            if place.final == where.path:
                return _Found(entry, file, place, _shards(body))
    return None


def _shards(body: Prepare | Reland | Compact) -> tuple[ShardKey, ...]:
    """Return what the spans of an entry's files refer to."""
    if isinstance(body, Compact):
        return tuple(each.key for each in body.parts)
    return tuple(each if isinstance(each, ShardKey) else each.key for each in body.shards)


def _ranges(found: _Found) -> Iterator[FileRange]:
    for span in found.file.spans:
        key = found.shards[span.shard]
        yield FileRange(key.stream, key.shard, span.start, span.end, span.rows)


def _prepared(found: _Found) -> str:
    file, body = found.file, found.entry.body
    if isinstance(body, Compact):
        return (
            f"put together from some of {len(body.replaced):,} files: {file.rows:,} rows, "
            f"{file.size_bytes:,} bytes; it counts once the entry is closed"
        )
    batch = body.batch if isinstance(body, Prepare | Reland) else 0
    again = " again, as it was lost" if isinstance(body, Reland) else ""
    return (
        f"batch {batch}, task {file.task} lists it{again}: {file.rows:,} rows, "
        f"{file.size_bytes:,} bytes; from here on it counts{_ordered(found)}"
    )


def _ordered(found: _Found) -> str:
    """Return the snapshot or version that the entry orders of the file's table."""
    body = found.entry.body
    if not isinstance(body, Prepare | Reland):
        return ""
    table = body.targets[found.file.target].table
    for each in body.commits:
        if each.table == table:
            kind = "a version after" if each.format == DELTA else "snapshot"
            return f", in {kind} {each.snapshot_id}"
    return ""


def _closed(entry: Entry, found: _Found, where: _Where) -> Iterator[tuple[str, str]]:
    closing = entry.closing
    if closing is None:
        return
    if closing.entry == found.entry.number and closing.abandoned:
        yield "abandoned", f"the compaction came to nothing: {closing.abandoned}"
    elif closing.entry == found.entry.number:
        counts = f"{closing.moved} files moved, {closing.already_moved} were moved before"
        yield "moved", f"its entry is closed: {counts}"
    for effect in closing.done:
        action, *key = effect.split(":")
        if tuple(key[:2]) == where.key:
            yield "done", f"{action} of its partition"


def _later(entry: Entry, unique: str, where: _Where) -> Iterator[tuple[str, str]]:
    match entry.body:
        case Seal(partitions=partitions):
            for each in partitions:
                if _key(each) == where.key:
                    rows = f"{each.rows:,} rows in the partition"
                    yield "sealed", f"version {each.version}, {rows}"
        case Retire(partitions=old, by=by, why=why) if any(_key(x) == where.key for x in old):
            yield "retired", f"the partition was dropped by {by}: {why}"
        case Rollback(files=files, by=by, why=why) if any(x.file.unique == unique for x in files):
            yield "rolled_back", f"put aside by {by}: {why}"
        case Reland(lost=lost) if unique in lost:
            yield "lost", f"it was lost; entry {entry.number} has its records again"
        case Skip(lost=lost, by=by, why=why) if unique in lost:
            yield "given_up", f"given up by {by}: {why}"
        case _:
            return


def _key(partition: SealedPartition | RetiredPartition) -> tuple[str, str]:
    return partition.table, partition.partition


def _there(storage: Storage, where: _Where, found: _Found | None) -> str:
    final = storage.stat(where.path)
    if final is not None:
        return "final" if found is None or final.size == found.file.size_bytes else "differs"
    is_staged = found is not None and storage.stat(found.place.pending) is not None
    return "staged" if is_staged else "absent"
