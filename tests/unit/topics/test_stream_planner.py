"""Where batches of the source `ashore` begin and end, in whatever a Kafka does."""

import json
from collections.abc import Mapping

import pytest

from ashore.errors import (
    HistoryTruncated,
    OffsetsGone,
    OffsetsWentBack,
    StreamMissing,
    StreamReplaced,
)
from ashore.log.positions import StreamShard
from ashore.topics.read.stream_ends import StreamEnd
from ashore.topics.run.spark.source.source_options import SourceOptions
from ashore.topics.run.spark.source.stream_planner import StreamPlanner
from ashore_lab.testing import RecordedSource
from ashore_lab.testing.clock import FakeClock

CLICKS = StreamShard("clicks", "0")
OTHER = StreamShard("clicks", "1")
OPTIONS = {
    "kafka.bootstrap.servers": "nowhere:1",
    "subscribe": "clicks",
    "schema": "id BIGINT",
}


@pytest.fixture
def kafka() -> RecordedSource:
    source = RecordedSource()
    source.create("clicks", 2)
    return source


def parse(text: str) -> StreamEnd:
    return StreamEnd.parse(json.loads(text))


def planner_of(
    source: RecordedSource,
    record_bytes: float = 1.0,
    clock: FakeClock | None = None,
    **more: str,
) -> StreamPlanner:
    """Return the planner of a start: it knows nothing of starts before."""

    def measure(_nexts: Mapping[StreamShard, int]) -> float:
        return record_bytes

    options = SourceOptions.parse({**OPTIONS, **more})
    return StreamPlanner(source, options, clock or FakeClock(), measure)


def fill(source: RecordedSource, shard: StreamShard, count: int) -> None:
    source.append(shard, *[b"{}"] * count)


def nexts(end: StreamEnd) -> dict[str, int]:
    return dict(end.topics["clicks"].next)


def ranges(planner: StreamPlanner, start: StreamEnd, end: StreamEnd) -> dict[str, tuple[int, int]]:
    return {
        each.key.shard: (each.offsets.start, each.offsets.end)
        for each in planner.list_ranges(start, end)
    }


def test_each_batch_begins_where_the_one_before_ended(kafka: RecordedSource) -> None:
    fill(kafka, CLICKS, 3)
    planner = planner_of(kafka)
    start = planner.plan_initial()
    first = planner.plan_next(start, limited=True)
    assert ranges(planner, start, first) == {"0": (0, 3)}
    assert planner.plan_next(first, limited=True) is first
    fill(kafka, OTHER, 2)
    second = planner.plan_next(first, limited=True)
    assert ranges(planner, first, second) == {"1": (0, 2)}


def test_a_start_that_the_checkpoint_does_not_have_is_in_the_first_end(
    kafka: RecordedSource,
) -> None:
    fill(kafka, CLICKS, 3)
    planner = planner_of(kafka, startingOffsets="latest")
    start = planner.plan_initial()
    first = planner.plan_next(start, limited=True)
    assert first != start  # an empty batch, so that a restart does not skip what comes now
    fill(kafka, CLICKS, 2)
    second = planner.plan_next(first, limited=True)
    # A restart resolves `latest` again, which is later; the planned batch does not change.
    again = planner_of(kafka, startingOffsets="latest")
    assert nexts(again.plan_initial()) == {"0": 5, "1": 0}
    assert ranges(again, again.plan_initial(), first) == {}
    assert ranges(again, first, second) == {"0": (3, 5)}


def test_earliest_needs_no_empty_batch(kafka: RecordedSource) -> None:
    planner = planner_of(kafka)
    start = planner.plan_initial()
    assert planner.plan_next(start, limited=True) is start


@pytest.mark.parametrize(
    ("starting", "expected"),
    [
        ('{"clicks": {"0": 2}}', {"0": 2, "1": 0}),
        ('{"clicks": {"0": -1, "1": -2}}', {"0": 4, "1": 0}),
        ("latest", {"0": 4, "1": 0}),
        ("earliest", {"0": 0, "1": 0}),
    ],
)
def test_where_reading_begins(
    kafka: RecordedSource, starting: str, expected: dict[str, int]
) -> None:
    fill(kafka, CLICKS, 4)
    assert nexts(planner_of(kafka, startingOffsets=starting).plan_initial()) == expected


def test_limits_are_shared_fairly_and_small_backlogs_do_not_wait(kafka: RecordedSource) -> None:
    fill(kafka, CLICKS, 100)
    fill(kafka, OTHER, 3)
    planner = planner_of(kafka, maxOffsetsPerTrigger="10")
    start = planner.plan_initial()
    first = planner.plan_next(start, limited=True)
    assert ranges(planner, start, first) == {"0": (0, 7), "1": (0, 3)}
    assert nexts(planner.plan_next(first, limited=False)) == {"0": 100, "1": 3}


def test_partitions_take_turns_where_a_batch_has_fewer_offsets_than_partitions(
    kafka: RecordedSource,
) -> None:
    fill(kafka, CLICKS, 2)
    fill(kafka, OTHER, 2)
    planner = planner_of(kafka, maxOffsetsPerTrigger="1")
    end, read = planner.plan_initial(), []
    for _ in range(4):
        before, end = end, planner.plan_next(end, limited=True)
        read += list(ranges(planner, before, end))
    assert sorted(read) == ["0", "0", "1", "1"]
    assert read[0] != read[1]


def test_bytes_are_a_limit_by_the_size_of_records(kafka: RecordedSource) -> None:
    fill(kafka, CLICKS, 100)
    planner = planner_of(kafka, record_bytes=500.0, maxBytesPerTrigger="5000")
    assert nexts(planner.plan_next(planner.plan_initial(), limited=True))["0"] == 10


def test_available_now_ends_where_kafka_ended(kafka: RecordedSource) -> None:
    fill(kafka, CLICKS, 3)
    planner = planner_of(kafka)
    planner.fix_target()
    fill(kafka, CLICKS, 3)
    fill(kafka, kafka.add_shard("clicks"), 3)
    end = planner.plan_next(planner.plan_initial(), limited=True)
    assert nexts(end)["0"] == 3
    assert planner.plan_next(end, limited=True) is end


def test_open_transactions_are_an_end(kafka: RecordedSource) -> None:
    fill(kafka, CLICKS, 2)
    kafka.hold_up(CLICKS)
    fill(kafka, CLICKS, 2)
    planner = planner_of(kafka)
    assert nexts(planner.plan_next(planner.plan_initial(), limited=True))["0"] == 2


def test_new_partitions_and_topics_are_read_from_their_beginning(kafka: RecordedSource) -> None:
    planner = planner_of(kafka, subscribe="", subscribePattern="cl.*", startingOffsets="latest")
    first = planner.plan_next(planner.plan_initial(), limited=True)
    added = kafka.add_shard("clicks")
    kafka.create("clones")
    kafka.create("other")
    fill(kafka, added, 2)
    fill(kafka, StreamShard("clones", "0"), 1)
    end = planner.plan_next(first, limited=True)
    assert end.topics.keys() == {"clicks", "clones"}
    again = planner_of(kafka, subscribe="", subscribePattern="cl.*", startingOffsets="latest")
    assert ranges(again, first, end) == {"2": (0, 2), "0": (0, 1)}


def test_lost_offsets_stop_the_query_or_are_skipped(kafka: RecordedSource) -> None:
    fill(kafka, CLICKS, 10)
    first = planner_of(kafka, maxOffsetsPerTrigger="2")
    start = first.plan_initial()
    end = first.plan_next(start, limited=True)
    kafka.expire(CLICKS, 5)
    with pytest.raises(OffsetsGone) as caught:
        planner_of(kafka).plan_next(end, limited=True)
    assert caught.value.fields["end"] == 5
    with pytest.raises(OffsetsGone):  # planned by an earlier run
        planner_of(kafka).list_ranges(start, end)
    skipping = planner_of(kafka, failOnDataLoss="false")
    assert ranges(skipping, start, end) == {}
    assert ranges(skipping, end, skipping.plan_next(end, limited=True)) == {"0": (5, 10)}


def test_a_new_partition_that_has_lost_offsets_stops_the_query(kafka: RecordedSource) -> None:
    planner = planner_of(kafka)
    fill(kafka, CLICKS, 1)
    end = planner.plan_next(planner.plan_initial(), limited=True)
    added = kafka.add_shard("clicks")
    fill(kafka, added, 3)
    kafka.expire(added, 2)
    with pytest.raises(OffsetsGone):
        planner.plan_next(end, limited=True)


def test_a_topic_that_is_created_again_is_another(kafka: RecordedSource) -> None:
    fill(kafka, CLICKS, 3)
    planner = planner_of(kafka)
    start = planner.plan_initial()
    end = planner.plan_next(start, limited=True)
    kafka.delete_and_recreate("clicks", 2)
    fill(kafka, CLICKS, 9)
    with pytest.raises(StreamReplaced):
        planner.plan_next(end, limited=True)
    with pytest.raises(StreamReplaced):
        planner_of(kafka).list_ranges(start, end)


def test_a_topic_that_is_gone_is_refused(kafka: RecordedSource) -> None:
    fill(kafka, CLICKS, 3)
    planner = planner_of(kafka)
    end = planner.plan_next(planner.plan_initial(), limited=True)
    kafka.delete("clicks")
    with pytest.raises(StreamMissing):
        planner.plan_next(end, limited=True)


def test_a_partition_that_ends_below_what_was_read_is_refused(kafka: RecordedSource) -> None:
    fill(kafka, CLICKS, 3)
    planner = planner_of(kafka)
    start = planner.plan_initial()
    end = planner.plan_next(start, limited=True)
    kafka.elect(CLICKS, cut_at=1)
    with pytest.raises(OffsetsWentBack):
        planner.plan_next(end, limited=True)
    with pytest.raises(OffsetsWentBack):
        planner_of(kafka).list_ranges(start, end)


def test_a_partition_with_other_records_at_the_offsets_read_is_refused(
    kafka: RecordedSource,
) -> None:
    fill(kafka, CLICKS, 3)
    planner = planner_of(kafka)
    end = planner.plan_next(planner.plan_initial(), limited=True)
    kafka.elect(CLICKS, cut_at=1)
    fill(kafka, CLICKS, 8)
    with pytest.raises(HistoryTruncated):
        planner.plan_next(end, limited=True)


def test_a_truncated_topic_is_read_on_where_its_leader_was_accepted(kafka: RecordedSource) -> None:
    fill(kafka, CLICKS, 3)
    planner = planner_of(kafka)
    start = planner.plan_initial()
    end = planner.plan_next(start, limited=True)
    kafka.elect(CLICKS, cut_at=1)
    fill(kafka, CLICKS, 8)
    accepting = planner_of(kafka, leaderEpochs='{"clicks": {"0": {"3": 1}}}')
    after = accepting.plan_next(end, limited=True)
    assert ranges(accepting, end, after) == {"0": (3, 9)}
    assert after.topics["clicks"].epochs == {"0": 1}
    kafka.elect(CLICKS, cut_at=2)  # not at the offset that was accepted
    fill(kafka, CLICKS, 9)
    with pytest.raises(HistoryTruncated):
        accepting.plan_next(after, limited=True)


@pytest.mark.parametrize(
    ("interval", "now_ms", "after_ms"),
    [("1s", 7_000, 7_200), ("1s", 7_150, 7_200), ("1s", 7_200, 7_200), ("500ms", 7_500, 7_600)],
)
def test_a_batch_has_what_arrives_just_after_the_tick(
    kafka: RecordedSource, interval: str, now_ms: int, after_ms: int
) -> None:
    clock = FakeClock(now_ms)
    planner = planner_of(kafka, clock=clock, triggerInterval=interval)
    end = planner.plan_next(planner.plan_initial(), limited=True)
    assert clock.now_ms() == now_ms  # of the first batch nothing is known
    planner.plan_next(end, limited=True)
    assert clock.now_ms() == after_ms


def test_an_interval_has_one_batch_however_often_spark_looks(kafka: RecordedSource) -> None:
    clock = FakeClock(7_000)
    planner = planner_of(kafka, clock=clock, triggerInterval="1s")
    end = planner.plan_next(planner.plan_initial(), limited=True)
    planned = []
    for _ in range(12):
        fill(kafka, CLICKS, 1)
        before, end = end, planner.plan_next(end, limited=True)
        if before != end:
            planned.append((clock.now_ms(), nexts(end)["0"]))
        clock.advance(0.25 - clock.now_ms() % 250 / 1000)
    assert planned == [(7_200, 1), (8_200, 5), (9_200, 9)]


def test_a_backlog_is_read_on_at_once(kafka: RecordedSource) -> None:
    fill(kafka, CLICKS, 10)
    clock = FakeClock(7_000)
    planner = planner_of(kafka, clock=clock, triggerInterval="1s", maxOffsetsPerTrigger="3")
    end = planner.plan_initial()
    for _ in range(4):
        end = planner.plan_next(end, limited=True)
        assert clock.now_ms() == 7_000
    assert nexts(end)["0"] == 10
    planner.plan_next(end, limited=True)
    assert clock.now_ms() == 7_200


def test_a_stream_that_ends_with_what_is_there_does_not_wait(kafka: RecordedSource) -> None:
    clock = FakeClock(7_000)
    planner = planner_of(kafka, clock=clock, triggerInterval="1s")
    planner.fix_target()
    for _ in range(3):
        planner.plan_next(planner.plan_initial(), limited=True)
    assert clock.now_ms() == 7_000


@pytest.mark.parametrize("epochs", ['{"clicks": {"0": {"2": 1}}}', '{"clicks": {"1": {"3": 1}}}'])
def test_a_leader_that_was_accepted_elsewhere_counts_for_nothing(
    kafka: RecordedSource, epochs: str
) -> None:
    fill(kafka, CLICKS, 3)
    planner = planner_of(kafka)
    end = planner.plan_next(planner.plan_initial(), limited=True)
    kafka.elect(CLICKS, cut_at=1)
    fill(kafka, CLICKS, 8)
    with pytest.raises(HistoryTruncated):
        planner_of(kafka, leaderEpochs=epochs).plan_next(end, limited=True)


def test_another_leader_with_the_same_records_is_none_of_that(kafka: RecordedSource) -> None:
    fill(kafka, CLICKS, 3)
    planner = planner_of(kafka)
    end = planner.plan_next(planner.plan_initial(), limited=True)
    kafka.elect(CLICKS)
    assert planner.plan_next(end, limited=True) is end
    fill(kafka, CLICKS, 1)
    assert planner.plan_next(end, limited=True).topics["clicks"].epochs == {"0": 1}


def test_ends_are_texts_and_back(kafka: RecordedSource) -> None:
    fill(kafka, CLICKS, 3)
    planner = planner_of(kafka)
    end = planner.plan_next(planner.plan_initial(), limited=True)
    assert parse(json.dumps(end.to_json())) == end
    assert json.loads(json.dumps(end.to_json())) == {
        "ashore": 1,
        "topics": {
            "clicks": {
                "id": "id-1",
                "next": {"0": 3, "1": 0},
                "epochs": {"0": 0},
                "first": {"0": 0, "1": 0},
            }
        },
    }


def test_a_checkpoint_of_sparks_own_source_continues(kafka: RecordedSource) -> None:
    fill(kafka, CLICKS, 5)
    fill(kafka, OTHER, 5)
    before, after = parse('{"clicks":{"0":1}}'), parse('{"clicks":{"1":2,"0":3}}')
    planner = planner_of(kafka, startingOffsets='{"clicks": {"0": 0, "1": 1}}')
    assert ranges(planner, before, after) == {"0": (1, 3), "1": (1, 2)}
    end = planner.plan_next(after, limited=True)
    assert ranges(planner, after, end) == {"0": (3, 5), "1": (2, 5)}
    assert end.topics["clicks"].topic_id == "id-1"
    assert not end.topics["clicks"].first


def test_some_partitions_only(kafka: RecordedSource) -> None:
    fill(kafka, CLICKS, 5)
    fill(kafka, OTHER, 5)
    planner = planner_of(kafka, subscribe="", assign='{"clicks": [1]}')
    start = planner.plan_initial()
    assert ranges(planner, start, planner.plan_next(start, limited=True)) == {"1": (0, 5)}


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        '{"clicks": {"0": "3"}}',
        '{"ashore": 1, "topics": {}, "more": 1}',
        '{"ashore": 2, "topics": {}}',
        '{"ashore": 1, "topics": []}',
        '{"ashore": 1, "topics": {"a": {"id": "x"}}}',
        '{"ashore": 1, "topics": {"a": {"id": 1, "next": {}}}}',
        '{"ashore": 1, "topics": {"a": {"id": "x", "next": {"0": -1}}}}',
        '{"ashore": 1, "topics": {"a": {"id": "x", "next": {"x": 1}}}}',
        '{"ashore": 1, "topics": {"a": {"id": "x", "next": {"0": true}}}}',
        '{"ashore": 1, "topics": {"a": {"id": "x", "next": {}, "first": {"0": 1}}}}',
        '{"ashore": 1, "topics": {"a": {"id": "x", "next": {}, "more": 1}}}',
        "not JSON",
    ],
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse(text)
