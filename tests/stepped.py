"""Topics with event times, planned in step over a source in memory."""

import json
from collections.abc import Iterator, Mapping

import pyarrow as pa

from ashore.log.positions import OffsetRange, StreamShard
from ashore.topics.read.record_columns import fetched_batch
from ashore.topics.read.stream_ends import StreamEnd
from ashore.topics.run.spark.source.in_step import LookSizes, StepPlanner
from ashore.topics.run.spark.source.record_times import TimeReader
from ashore.topics.run.spark.source.source_options import SourceOptions
from ashore.topics.run.spark.source.stream_planner import StreamPlanner
from ashore_lab.testing import RecordedSource
from ashore_lab.testing.clock import FakeClock

TOPIC = "clicks"
START_MS = 1_794_000_000_000
OPTIONS = {
    "kafka.bootstrap.servers": "nowhere:1",
    "subscribe": TOPIC,
    "schema": "ts BIGINT",
    "eventTime": "decoded.ts",
    "lateAfter": "4s",
}
LOOKS = LookSizes()


def timed(time_ms: int | None) -> bytes:
    """Return a record with this event time."""
    return json.dumps({"ts": time_ms}).encode()


class Stepped:
    """A query over a topic: it plans batches, and a restart of it knows its last end only."""

    def __init__(self, shards: int, sizes: LookSizes = LOOKS, **options: str) -> None:
        self.clock = FakeClock()
        self.kafka = RecordedSource(clock=self.clock)
        self.kafka.create(TOPIC, shards)
        self.sizes = sizes
        self.options = SourceOptions.parse({**OPTIONS, **options})
        self.looked = 0  # offsets
        self.readings = 0
        self.end: StreamEnd | None = None
        self.start()

    def start(self, *, is_last: bool = False) -> None:
        """Start the query, or start it again. `is_last`: it reads what is there now."""
        assert self.options.steps is not None
        reader = TimeReader(self._read, self.options.shape, self.options.steps, "python")
        self.steps = StepPlanner(self.options.steps, self.clock, reader.read, self.sizes)
        self.planner = StreamPlanner(
            self.kafka, self.options, self.clock, lambda _nexts: 1.0, self.steps
        )
        if is_last:
            self.planner.fix_target()
        self.end = self.end or self.planner.plan_initial()

    def append(self, shard: int, *times_ms: int | None) -> None:
        """Append records with these event times."""
        self.kafka.append(StreamShard(TOPIC, str(shard)), *map(timed, times_ms))

    def plan(self) -> dict[int, OffsetRange]:
        """Plan a batch; return what it reads by partition."""
        assert self.end is not None
        start, self.end = self.end, self.planner.plan_next(self.end, limited=True)
        ranges = () if self.end == start else self.planner.list_ranges(start, self.end)
        return {int(each.key.shard): each.offsets for each in ranges}

    def values(self, shard: int, offsets: OffsetRange) -> list[bytes | None]:
        """Return the records of a range."""
        records = self.kafka.read_again(StreamShard(TOPIC, str(shard)), offsets)
        return [each.value for each in records]

    def _read(self, ranges: Mapping[StreamShard, OffsetRange]) -> Iterator[pa.RecordBatch]:
        self.readings += 1
        for shard, offsets in ranges.items():
            there = self.kafka.read_offsets([shard])[shard]
            assert there.earliest <= offsets.start < offsets.end <= there.end
            self.looked += offsets.size
            yield fetched_batch(shard, list(self.kafka.read_again(shard, offsets)))
