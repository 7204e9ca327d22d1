"""A small lake with its log and its source, and ways to spoil it.

Entries are written without the fold's checks, so that a log can lie.
"""

import hashlib
import io
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.orc as po
import pyarrow.parquet as pq

from ashore.base.unique import unique
from ashore.errors import SourceUnreachable
from ashore.jobs.file import parse_job
from ashore.log import names
from ashore.log.entries import (
    Body,
    Closing,
    Draft,
    Entry,
    Join,
    Joined,
    Open,
    Prepare,
    Reland,
    Seal,
    ShardRead,
    write_entry,
)
from ashore.log.files import BatchPlace, DataFile, FileSpan, Role, Target
from ashore.log.names import SliceName
from ashore.log.positions import BatchTime, OffsetRange, ShardKey, StreamShard
from ashore.proof.evidence.result import Problem, ProblemKind, VerifyResult
from ashore.proof.verify.job import verify_job
from ashore.storage.memory import MemoryStorage
from ashore.topics.open_job import OpenJob
from ashore.topics.read.source import Record
from ashore_lab.testing import FakeClock, RecordedSource

JOB = """\
job: clicks
lake: file:///data/lake
source: {kafka: {bootstrap_servers: "127.0.0.1:9092"}}
tables:
  - topic: clicks
    table: ods.clicks
    schema: "id BIGINT, ts BIGINT"
    late: {policy: side}
"""
TABLE = "ods.clicks"
DATE = "date=2026-11-21"

CLICKS_0 = StreamShard("clicks", "0")

NO_SIZES = {"size_bytes": 0, "event_max_ms": None}

Row = tuple[str, int, int]  # topic, partition, offset


class DeafSource(RecordedSource):
    """A source that can be made unreachable."""

    is_reachable = True
    asked: list[tuple[StreamShard, OffsetRange]]

    def __init__(self, clock: FakeClock) -> None:
        super().__init__("kafka", clock)
        self.asked = []

    def _find(self, shard):
        self._listen()
        return super()._find(shard)

    def list_streams(self) -> list[str]:
        self._listen()
        return super().list_streams()

    def describe_streams(self, streams: Sequence[str]):
        self._listen()
        return super().describe_streams(streams)

    def read_again(self, shard: StreamShard, offsets: OffsetRange) -> Iterator[Record]:
        self.asked.append((shard, offsets))
        return super().read_again(shard, offsets)

    def _listen(self) -> None:
        if not self.is_reachable:
            raise SourceUnreachable("no broker answers")


class Lake:
    """A job `clicks` with a slice `main`; batches come from the source, files are real."""

    def __init__(self, *, provenance: bool = True, extension: str = "parquet") -> None:
        self.clock = FakeClock()
        self.storage = MemoryStorage(self.clock)
        self.source = DeafSource(self.clock)
        self.job = parse_job(JOB)
        self.name = SliceName("clicks", "main")
        self.entries: list[Entry] = []
        self.epoch = 0
        self.batch = 0
        self.leader: int | None = None  # whose epoch entries name
        self.provenance = provenance
        self.extension = extension
        self.generation: int | None = None  # in the rows of its files; None: no such column

    def opened(self) -> OpenJob:
        return OpenJob(self.job, self.storage, self.source, self.clock)

    def verify(self, since: str | None = None) -> VerifyResult:
        return verify_job(self.opened(), since=since)

    def new_slice(self, name: str) -> "Lake":
        """Return another slice of the same job, with a log of its own."""
        other = Lake(provenance=self.provenance, extension=self.extension)
        other.clock, other.storage, other.source = self.clock, self.storage, self.source
        other.name = SliceName(self.name.job, name)
        return other

    # ---- the log

    def append(self, body: Body, *, after_s: float = 1.0, closing: Closing | None = None) -> Entry:
        """Append an entry; it closes what is unclosed. Nothing is checked."""
        self.clock.advance(after_s)
        last = self.entries[-1] if self.entries else None
        unclosed = None if isinstance(body, Open) else self.unclosed()
        if closing is None and unclosed is not None:
            closing = Closing(unclosed.number, 0, 0, False, (), ())
        draft = Draft(
            number=len(self.entries),
            id=unique() + unique(),
            epoch=self.epoch,
            written_ms=self.clock.now_ms(),
            previous=last.checksum if last else None,
            closing=closing,
            body=body,
        )
        entry, data = write_entry(draft)
        self.storage.create(names.entry_path(self.name, entry.number), data)
        self.entries.append(entry)
        return entry

    def unclosed(self) -> Entry | None:
        for entry in reversed(self.entries):
            if isinstance(entry.body, Prepare | Reland | Seal):
                return entry
            if not isinstance(entry.body, Open):
                return None
        return None

    def open(self) -> None:
        self.epoch += 1
        self.append(Open("here", 1, "0"))

    def key(self, shard: int = 0, generation: int = 1, stream: str = "clicks") -> ShardKey:
        return ShardKey("kafka", stream, generation, str(shard))

    def join(self, *shards: int, generation: int = 1, first: int = 0, stream: str = "clicks"):
        stream_id = self.source.describe_streams([stream])[stream].stream_id
        keys = [self.key(shard, generation, stream) for shard in shards]
        self.append(Join(tuple(Joined(key, stream_id, first, "earliest") for key in keys)))

    # ---- batches

    def land(
        self,
        ranges: dict[ShardKey, tuple[int, int]],
        *,
        dead: Iterable[int] = (),
        filtered: Iterable[int] = (),
        dropped: Iterable[int] = (),
        forgotten: Iterable[int] = (),
        twice: Iterable[int] = (),
        is_moved: bool = True,
    ) -> Entry:
        """Land what the source has in these ranges.

        `forgotten` offsets are in no file and no count; `twice` ones are in a file two times, and
        the log says so.
        """
        writing = _Writing(self)
        reads = []
        meant = {"dead": dead, "filtered": filtered, "dropped": dropped}
        for index, (key, (start, end)) in enumerate(ranges.items()):
            offsets = OffsetRange(start, end)
            counts = dict.fromkeys(("landed", *meant), 0)
            for offset in self.offsets_of(key, offsets):
                if offset in forgotten:
                    continue
                outcome = next((name for name in meant if offset in meant[name]), "landed")
                times = 1 + (offset in twice)
                counts[outcome] += times
                for _ in range(times):
                    writing.add(outcome, index, (key.stream, int(key.shard), offset))
            fetched = sum(counts.values())
            reported = {**counts, **NO_SIZES, "leader_epoch": self.leader}
            reads.append(ShardRead(key, offsets, TABLE, fetched, **reported))
        files = writing.write(is_moved=is_moved)
        body = Prepare(
            batch=self.batch,
            time=BatchTime(self.clock.now_ms()),
            shards=tuple(reads),
            targets=writing.targets,
            files=files,
            counters=(),
            query=None,
        )
        self.batch += 1
        return self.append(body)

    def offsets_of(self, key: ShardKey, offsets: OffsetRange) -> list[int]:
        """Return where the source has records, without being seen to ask."""
        shard = StreamShard(key.stream, key.shard)
        return [each.offset for each in RecordedSource.read_again(self.source, shard, offsets)]

    def target(self, place: str) -> Target:
        if place == "dead":
            table, partition = TABLE + "__dead", DATE
            return Target(
                table, Role.DEAD, partition, (("date", "x"),), "reason STRING", self.extension
            )
        partition = f"{DATE}/hour={place}"
        return Target(TABLE, Role.MAIN, partition, (("date", "x"),), "id BIGINT", self.extension)

    def render(self, rows: Sequence[Row], *, is_dead: bool = False) -> bytes:
        """Return the bytes of a file with these rows."""
        prefix = "" if is_dead else "kafka_"
        columns = {
            "id": pa.array(range(len(rows)), pa.int64()),
            f"{prefix}topic": pa.array([row[0] for row in rows], pa.string()),
            f"{prefix}partition": pa.array([row[1] for row in rows], pa.int32()),
            f"{prefix}offset": pa.array([row[2] for row in rows], pa.int64()),
        }
        if self.generation is not None:
            named = pa.array([self.generation] * len(rows), pa.int32())
            columns[f"{prefix}generation"] = named
        table = pa.table(columns if self.provenance or is_dead else {"id": columns["id"]})
        sink = io.BytesIO()
        match self.extension:
            case "parquet":
                pq.write_table(table, sink, row_group_size=7)
            case "orc":
                po.write_table(table, sink)
            case _:
                lines = [json.dumps(row) + "\n" for row in table.to_pylist()]
                sink.write("".join(lines).encode())
        return sink.getvalue()

    # ---- what lies there

    def files(self, entry: Entry) -> list[tuple[DataFile, str, str]]:
        """Return the files of an entry with their pending and final paths."""
        body = entry.body
        assert isinstance(body, Prepare | Reland)
        place = BatchPlace(self.name, entry.epoch, body.batch)
        placed = [place.place(file, body.targets[file.target]) for file in body.files]
        return [(each.file, each.pending, each.final) for each in placed]

    def final(self, entry: Entry, index: int = 0) -> str:
        return self.files(entry)[index][2]

    def overwrite(self, path: str, data: bytes) -> None:
        self.storage.delete(path)
        self.storage.create(path, data)

    def relist(self, entry: Entry, index: int, data: bytes) -> None:
        """Make the last entry, and the file, hold `data` in place of a file's bytes."""
        assert entry is self.entries[-1]
        body = entry.body
        assert isinstance(body, Prepare)
        path = self.final(entry, index)
        changed = replace(body.files[index], size_bytes=len(data), checksum=checksum(data))
        files = (*body.files[:index], changed, *body.files[index + 1 :])
        self.overwrite(path, data)
        self.rewrite(replace(body, files=files))

    def rewrite(self, body: Body) -> Entry:
        """Write the last entry again, with another body."""
        self.storage.delete(names.entry_path(self.name, self.entries.pop().number))
        return self.append(body)


class _Writing:
    """The files of one batch: a main file for even offsets, one for odd ones, a dead one."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._rows: dict[str, list[tuple[int, Row]]] = defaultdict(list)
        self.targets: tuple[Target, ...] = ()

    def add(self, outcome: str, shard: int, row: Row) -> None:
        if outcome in ("landed", "dead"):
            place = "dead" if outcome == "dead" else f"0{row[2] % 2}"
            self._rows[place].append((shard, row))

    def write(self, *, is_moved: bool) -> tuple[DataFile, ...]:
        files = []
        self.targets = tuple(self._lake.target(place) for place in self._rows)
        for index, (place, rows) in enumerate(self._rows.items()):
            data = self._lake.render([row for _, row in rows], is_dead=place == "dead")
            file = describe(index, [(shard, row[2]) for shard, row in rows], data)
            placed = BatchPlace(self._lake.name, self._lake.epoch, self._lake.batch).place(
                file, self.targets[index]
            )
            self._lake.storage.create(placed.final if is_moved else placed.pending, data)
            files.append(file)
        return tuple(files)


def describe(target: int, rows: Sequence[tuple[int, int]], data: bytes) -> DataFile:
    """Return what a log says of a file: `rows` are (index of the shard, offset)."""
    offsets: dict[int, list[int]] = defaultdict(list)
    for shard, offset in rows:
        offsets[shard].append(offset)
    return DataFile(
        target=target,
        task=0,
        unique=unique(),
        rows=len(rows),
        size_bytes=len(data),
        checksum=checksum(data),
        spans=tuple(
            FileSpan(shard, min(found), max(found) + 1, len(found))
            for shard, found in offsets.items()
        ),
        event_min_ms=None,
        event_max_ms=None,
    )


def checksum(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=8).hexdigest()


def fill(source: RecordedSource, stream: str, shard: int, count: int) -> None:
    source.append(StreamShard(stream, str(shard)), *[b"x"] * count)


def make_lake(*, provenance: bool = True, extension: str = "parquet") -> Lake:
    """Return a lake that is in order: two shards, two batches, dead, filtered and dropped records.

    Shard 0 holds a transaction marker at offset 50. Entries: 0 open, 1 join, 2 and 3 prepare.
    """
    lake = Lake(provenance=provenance, extension=extension)
    lake.source.create("clicks", 2)
    fill(lake.source, "clicks", 0, 50)
    lake.source.leave_hole(StreamShard("clicks", "0"))
    fill(lake.source, "clicks", 0, 49)
    fill(lake.source, "clicks", 1, 40)
    lake.open()
    lake.join(0, 1)
    first = {lake.key(0): (0, 60), lake.key(1): (0, 30)}
    lake.land(first, dead={7}, filtered={10, 11}, dropped={12})
    lake.land({lake.key(0): (60, 100), lake.key(1): (30, 40)})
    return lake


def kinds(result: VerifyResult) -> set[ProblemKind]:
    return set(result.problem_counts)


def only_problem(result: VerifyResult, kind: ProblemKind) -> Problem:
    """Return the one problem of a kind, having checked that it makes the exit code 5."""
    assert result.exit_code == 5
    found = [problem for problem in result.problems if problem.kind is kind]
    assert len(found) == 1, result.problems
    return found[0]
