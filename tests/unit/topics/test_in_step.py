"""No partition is read ahead of another: see also the property of the same name."""

import json

import pytest
from tests.stepped import START_MS, TOPIC, Stepped

from ashore.errors import JobFileInvalid
from ashore.log.positions import OffsetRange, StreamShard
from ashore.topics.route.event_columns import EventColumn
from ashore.topics.run.spark.source.source_options import SourceOptions, StepRule

SECOND = 1_000
FAR = 200_000  # records of a backlog


def seconds(start: int, count: int, step_ms: int = SECOND) -> list[int]:
    return [START_MS + start * SECOND + number * step_ms for number in range(count)]


def test_the_partition_that_is_behind_is_read_first() -> None:
    query = Stepped(2, maxOffsetsPerTrigger="10")
    query.append(0, *seconds(1_000, 50))
    query.append(1, *seconds(0, 50))
    assert query.plan() == {1: OffsetRange(0, 10)}
    assert query.planner.waits_for is not None
    assert query.planner.waits_for.shard == StreamShard(TOPIC, "1")
    assert query.planner.waits_for.event_ms == START_MS + 10 * SECOND


def test_partitions_are_cut_at_one_event_time() -> None:
    query = Stepped(2, maxOffsetsPerTrigger="100")
    query.append(0, *seconds(0, 1_000))
    query.append(1, *seconds(0, 10_000, step_ms=100))
    (sparse, dense) = query.plan().values()
    assert sparse.size + dense.size > 80
    assert abs(dense.size / 10 - sparse.size) <= 1


def test_a_partition_without_unread_records_holds_others_back_until_it_is_idle() -> None:
    query = Stepped(2, idleAfter="60s")
    query.append(0, *seconds(0, 5))
    query.append(1, *seconds(0, 20))
    assert query.plan() == {0: OffsetRange(0, 5), 1: OffsetRange(0, 5)}
    assert query.plan() == {}
    assert query.planner.waits_for is not None
    query.append(0, *seconds(5, 3))
    assert query.plan() == {0: OffsetRange(5, 8), 1: OffsetRange(5, 8)}
    query.clock.advance(60)
    assert query.plan() == {1: OffsetRange(8, 20)}
    assert query.planner.waits_for is None


def test_a_partition_that_was_idle_before_a_start_is_idle_after_it() -> None:
    query = Stepped(2, idleAfter="1h")
    for shard in (0, 1):
        query.append(shard, *seconds(0, 5))
    query.plan()
    query.start()
    query.append(1, *seconds(5, 10))
    assert query.plan() == {1: OffsetRange(5, 15)}


def test_a_start_again_knows_how_far_a_partition_was_read() -> None:
    query = Stepped(2, idleAfter="30d")
    query.append(0, *seconds(0, 5))
    query.append(1, *seconds(0, 20))
    query.plan()
    query.start()
    assert query.plan() == {}
    query.append(0, *seconds(7, 1))
    assert query.plan() == {0: OffsetRange(5, 6), 1: OffsetRange(5, 8)}


def test_a_partition_that_never_had_a_time_holds_nothing_back() -> None:
    query = Stepped(2)
    query.append(0, None, None)
    query.append(1, *seconds(0, 20))
    assert query.plan() == {0: OffsetRange(0, 2), 1: OffsetRange(0, 20)}


def test_available_now_is_not_held_back_by_what_may_come() -> None:
    query = Stepped(2)
    query.append(0, *seconds(0, 5))
    query.append(1, *seconds(0, 20))
    query.start(is_last=True)
    assert query.plan() == {0: OffsetRange(0, 5), 1: OffsetRange(0, 20)}


def test_a_record_from_the_future_counts_only_when_its_time_has_come() -> None:
    query = Stepped(2, futureMax="1h", idleAfter="30m")
    ahead_ms = query.clock.now_ms() + 3_600_000 + SECOND
    for shard in (0, 1):
        query.append(shard, *seconds(0, 3), ahead_ms, *seconds(3, 3))
    query.append(1, *seconds(6, 3))
    assert query.plan() == {0: OffsetRange(0, 7), 1: OffsetRange(0, 7)}

    query = Stepped(2, futureMax="1h", maxOffsetsPerTrigger="2")
    for shard in (0, 1):
        query.append(shard, *seconds(0, 3), ahead_ms, *seconds(3, 3))
    query.plan()  # which has looked at all
    query.clock.advance(2)
    query.plan(), query.plan()
    assert {shard: each.start for shard, each in query.plan().items()} == {0: 3, 1: 3}


def test_a_timestamp_of_the_record_can_be_the_event_time() -> None:
    query = Stepped(2, eventTime="timestamp", idleAfter="30m")
    query.append(0, 0)
    query.append(1, 0)
    query.clock.advance(10)
    query.append(1, 0)
    assert query.plan() == {0: OffsetRange(0, 1), 1: OffsetRange(0, 1)}


@pytest.mark.parametrize("disorder_ms", [0, 1_500])
def test_a_large_backlog_costs_few_looks(disorder_ms: int) -> None:
    query = Stepped(2, maxOffsetsPerTrigger=str(FAR // 2))
    for shard in (0, 1):
        times = seconds(shard * 20, FAR // 2, step_ms=2)
        query.append(
            shard, *(each - number * 7 % (disorder_ms + 1) for number, each in enumerate(times))
        )
    batches, newest = [], 0
    query.start(is_last=True)
    while ranges := query.plan():
        batches.append(sum(each.size for each in ranges.values()))
        times = [
            json.loads(value or b"")["ts"]
            for shard, offsets in ranges.items()
            for value in query.values(shard, offsets)
        ]
        assert min(times) > newest - 4 * SECOND
        newest = max(newest, *times)
    assert sum(batches) == FAR
    assert len(batches) <= 4
    assert query.looked < FAR / 5
    assert query.readings <= 12 * len(batches)


def test_compaction_leaves_few_records_to_look_at() -> None:
    query = Stepped(2, maxOffsetsPerTrigger="30000")
    for shard in (0, 1):
        for number in range(40):
            query.append(shard, *seconds(number, 1))
            query.kafka.leave_hole(StreamShard(TOPIC, str(shard)), 1_000)
    sizes = []
    query.start(is_last=True)
    while ranges := query.plan():
        sizes.append(sum(each.size for each in ranges.values()))
    assert sum(sizes) == 2 * 40 * 1_001
    assert len(sizes) <= 5


def test_one_partition_is_not_looked_at() -> None:
    query = Stepped(1, maxOffsetsPerTrigger="10")
    query.append(0, *seconds(0, 50))
    assert query.plan() == {0: OffsetRange(0, 10)}
    assert query.looked == 0


def test_options() -> None:
    least = {
        "kafka.bootstrap.servers": "one:1",
        "subscribe": "a",
        "schema": "ts STRING, meta STRUCT<at: BIGINT>",
        "eventTime": "decoded.meta.at",
        "eventTimeUnit": "s",
        "lateAfter": "10s",
    }
    rule = StepRule(EventColumn("meta.at", "s", ""), 10_000, 0, 3_600_000)
    assert SourceOptions.parse(least).steps == rule
    for wrong in (
        {"eventTime": "ts"},
        {"eventTime": "decoded.ts"},
        {"eventTime": "decoded.other"},
        {"eventTime": ""},
        {"eventTimeUnit": "h"},
        {"lateAfter": ""},
        {"lateAfter": "10"},
        {"idleAfter": "soon"},
    ):
        with pytest.raises(JobFileInvalid):
            SourceOptions.parse({**least, **wrong})
