"""How much a batch of a query reads at most."""

from collections.abc import Iterator

import pytest

from ashore.log.plan_batch import BYTES_UNKNOWN
from ashore.log.positions import OffsetRange, StreamShard
from ashore.queries.spark.sql.batch_limits import BatchLimits, plan_limits
from ashore.topics.read.limits import DEFAULT_LIMITS, records_too_large
from ashore.topics.read.record_samples import LARGE_BYTES, ReadSizes, measure_records
from ashore_lab.testing import RecordedSource

FIRST, SECOND = StreamShard("clicks", "0"), StreamShard("clicks", "1")


def sizes_of(source: RecordedSource) -> ReadSizes:
    def read(shard: StreamShard, some: OffsetRange) -> Iterator[int]:
        for each in source.read_again(shard, some):
            yield len(each.key or b"") + len(each.value or b"")

    return read


@pytest.fixture
def source() -> RecordedSource:
    """Two shards: records of ten bytes, then of a thousand; and two of four."""
    source = RecordedSource()
    source.create("clicks", 2)
    source.append(FIRST, *[b"x" * 10] * 100, *[b"x" * 1000] * 100)
    source.append(SECOND, b"four", None)
    return source


@pytest.mark.parametrize(
    ("nexts", "average"),
    [
        ({FIRST: 0}, 10),
        ({FIRST: 100}, 1000),
        ({FIRST: 75}, (25 * 10 + 25 * 1000) / 50),
        ({SECOND: 0}, 2),  # a record without a value has no bytes
        ({FIRST: 200, SECOND: 2}, BYTES_UNKNOWN),
        ({}, BYTES_UNKNOWN),
    ],
)
def test_records_are_measured_where_reading_goes_on(
    source: RecordedSource, nexts: dict[StreamShard, int], average: float
) -> None:
    assert measure_records(source, nexts, sizes_of(source)) == average


def test_a_few_large_records_are_enough(source: RecordedSource) -> None:
    source.create("large")
    large = StreamShard("large", "0")
    source.append(large, *[b"x" * 3_000_000] * 2, b"")
    assert measure_records(source, {large: 0}, sizes_of(source)) == 3_000_000


def test_what_is_too_large_is_not_read(source: RecordedSource) -> None:
    """A record that exceeds the limits counts, with those before it, as many bytes as a batch."""

    def read(shard: StreamShard, some: OffsetRange) -> Iterator[int]:
        yield from [10, 10, 10]
        raise records_too_large(shard, OffsetRange(some.start + 3, some.start + 4), DEFAULT_LIMITS)

    assert measure_records(source, {FIRST: 0}, read) == (30 + LARGE_BYTES) / 4


@pytest.mark.parametrize(
    ("limits", "streams", "record_bytes", "planned"),
    [
        (BatchLimits(1000, 1_000_000), 1, {"a": 10.0}, {"a": 1000}),
        (BatchLimits(1000, 1_000_000), 1, {"a": 2000.0}, {"a": 500}),
        (BatchLimits(1000, 1_000_000), 2, {"a": 10.0, "b": 10_000.0}, {"a": 500, "b": 50}),
        (BatchLimits(1, 1), 3, {"a": 1e9}, {"a": 1}),
        (BatchLimits(1000, 1000), 1, {"a": 0.0}, {"a": 1000}),
    ],
)
def test_streams_share_the_limits_of_a_batch(
    limits: BatchLimits, streams: int, record_bytes: dict[str, float], planned: dict[str, int]
) -> None:
    assert plan_limits(limits, streams, record_bytes) == planned
