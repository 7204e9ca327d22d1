"""Everything that happened to one data file, from the name that it has.

What it is: `trace_file`: which job owns the table, which entry made the file count and from which
offsets, how its move ended, which seals counted it, what took it away, and what lies there now.
What it promises: reads only; needs neither the job file nor Kafka. What cannot be known is said: a
file that no log names, a log that does not say how a move ended.
What it must not know: terminals.
"""

import posixpath
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass

from ashore.base.clock import SystemClock
from ashore.base.units import format_time
from ashore.errors import JobFileInvalid
from ashore.landing.log_reader import read_history
from ashore.landing.owner import Owner, read_owner
from ashore.protocol import names
from ashore.protocol.entries import (
    Entry,
    Prepare,
    Reland,
    Retire,
    RetiredPartition,
    Rollback,
    Seal,
    SealedPartition,
    ShardRead,
    Skip,
    Withdrawn,
)
from ashore.protocol.files import DataFile, Target
from ashore.protocol.names import FinalName, SliceName
from ashore.protocol.positions import ShardKey
from ashore.storage.base import Storage
from ashore.storage.open import open_storage

DEADLINE_S = 30.0
DATABASE = ".db"


@dataclass(frozen=True, slots=True)
class FileHistoryStep:
    """Something that happened to the file. `entry` of the log of `slice` tells it."""

    kind: str  # prepared | moved | sealed | lost | retired | rolled_back | given_up
    at: str
    slice: str
    entry: int
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
    there: str  # final | absent | differs (another size): what lies there now
    unknown: tuple[str, ...]  # what could not be told, and why

    def to_dict(self) -> dict[str, object]:
        """Return the history as `--json` prints it."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class _Where:
    """A file's place in a lake."""

    lake: str
    path: str  # below the lake
    table: str
    partition: str
    name: FinalName


@dataclass(frozen=True, slots=True)
class _Found:
    """The entry that lists the file."""

    entry: Entry
    file: DataFile
    target: Target
    shards: tuple[ShardKey, ...]


def trace_file(path: str) -> FileHistory:
    """Return what happened to a file. Raises JobFileInvalid, LogDamaged, StorageError.

    Arguments:
        path: of the final file: a path, `file://...` or `hdfs://...`.

    """
    where = _locate(path)
    storage = open_storage(where.lake, deadline_s=DEADLINE_S, clock=SystemClock())
    owner = read_owner(storage, where.table)
    unknown: list[str] = []
    found, steps = None, list[FileHistoryStep]()
    for name in _slices(storage, where, owner):
        entries = list(read_history(storage, name))
        found = _find(entries, where.name)
        if found is not None:
            steps = list(_steps(name, entries, found, where))
            break
    if found is None:
        unknown.append("no log of a job of this lake lists the file: it does not count")
    elif not any(each.kind in {"moved", "rolled_back"} for each in steps):
        unknown.append("no later entry says how its move ended: the entry is unclosed")
    unknown.append("calls to the storage are counted by metrics and not kept per file")
    return FileHistory(
        path=path,
        table=where.table,
        owner=owner.job if owner else None,
        slice=where.name.slice,
        epoch=where.name.epoch,
        batch=where.name.batch,
        task=where.name.task,
        rows=found.file.rows if found else None,
        size_bytes=found.file.size_bytes if found else None,
        checksum=found.file.checksum if found else None,
        ranges=tuple(_ranges(found)) if found else (),
        steps=tuple(steps),
        there=_there(storage, where, found),
        unknown=tuple(unknown),
    )


def _locate(path: str) -> _Where:
    """Return where a file is, from its path alone. Raises JobFileInvalid."""
    uri = path if "://" in path else f"file://{posixpath.abspath(path)}"
    scheme, _, rest = uri.partition("://")
    parts = rest.split("/")
    at = next((i for i, part in enumerate(parts) if part.endswith(DATABASE)), None)
    name = names.parse_final(parts[-1])
    if at is None or name is None or at + 2 > len(parts) - 1:
        raise JobFileInvalid(
            f"{path} is not a data file of a table",
            hint="name a final file, as /data/lake/ods.db/clicks/a-main-1-0-....parquet",
        )
    lake = f"{scheme}://{'/'.join(parts[:at])}"
    table = f"{parts[at].removesuffix(DATABASE)}.{parts[at + 1]}"
    return _Where(lake, "/".join(parts[at:]), table, "/".join(parts[at + 2 : -1]), name)


def _slices(storage: Storage, where: _Where, owner: Owner | None) -> Iterator[SliceName]:
    """Yield the slices that may have written the file: of the owner first, then of other jobs."""
    jobs = [owner.job] if owner else []
    root = posixpath.dirname(names.job_directory("x"))
    found = [names.leaf(each.path) for each in storage.list(root)]
    for job in [*jobs, *(each for each in sorted(found) if each not in jobs)]:
        yield SliceName(job, where.name.slice)


def _find(entries: Iterable[Entry], name: FinalName) -> _Found | None:
    for entry in entries:
        body = entry.body
        if not isinstance(body, Prepare | Reland):
            continue
        for file in body.files:
            if file.unique == name.unique:
                shards = body.shards
                keys = [each.key if isinstance(each, ShardRead) else each for each in shards]
                return _Found(entry, file, body.targets[file.target], tuple(keys))
    return None


def _ranges(found: _Found) -> Iterator[FileRange]:
    for span in found.file.spans:
        key = found.shards[span.shard]
        yield FileRange(key.stream, key.shard, span.start, span.end, span.rows)


def _steps(
    name: SliceName, entries: list[Entry], found: _Found, where: _Where
) -> Iterator[FileHistoryStep]:
    """Yield what happened to the file, in the order of the log."""
    number, unique = found.entry.number, found.file.unique
    key = (where.table, where.partition)
    for entry in entries:
        told = None
        closing = entry.closing
        if entry.number == number:
            told = "prepared", _prepared(entry, found)
        elif closing is not None and closing.entry == number:
            counts = f"{closing.moved} files moved, {closing.already_moved} were moved before"
            yield _step(name, entry, "moved", f"the entry is closed: {counts}")
        if entry.number > number:
            told = _later(entry, unique, key)
        if told is not None:
            yield _step(name, entry, *told)


def _later(entry: Entry, unique: str, key: tuple[str, str]) -> tuple[str, str] | None:
    """Return what a later entry did with the file, or with its partition; None: nothing."""
    match entry.body:
        case Seal(partitions=partitions):
            for each in partitions:
                if _key(each) == key:
                    return "sealed", f"version {each.version}, {each.rows:,} rows in the partition"
        case Retire(partitions=gone, by=by, why=why) if any(_key(each) == key for each in gone):
            return "retired", f"the partition was dropped by {by}: {why}"
        case Rollback(files=files, by=by, why=why) if any(_is(each, unique) for each in files):
            return "rolled_back", f"put aside by {by}: {why}"
        case Reland(lost=lost) if unique in lost:
            return "lost", f"it was lost; entry {entry.number} has its records again"
        case Skip(lost=lost, by=by, why=why) if unique in lost:
            return "given_up", f"given up by {by}: {why}"
    return None


def _is(withdrawn: Withdrawn, unique: str) -> bool:
    return withdrawn.file.unique == unique


def _key(partition: SealedPartition | RetiredPartition) -> tuple[str, str]:
    return partition.table, partition.partition


def _prepared(entry: Entry, found: _Found) -> str:
    file = found.file
    batch = getattr(entry.body, "batch", "?")
    return (
        f"batch {batch}, task {file.task}: {file.rows:,} rows, {file.size_bytes:,} bytes; from "
        "here on it counts"
    )


def _step(name: SliceName, entry: Entry, kind: str, text: str) -> FileHistoryStep:
    return FileHistoryStep(kind, format_time(entry.written_ms), name.slice, entry.number, text)


def _there(storage: Storage, where: _Where, found: _Found | None) -> str:
    """Return what lies at the paths of the file now."""
    at = storage.stat(where.path)
    if at is not None:
        is_same = found is None or at.size == found.file.size_bytes
        return "final" if is_same else "differs"
    return "absent"
