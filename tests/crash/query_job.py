"""A streaming query without Spark: a checkpoint, batches, and the sink under test.

What it is: a world whose processes run one query as Spark does: plan the batch's offsets into the
checkpoint, run it, hand its rows to the sink, and then call it done. A process that starts runs the
last planned batch again, unless it is done.
What it promises: deterministic. The checkpoint outlives processes and never fails: what is tried
out is the lake.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import SimpleNamespace

from tests.crash.harness import (
    NAME,
    Process,
    World,
    build_job,
    checksum_of,
    memory_world,
    require,
)

from ashore.base.clock import Clock
from ashore.errors import AshoreError
from ashore.log import names
from ashore.log.entries import ShardRead
from ashore.log.files import DataFile, FileSpan, Role, Target
from ashore.log.plan_query import QueryBatch
from ashore.log.positions import OffsetRange, ShardKey, ShardRange, StreamShard
from ashore.log.query import Letter, PlanState, choose_letters
from ashore.log.query_history import read_landed_batches
from ashore.log.store.reader import read_history
from ashore.log.tables import DEAD_SUFFIX
from ashore.storage import Storage
from ashore.storage.open import LakeAddress
from ashore.tables.catalog import NoCatalog
from ashore.topics.loop.assembly import Environment, JobAssembly
from ashore.topics.loop.query_sink import BegunBatch
from ashore.topics.loop.worker import Tick
from ashore.topics.write.batch import OutputSpec, TaskResult
from ashore_lab.testing import FaultyStorage, RecordedRow, RecordedSource

TABLE = "ods.result"
TABLES = (TABLE,)
DEAD = TABLE + DEAD_SUFFIX
REMEMBER_MS = 1_000_000
STEP = 3  # offsets of a shard that a batch reads

Ends = Mapping[ShardKey, int]

RESULT = OutputSpec(
    table=TABLE,
    schema="n BIGINT",
    partition_by=("parity",),
    timezone="UTC",
    event_column=None,
    event_unit="ms",
    format="jsonl",
    roll_bytes=1 << 20,
)


@dataclass
class Checkpoint:
    """What Spark keeps: planned offsets, finished batches, and a state for each of them."""

    query_id: str = "query-1"
    plan: str = "plan"
    offsets: dict[int, Ends] = field(default_factory=dict)
    commits: set[int] = field(default_factory=set)
    state: dict[int, int] = field(default_factory=dict)  # records seen up to and with a batch


class Query:
    """What runs a query in one process: the duties of the loop of a slice."""

    tables: tuple[str, ...] = TABLES

    def __init__(self, world: "QueryWorld", storage: Storage, clock: Clock) -> None:
        self.plan = SimpleNamespace(name=NAME, streams=self._claim)
        self.parts = SimpleNamespace(clock=clock)
        self.world = world
        self._storage = storage
        environment = Environment(
            LakeAddress("memory:"), storage, world.source, NoCatalog(), clock, entropy=world.entropy
        )
        job = build_job(world.batch_records, skips_gaps=False)
        self.assembly = JobAssembly(job, environment)
        self.sink = self.assembly.sink(NAME, RESULT, REMEMBER_MS)
        self._is_claimed = False
        self.is_open = False

    def tick(self) -> Tick:
        """Run one batch, as a query does that is started anew after each error."""
        try:
            if not self.is_open:
                if self.sink.open().plan is None:
                    self.sink.take_plan(PlanState("plan", "{}"))
                self.sink.take_version(self.world.checkpoint.plan, lambda: "{}")
                self.is_open = True
            batch = self.next_batch()
            if batch is None:
                self.sink.idle()
                return Tick.IDLE
            self._run(batch)
        except AshoreError:
            self.is_open = False
            raise
        return Tick.LANDED

    def has_more(self) -> bool:
        """Tell whether a batch is planned and not done, or could be planned."""
        checkpoint = self.world.checkpoint
        last = max(checkpoint.offsets, default=-1)
        planned = checkpoint.offsets.get(last, {})
        return last not in checkpoint.commits or self._plan_ends(planned) != planned

    def close(self, _reason: str) -> None:
        """There is nothing to close: each batch is."""

    def _claim(self) -> None:
        if not self._is_claimed:
            self.assembly.claim(self.tables)
            self._is_claimed = True

    def next_batch(self) -> QueryBatch | None:
        """Return the batch that is planned and not done, or plan one more."""
        checkpoint = self.world.checkpoint
        last = max(checkpoint.offsets, default=-1)
        if not self.has_more():
            return None
        if last in checkpoint.commits or last < 0:
            checkpoint.offsets[last + 1] = self._plan_ends(checkpoint.offsets.get(last, {}))
            last += 1
        before, ends = checkpoint.offsets.get(last - 1, {}), checkpoint.offsets[last]
        ranges = tuple(
            ShardRange(key, OffsetRange(before.get(key, 0), end)) for key, end in ends.items()
        )
        return QueryBatch(checkpoint.query_id, last, checkpoint.plan, ranges)

    def _plan_ends(self, before: Ends) -> Ends:
        source = self.world.source
        shards = [
            StreamShard(info.stream, shard)
            for info in source.describe_streams(source.list_streams()).values()
            for shard in info.shards
        ]
        return {
            key: min(there.end, before.get(key, 0) + STEP)
            for shard, there in source.read_offsets(shards).items()
            for key in [ShardKey("kafka:result", shard.stream, 1, shard.shard)]
        }

    def _run(self, batch: QueryBatch) -> None:
        checkpoint, number = self.world.checkpoint, batch.batch_id
        streams = self.world.source.describe_streams(self.world.source.list_streams())
        past = self.read_past(batch)
        begun = self.sink.begin(batch, lambda key: streams[key.stream].stream_id, past)
        rows = list(self._compute(batch))
        checkpoint.state[number] = checkpoint.state.get(number - 1, 0) + len(rows)
        if begun is not None:
            self.sink.land(begun, [self._write(begun, rows)])
        checkpoint.commits.add(number)

    def read_past(self, _batch: QueryBatch) -> dict[int, str]:
        """Return lineages of older batches, where a checkpoint may be far behind its table."""
        return {}

    def _compute(self, batch: QueryBatch) -> Iterator[RecordedRow]:
        for each in batch.ranges:
            shard = StreamShard(each.key.stream, each.key.shard)
            for record in self.world.source.read_again(shard, each.offsets):
                yield RecordedRow(each.key.stream, 1, each.key.shard, record.offset)

    def _write(self, begun: BegunBatch, rows: list[RecordedRow]) -> TaskResult:
        """Write the rows as a task does, one file a parity."""
        targets, files = [], []
        for parity in (0, 1):
            chosen = [row for row in rows if row.offset % 2 == parity]
            if chosen:
                values = (("parity", str(parity)),)
                targets.append(
                    Target(TABLE, Role.MAIN, f"parity={parity}", values, "n BIGINT", "jsonl")
                )
                files.append(self._write_file(begun, TABLE, len(targets) - 1, chosen))
        return TaskResult(0, (), tuple(targets), tuple(files), ())

    def _write_file(
        self, begun: BegunBatch, table: str, target: int, rows: list[RecordedRow]
    ) -> DataFile:
        unique = self.world.entropy()
        content = b"".join(names_line(row) for row in rows)
        staging = names.staging_directory(table, NAME, begun.order.epoch)
        path = names.join(staging, names.pending_name(begun.order.batch, unique))
        writer = self._storage.open_write(path)
        writer.write(content)
        writer.close()
        self._storage.sync([staging])
        size, checksum = len(content), checksum_of(content)
        return DataFile(target, 0, unique, len(rows), size, checksum, (), None, None)


class QueryBehind(Query):
    """A query whose checkpoint may be far behind its table."""

    def read_past(self, batch: QueryBatch) -> dict[int, str]:
        known = self.sink.fold.query
        if known is None or batch.batch_id >= known.batch_id:
            return {}
        batches = read_landed_batches(read_history(self.sink.storage, NAME), batch.batch_id - 1)
        return {number: each.query.lineage for number, each in batches.items()}


class AsideQuery(Query):
    """A query that leaves every third record aside, as one that its SQL cannot compute."""

    tables = (TABLE, DEAD)

    def _write(self, begun: BegunBatch, rows: list[RecordedRow]) -> TaskResult:
        left_out = [row for row in rows if row.offset % 3 == 1]
        written = super()._write(begun, [row for row in rows if row not in left_out])
        if not left_out:
            return written
        keys = sorted({each.key for each in begun.batch.ranges})
        reads, spans = [], []
        for key in keys:
            shard = (key.stream, key.shard)
            mine = [row.offset for row in left_out if (row.stream, row.shard) == shard]
            if mine:
                span = OffsetRange(min(mine), max(mine) + 1)
                spans.append(FileSpan(len(reads), span.start, span.end, len(mine)))
                count = len(mine)
                reads.append(ShardRead(key, span, TABLE, count, 0, count, 0, 0, 10, None))
        targets = (*written.targets, Target(DEAD, Role.DEAD, "", (), "n BIGINT", "jsonl"))
        file = self._write_file(begun, DEAD, len(targets) - 1, left_out)
        files = (*written.files, replace(file, spans=tuple(spans)))
        return TaskResult(0, tuple(reads), targets, files, ())


class LeavingQuery(AsideQuery):
    """A query with state that fails at every third record, unless its log says to leave it out."""

    def next_batch(self) -> QueryBatch | None:
        batch = super().next_batch()
        if batch is None:
            return None
        return replace(batch, left_out=choose_letters(self.sink.fold.left_out, batch.ranges))

    def _run(self, batch: QueryBatch) -> None:
        checkpoint, number = self.world.checkpoint, batch.batch_id
        streams = self.world.source.describe_streams(self.world.source.list_streams())
        begun = self.sink.begin(batch, lambda key: streams[key.stream].stream_id)
        left_out = {(each.key, each.offset) for each in batch.left_out}
        bad = [
            Letter(each.key, offset, "no number")
            for each in batch.ranges
            for offset in range(each.offsets.start, each.offsets.end)
            if offset % 3 == 1 and (each.key, offset) not in left_out
        ]
        if bad and begun is not None:
            self.sink.leave_out(bad)
            self.is_open = False  # the batch is run again, from the start
            return
        rows = list(self._compute(batch))
        seen = len(rows) - len(left_out)
        checkpoint.state[number] = checkpoint.state.get(number - 1, 0) + seen
        if begun is not None:
            self.sink.land(begun, [self._write(begun, rows)])
        checkpoint.commits.add(number)


def names_line(row: RecordedRow) -> bytes:
    return f'["{row.stream}",{row.generation},"{row.shard}",{row.offset}]\n'.encode()


@dataclass
class QueryWorld(World):
    """A world whose processes run one query."""

    checkpoint: Checkpoint = field(default_factory=Checkpoint)
    query: type[Query] = Query  # what a process runs

    def start_on(
        self,
        faulty: FaultyStorage,
        *,
        wrap=lambda storage: storage,
        source: RecordedSource | None = None,
    ) -> Process:
        require(source is None, "a query reads the world's own source")
        storage = wrap(faulty)
        return Process(self.query(self, storage, self.clock), faulty, storage)


def query_world() -> QueryWorld:
    """Three shards, three batches: the second reads two of them, the last one."""
    plain = memory_world()
    return QueryWorld(plain.machine, plain.source, plain.clock)


def count_state(world: QueryWorld) -> int:
    """Return how many records the query's state has seen."""
    return world.checkpoint.state[max(world.checkpoint.state)]
