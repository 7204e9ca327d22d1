"""What a consumer delivers again is read once, wherever offsets have holes."""

from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples

from ashore.log.positions import OffsetRange, StreamShard
from ashore.topics.read.client import PARTITION_END, Cluster, Complaints
from ashore.topics.read.consumer import ConsumerEvent, PollResult, TopicPartition
from ashore.topics.read.limits import DEFAULT_LIMITS
from ashore.topics.read.reading import _Reading
from ashore.topics.read.record_columns import FETCHED, to_times
from ashore_lab.testing import FakeClock

TOPIC = "clicks"
Delivered = tuple[int, int]  # partition, offset


class Script:
    """A consumer that delivers what it is told, some records a call, then the ends."""

    def __init__(self, chunks: list[list[Delivered]], ends: Mapping[TopicPartition, int]) -> None:
        self.chunks = chunks
        self.ends = ends

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """See RangeConsumer."""

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """See RangeConsumer."""

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """See RangeConsumer."""

    def consume(self, _limit: int, _wait_s: float) -> PollResult:
        """See RangeConsumer."""
        if self.chunks:
            chunk = self.chunks.pop(0)
            return PollResult([to_columns(chunk)] if chunk else [], [])
        return PollResult(
            [], [ConsumerEvent(at, PARTITION_END, end, "") for at, end in self.ends.items()]
        )

    def close(self) -> None:
        """See RangeConsumer."""


def to_columns(records: list[Delivered]) -> pa.RecordBatch:
    columns = [
        pa.array([TOPIC] * len(records)),
        pa.array([partition for partition, _ in records], pa.int32()),
        pa.array([offset for _, offset in records], pa.int64()),
        to_times(np.zeros(len(records), np.int64)),
        pa.nulls(len(records), pa.binary()),
        pa.array([b"%d" % offset for _, offset in records], pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=FETCHED)


@st.composite
def deliveries(draw: st.DrawFn) -> tuple[dict[int, list[int]], list[list[Delivered]]]:
    """Return the offsets that two partitions have, and chunks in which they come, some again."""
    there = {
        partition: sorted(draw(st.sets(st.integers(0, 25), max_size=10))) for partition in (0, 1)
    }
    at, flat = {0: 0, 1: 0}, list[Delivered]()
    while any(at[each] < len(there[each]) for each in at):
        partition = draw(st.sampled_from([each for each in at if at[each] < len(there[each])]))
        step = draw(st.integers(1, 4))
        flat += [(partition, each) for each in there[partition][at[partition] :][:step]]
        at[partition] += step - draw(st.integers(0, step - 1))  # goes back by some of them
    chunks = []
    while flat:
        count = draw(st.integers(1, len(flat)))
        chunks.append(flat[:count])
        flat = flat[count:]
    return there, chunks


@settings(deadline=None, max_examples=examples(150))
@given(deliveries(), st.integers(0, 10), st.integers(11, 30))
def test_each_record_of_the_ranges_is_read_once_and_in_order(
    delivered: tuple[dict[int, list[int]], list[list[Delivered]]], start: int, end: int
) -> None:
    there, chunks = delivered
    ranges = {StreamShard(TOPIC, str(each)): OffsetRange(start, end) for each in there}
    script = Script(chunks, {(TOPIC, each): end for each in there})
    cluster = Cluster("kafka:9092", {}, 20.0, FakeClock())
    found: dict[int, list[int]] = {each: [] for each in there}
    for batch in _Reading(cluster, script, ranges, Complaints(), DEFAULT_LIMITS).read():
        assert batch.num_rows
        rows = zip(
            batch["partition"].to_pylist(),
            batch["offset"].to_pylist(),
            batch["value"].to_pylist(),
            strict=True,
        )
        for partition, offset, value in rows:
            assert value == b"%d" % offset
            found[partition].append(offset)
    assert found == {
        partition: [each for each in offsets if start <= each < end]
        for partition, offsets in there.items()
    }
