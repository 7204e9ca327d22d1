"""Everything that happened to one file: listed, moved, sealed, rolled back, and where it is.

What it is: `trace_in_job`, from the log that the file's name leads to, and the lake.
What it promises: reads only. What the log says and what the lake shows are told apart.
What it must not know: how it is shown.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from ashore.control.jobs import OpenJob
from ashore.errors import RequestInvalid
from ashore.landing.job import lake_of
from ashore.landing.log_reader import read_history
from ashore.landing.owner import read_owner
from ashore.protocol import names
from ashore.protocol.entries import Entry, Prepare, Reland, Retire, Rollback, Seal, Skip
from ashore.protocol.files import BatchPlace, DataFile, FilePlace, Target
from ashore.protocol.names import FinalName, SliceName
from ashore.protocol.positions import ShardKey


@dataclass(frozen=True, slots=True)
class TraceStep:
    """Something that happened to a file, as an entry tells it."""

    entry: int
    kind: str
    at_ms: int
    epoch: int
    text: str


@dataclass(frozen=True, slots=True)
class FileTrace:
    """A file: what the log says of it, and where it is.

    Arguments:
        path: in its table, relative to the lake.
        pending: where it waits before it is moved there.
        slice: whose log lists it.
        table: that it is of.
        partition: of the table.
        rows: in it, as the log says.
        size_bytes: as above.
        checksum: as above.
        offsets: of its records: topic partition, first and last offset, rows.
        steps: what happened, in order.
        now: where the lake has it.
        owner: the job that owns the table; None: no file says so.

    """

    path: str
    pending: str
    slice: str
    table: str
    partition: str
    rows: int
    size_bytes: int
    checksum: str
    offsets: tuple[tuple[str, int, int, int], ...]
    steps: tuple[TraceStep, ...]
    now: str
    owner: str | None


@dataclass(frozen=True, slots=True)
class _Listed:
    """The entry that lists a file, and the file."""

    entry: Entry
    file: DataFile
    target: Target
    place: FilePlace
    shards: tuple[ShardKey, ...]


def trace_in_job(opened: OpenJob, path: str, start: int = 0) -> FileTrace:
    """Return what happened to a file. Raises RequestInvalid where no entry lists it.

    Arguments:
        opened: the job whose log is read.
        path: of the file in its table, from the lake's root, or as an address.
        start: the first entry that is read, where somebody knows that none before lists the file.

    Raises LogDamaged, StorageError too.

    """
    relative = path.removeprefix(lake_of(opened.job).uri).lstrip("/")
    named = names.parse_final(names.leaf(relative))
    if named is None:
        raise RequestInvalid(
            f"{path[:300]} is not named as files of a job are",
            hint="name a data file of a table, as in ods.db/clicks/date=2026-11-21/a-main-...",
        )
    name = SliceName(opened.job.job, named.slice)
    listed: _Listed | None = None
    steps: list[TraceStep] = []
    for entry in read_history(opened.storage, name, start):
        if listed is None:
            listed = _find_listed(name, entry, named, relative)
            steps += [_step(entry, _say_listed(listed))] if listed else []
        else:
            steps += [_step(entry, text) for text in _say_later(entry, listed)]
    if listed is None:
        raise RequestInvalid(
            f"no entry of the log of {name} lists {relative}",
            hint="`ashore verify` names files that no entry lists",
        )
    return _trace(opened, name, listed, steps)


def _find_listed(name: SliceName, entry: Entry, named: FinalName, path: str) -> _Listed | None:
    body = entry.body
    if not isinstance(body, Prepare | Reland) or entry.epoch != named.epoch:
        return None
    places = BatchPlace(name, entry.epoch, body.batch)
    for file in body.files:
        place = places.place(file, body.targets[file.target])
        if place.final == path:
            return _Listed(entry, file, body.targets[file.target], place, _shards_of(body))
    return None


def _shards_of(body: Prepare | Reland) -> tuple[ShardKey, ...]:
    if isinstance(body, Prepare):
        return tuple(each.key for each in body.shards)
    return body.shards


def _say_listed(listed: _Listed) -> str:
    body, file = listed.entry.body, listed.file
    batch = body.batch if isinstance(body, Prepare | Reland) else 0
    again = " again, as it was lost" if isinstance(body, Reland) else ""
    return f"batch {batch} lists it{again}: {file.rows:,} rows, {file.size_bytes:,} bytes"


def _say_later(entry: Entry, listed: _Listed) -> Iterator[str]:
    """Yield what an entry after it says of a file."""
    yield from _say_closed(entry, listed)
    body, unique = entry.body, listed.file.unique
    match body:
        case Seal():
            for each in body.partitions:
                if (each.table, each.partition) == listed.target.key:
                    yield f"its partition is sealed, version {each.version}, {each.rows:,} rows"
        case Retire():
            if any((each.table, each.partition) == listed.target.key for each in body.partitions):
                yield f"its partition is dropped by {body.by}: {body.why}"
        case Skip() | Reland() if unique in body.lost:
            how = "given up" if isinstance(body, Skip) else "written again from Kafka"
            yield f"it is lost, and {how}"
        case Rollback():
            if any(each.file.unique == unique for each in body.files):
                yield f"its batch is rolled back by {body.by}, and it is set aside: {body.why}"
        case _:
            return


def _say_closed(entry: Entry, listed: _Listed) -> Iterator[str]:
    closing = entry.closing
    if closing is None:
        return
    if closing.entry == listed.entry.number:
        yield "its batch is closed: the files are in their tables"
    ids = [each for each in closing.done if f":{listed.target.table}:" in each]
    yield from (f"done: {each}" for each in ids if each.endswith(listed.target.partition))


def _step(entry: Entry, text: str) -> TraceStep:
    return TraceStep(entry.number, entry.kind, entry.written_ms, entry.epoch, text)


def _trace(opened: OpenJob, name: SliceName, listed: _Listed, steps: list[TraceStep]) -> FileTrace:
    file, target, place = listed.file, listed.target, listed.place
    offsets = tuple(
        (f"{key.stream}/{key.shard}", each.start, each.end - 1, each.rows)
        for each in file.spans
        for key in (listed.shards[each.shard],)
    )
    owner = read_owner(opened.storage, target.table)
    return FileTrace(
        path=place.final,
        pending=place.pending,
        slice=name.slice,
        table=target.table,
        partition=target.partition,
        rows=file.rows,
        size_bytes=file.size_bytes,
        checksum=file.checksum,
        offsets=offsets,
        steps=tuple(steps),
        now=_look(opened, listed),
        owner=None if owner is None else owner.job,
    )


def _look(opened: OpenJob, listed: _Listed) -> str:
    """Return where the lake has a file now."""
    final = opened.storage.stat(listed.place.final)
    if final is not None:
        if final.size != listed.file.size_bytes:
            return f"in its table, with {final.size:,} bytes: another file has its name"
        return "in its table"
    if opened.storage.stat(listed.place.pending) is not None:
        return "staged: it is moved when its entry is closed"
    return "neither in its table nor staged"
