"""The Kafka source against a real broker: what is stable, what is there, what is told when not."""

import logging
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from tests.kafka_tools import (
    Transaction,
    add_partitions,
    create_topic,
    delete_records,
    delete_topic,
    produce,
)

from ashore.errors import (
    OffsetsGone,
    OffsetsWentBack,
    SourceError,
    SourceUnreachable,
    StreamMissing,
)
from ashore.log.plan_batch import ShardOffsets
from ashore.log.positions import OffsetRange, StreamShard
from ashore.topics.read.client import Cluster
from ashore.topics.read.kafka import KafkaSource
from ashore.topics.read.reading import ANY, LIBRDKAFKA, KafkaAddress, Use, read_ranges
from ashore.topics.read.source import FirstOffset, OpenTransaction, Record, Source
from ashore_lab.services.kafka import Kafka
from ashore_lab.services.ports import LOOPBACK, find_free_ports

TIMEOUT_S = 20.0


@pytest.fixture(scope="module")
def source(kafka: Kafka) -> Iterator[Source]:
    source = KafkaSource(kafka.bootstrap_servers, {}, TIMEOUT_S)
    yield source
    source.close()


@pytest.fixture
def topic(kafka: Kafka) -> str:
    """Create a topic of two partitions with a name of its own."""
    name = f"source-{uuid4().hex[:12]}"
    create_topic(kafka.bootstrap_servers, name, 2)
    return name


def first_shard(topic: str) -> StreamShard:
    return StreamShard(topic, "0")


def end_of(source: Source, shard: StreamShard) -> int:
    return source.read_offsets([shard])[shard].end


def values(records: Iterator[Record]) -> list[bytes | None]:
    return [each.value for each in records]


# --- topics ------------------------------------------------------------------------------------


def test_topics_are_listed_without_internal_ones(kafka: Kafka, source: Source, topic: str) -> None:
    with Transaction(kafka.bootstrap_servers, topic, f"internal-{topic}") as transaction:
        transaction.send([b"x"])
        transaction.commit()  # makes the broker create __transaction_state

    listed = source.list_streams()

    assert topic in listed
    assert listed == sorted(listed)
    assert [each for each in listed if each.startswith("__")] == []


def test_topics_are_described_and_missing_ones_left_out(source: Source, topic: str) -> None:
    described = source.describe_streams([topic, "no-such-topic", "no topic name!", topic])

    assert list(described) == [topic]
    assert described[topic].stream == topic
    assert described[topic].shards == ("0", "1")
    assert source.describe_streams([topic])[topic].stream_id == described[topic].stream_id
    assert source.describe_streams([]) == {}


def test_a_topic_created_again_has_another_id(kafka: Kafka, source: Source, topic: str) -> None:
    before = source.describe_streams([topic])[topic]

    delete_topic(kafka.bootstrap_servers, topic)
    gone = source.describe_streams([topic])
    create_topic(kafka.bootstrap_servers, topic, 2)
    after = source.describe_streams([topic])[topic]

    assert gone == {}
    assert after.shards == before.shards
    assert after.stream_id != before.stream_id


def test_added_partitions_are_seen_and_read(kafka: Kafka, source: Source, topic: str) -> None:
    before = source.describe_streams([topic])[topic]
    add_partitions(kafka.bootstrap_servers, topic, 4)
    after = source.describe_streams([topic])[topic]
    new = StreamShard(topic, "3")

    produce(kafka.bootstrap_servers, topic, [b"x"], partition=3)

    assert after.shards == ("0", "1", "2", "3")
    assert after.stream_id == before.stream_id
    assert source.read_offsets([new]) == {new: ShardOffsets(0, 1, 0)}


# --- offsets -----------------------------------------------------------------------------------


def test_offsets_of_many_shards_come_in_one_answer(
    kafka: Kafka, source: Source, topic: str
) -> None:
    other = f"{topic}-other"
    create_topic(kafka.bootstrap_servers, other)
    produce(kafka.bootstrap_servers, topic, [b"x"] * 3, partition=0)
    produce(kafka.bootstrap_servers, topic, [b"x"] * 5, partition=1)

    found = source.read_offsets(
        [StreamShard(topic, "0"), StreamShard(topic, "1"), StreamShard(other, "0")]
    )

    assert found == {
        StreamShard(topic, "0"): ShardOffsets(0, 3, 0),
        StreamShard(topic, "1"): ShardOffsets(0, 5, 0),
        StreamShard(other, "0"): ShardOffsets(0, 0, 0),
    }
    assert source.read_offsets([]) == {}


def test_removed_records_move_the_earliest_offset(kafka: Kafka, source: Source, topic: str) -> None:
    shard = first_shard(topic)
    produce(kafka.bootstrap_servers, topic, [b"x"] * 10, partition=0)

    delete_records(kafka.bootstrap_servers, topic, 0, 4)

    assert source.read_offsets([shard]) == {shard: ShardOffsets(4, 10, 0)}
    assert source.resolve_first(shard, FirstOffset("earliest")) == 4


def test_the_end_is_the_last_stable_offset(kafka: Kafka, source: Source, topic: str) -> None:
    bootstrap, shard = kafka.bootstrap_servers, first_shard(topic)
    produce(bootstrap, topic, [b"before"] * 2, partition=0)
    with Transaction(bootstrap, topic, f"open-{topic}") as transaction:
        transaction.send([b"inside"] * 3, partition=0)
        produce(bootstrap, topic, [b"after"] * 4, partition=0)

        assert end_of(source, shard) == 2
        assert source.resolve_first(shard, FirstOffset("latest")) == 2
        assert source.find_open_transactions([shard, StreamShard(topic, "1")]) == [
            OpenTransaction(shard, stable_end=2, newest=9, transaction="open since offset 2")
        ]

        transaction.commit()

    assert end_of(source, shard) == 10  # nine records and one marker
    assert source.find_open_transactions([shard]) == []


@pytest.mark.parametrize("policy", ["latest", "timestamp"])
def test_a_first_start_never_lies_beyond_an_open_transaction(
    kafka: Kafka, source: Source, topic: str, policy: str
) -> None:
    bootstrap, shard = kafka.bootstrap_servers, first_shard(topic)
    produce(bootstrap, topic, [b"old"] * 2, partition=0, timestamp_ms=1_000)
    with Transaction(bootstrap, topic, f"first-{topic}") as transaction:
        transaction.send([b"inside"] * 3, partition=0, timestamp_ms=2_000)
        produce(bootstrap, topic, [b"new"] * 4, partition=0, timestamp_ms=3_000)

        assert source.resolve_first(shard, FirstOffset(policy, 2_500)) == 2


def test_newest_times_are_the_highest_of_each_partition_that_has_a_record(
    kafka: Kafka, source: Source, topic: str
) -> None:
    shards = [StreamShard(topic, "0"), StreamShard(topic, "1")]
    assert source.newest_times(shards) == []
    for timestamp_ms in (1_000, 3_000, 2_000):
        produce(kafka.bootstrap_servers, topic, [b"x"], partition=0, timestamp_ms=timestamp_ms)
    assert source.newest_times(shards) == [3_000]
    now_ms = time.time_ns() // 1_000_000
    produce(kafka.bootstrap_servers, topic, [b"x"], partition=1)
    found = sorted(source.newest_times(shards))
    assert found[0] == 3_000
    assert abs(found[1] - now_ms) < 60_000
    assert source.newest_times([]) == []


def test_a_broker_tells_its_own_time_in_a_topic_of_log_append_time(
    kafka: Kafka, source: Source, topic: str
) -> None:
    appended = f"{topic}-appended"
    config = {"message.timestamp.type": "LogAppendTime"}
    create_topic(kafka.bootstrap_servers, appended, 1, config)
    now_ms = time.time_ns() // 1_000_000
    produce(kafka.bootstrap_servers, appended, [b"x"], partition=0, timestamp_ms=1_000)
    (found,) = source.newest_times([StreamShard(appended, "0")])
    assert abs(found - now_ms) < 60_000


def test_a_timestamp_is_the_first_record_at_or_after_it(
    kafka: Kafka, source: Source, topic: str
) -> None:
    bootstrap, shard = kafka.bootstrap_servers, first_shard(topic)
    for timestamp_ms in (1_000, 2_000, 3_000):
        produce(bootstrap, topic, [b"x", b"y"], partition=0, timestamp_ms=timestamp_ms)

    def resolve(timestamp_ms: int) -> int:
        return source.resolve_first(shard, FirstOffset("timestamp", timestamp_ms))

    assert [resolve(each) for each in (0, 1_000, 1_001, 2_000, 3_000)] == [0, 0, 2, 2, 4]
    assert resolve(3_001) == 6  # nothing that young: the end
    assert source.resolve_first(StreamShard(topic, "1"), FirstOffset("timestamp", 1)) == 0


# --- reading again -----------------------------------------------------------------------------


@pytest.mark.usefixtures("consumer")
def test_exactly_the_range_is_read(kafka: Kafka, source: Source, topic: str) -> None:
    produce(
        kafka.bootstrap_servers,
        topic,
        [b"v%d" % each for each in range(100)],
        keys=[b"k%d" % each if each % 2 else None for each in range(100)],
        partition=0,
        timestamp_ms=1_700_000_000_123,
    )

    found = list(source.read_again(first_shard(topic), OffsetRange(7, 11)))

    assert found == [
        Record(7, 1_700_000_000_123, b"k7", b"v7"),
        Record(8, 1_700_000_000_123, None, b"v8"),
        Record(9, 1_700_000_000_123, b"k9", b"v9"),
        Record(10, 1_700_000_000_123, None, b"v10"),
    ]


@pytest.mark.usefixtures("consumer")
def test_an_empty_range_and_a_null_value(kafka: Kafka, source: Source, topic: str) -> None:
    produce(kafka.bootstrap_servers, topic, [None], keys=[b"gone"], partition=0)

    assert list(source.read_again(first_shard(topic), OffsetRange(1, 1))) == []
    assert values(source.read_again(first_shard(topic), OffsetRange(0, 1))) == [None]


@pytest.mark.usefixtures("consumer")
def test_aborted_records_are_never_read(kafka: Kafka, source: Source, topic: str) -> None:
    bootstrap, shard = kafka.bootstrap_servers, first_shard(topic)
    for turn in range(3):
        with Transaction(bootstrap, topic, f"mixed-{topic}") as transaction:
            transaction.send([b"aborted %d" % turn] * 2, partition=0)
            transaction.abort()
        with Transaction(bootstrap, topic, f"mixed-{topic}") as transaction:
            transaction.send([b"committed %d" % turn], partition=0)
            transaction.commit()
    end = end_of(source, shard)

    found = list(source.read_again(shard, OffsetRange(0, end)))

    assert end == 3 * (2 + 1 + 1 + 1)  # records and a marker for each transaction
    assert [each.value for each in found] == [b"committed 0", b"committed 1", b"committed 2"]
    assert [each.offset for each in found] == [3, 8, 13]


@pytest.mark.usefixtures("consumer")
@pytest.mark.parametrize("end_with", ["commit", "abort"])
def test_a_range_that_ends_in_markers_ends(
    kafka: Kafka, source: Source, topic: str, end_with: str
) -> None:
    bootstrap, shard = kafka.bootstrap_servers, first_shard(topic)
    produce(bootstrap, topic, [b"first"], partition=0)
    with Transaction(bootstrap, topic, f"tail-{topic}") as transaction:
        transaction.send([b"second"] * 5, partition=0)
        getattr(transaction, end_with)()
    end = end_of(source, shard)
    started_s = time.monotonic()

    whole = values(source.read_again(shard, OffsetRange(0, end)))
    marker = values(source.read_again(shard, OffsetRange(end - 1, end)))

    assert end == 7
    assert whole == [b"first"] + [b"second"] * (5 if end_with == "commit" else 0)
    assert marker == []
    assert time.monotonic() - started_s < TIMEOUT_S / 2


@pytest.mark.usefixtures("consumer")
def test_a_range_of_markers_below_an_open_transaction_ends(
    kafka: Kafka, source: Source, topic: str
) -> None:
    bootstrap, shard = kafka.bootstrap_servers, first_shard(topic)
    with Transaction(bootstrap, topic, f"below-{topic}") as transaction:
        transaction.send([b"x"], partition=0)
        transaction.abort()
    with Transaction(bootstrap, topic, f"below-{topic}") as transaction:
        transaction.send([b"y"] * 3, partition=0)

        assert end_of(source, shard) == 2
        assert values(source.read_again(shard, OffsetRange(0, 2))) == []


def test_expired_offsets_are_named(kafka: Kafka, source: Source, topic: str) -> None:
    shard = first_shard(topic)
    produce(kafka.bootstrap_servers, topic, [b"x"] * 10, partition=0)
    delete_records(kafka.bootstrap_servers, topic, 0, 4)

    with pytest.raises(OffsetsGone, match=rf"no longer has {topic}/0 \[2, 4\)") as partly:
        source.read_again(shard, OffsetRange(2, 6))
    with pytest.raises(OffsetsGone) as wholly:
        source.read_again(shard, OffsetRange(1, 3))

    assert (partly.value.fields["start"], partly.value.fields["end"]) == (2, 4)
    assert (wholly.value.fields["start"], wholly.value.fields["end"]) == (1, 3)
    assert len(list(source.read_again(shard, OffsetRange(4, 6)))) == 2


@pytest.mark.usefixtures("consumer")
def test_retention_that_overtakes_a_reading_is_named(
    kafka: Kafka, source: Source, topic: str
) -> None:
    shard, large = first_shard(topic), b"x" * 10_000
    produce(kafka.bootstrap_servers, topic, [large] * 20_000, partition=0)
    reading = source.read_again(shard, OffsetRange(0, 20_000))
    next(reading)

    delete_records(kafka.bootstrap_servers, topic, 0, 20_000)

    with pytest.raises(OffsetsGone) as gone:
        list(reading)
    assert 0 < gone.value.fields["start"] < gone.value.fields["end"] == 20_000


def test_a_range_beyond_the_end_is_refused(kafka: Kafka, source: Source, topic: str) -> None:
    produce(kafka.bootstrap_servers, topic, [b"x"] * 3, partition=0)

    with pytest.raises(OffsetsWentBack, match="stable only up to 3"):
        source.read_again(first_shard(topic), OffsetRange(0, 4))


@pytest.mark.usefixtures("consumer")
def test_columns_hold_every_record_of_their_ranges_partition_by_partition(
    kafka: Kafka, source: Source, topic: str
) -> None:
    """More than a wave, ranges that begin and end inside of partitions, keys and tombstones."""
    bodies = [b"%d" % number for number in range(50_000)]
    for partition in (0, 1):
        produce(kafka.bootstrap_servers, topic, bodies, partition=partition)
    produce(kafka.bootstrap_servers, topic, [None], partition=1)
    ranges = {
        StreamShard(topic, "1"): OffsetRange(10, 50_001),
        StreamShard(topic, "0"): OffsetRange(1_000, 40_000),
    }

    batches = list(KafkaAddress(kafka.bootstrap_servers, {}, TIMEOUT_S).read(ranges))

    rows = [row for batch in batches for row in batch.to_pylist()]
    for shard, offsets in ranges.items():
        found = [row for row in rows if row["partition"] == int(shard.shard)]
        assert [row["offset"] for row in found] == list(range(offsets.start, offsets.end))
        assert [row["value"] for row in found] == [*bodies, None][offsets.start : offsets.end]
        assert {row["topic"] for row in found} == {topic}
    for batch in batches:
        partitions = batch.column("partition").to_pylist()
        assert partitions == sorted(partitions)


def test_all_readers_deliver_the_same(kafka: Kafka, source: Source, topic: str) -> None:
    bodies = [None, b"", b"short", b"x" * 70_000, bytes(range(256))]
    client = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for number in range(2_000):
        key, value = bodies[number % 4], bodies[number % 5]
        client.produce(
            topic, value, key, partition=number % 2, timestamp=1_700_000_000_000 + number
        )
    for beyond_ms in (-(10**14), -(10**17), -1, -62_135_596_800_000):  # brokers take them
        client.produce(topic, b"x", partition=0, timestamp=beyond_ms)
    client.flush()
    other = f"{topic}-other"
    create_topic(kafka.bootstrap_servers, other)
    produce(kafka.bootstrap_servers, other, [b"one"])
    ranges = {
        StreamShard(topic, "0"): OffsetRange(0, 1_004),
        StreamShard(topic, "1"): OffsetRange(7, 993),
        StreamShard(other, "0"): OffsetRange(0, 1),
    }

    def read(use: Use) -> pa.Table:
        cluster = Cluster.of(kafka.bootstrap_servers, {}, TIMEOUT_S)
        found = pa.Table.from_batches(read_ranges(cluster, ranges, use))
        found.validate(full=True)
        return found.sort_by([(name, "ascending") for name in ("topic", "partition", "offset")])

    found = read(ANY)
    assert found.equals(read(LIBRDKAFKA))
    assert found.num_rows == 1_991
    first = found.filter(pc.and_(pc.equal(found["topic"], topic), pc.equal(found["partition"], 0)))
    times_us = first.column("timestamp").cast(pa.int64())[1_000:].to_pylist()
    assert times_us[:2] == [None, None]
    assert times_us[3] == -62_135_596_800_000_000
    assert found.column("timestamp")[1].as_py() == datetime.fromtimestamp(1_700_000_000.002, UTC)


@pytest.mark.usefixtures("consumer")
def test_a_reading_that_is_given_up_leaves_the_source_usable(
    kafka: Kafka, source: Source, topic: str
) -> None:
    produce(kafka.bootstrap_servers, topic, [b"x"] * 1_000, partition=0)

    reading = source.read_again(first_shard(topic), OffsetRange(0, 1_000))
    next(reading)
    reading.close()

    assert len(list(source.read_again(first_shard(topic), OffsetRange(0, 1_000)))) == 1_000


def test_threads_share_a_source(kafka: Kafka, source: Source, topic: str) -> None:
    for partition in (0, 1):
        produce(kafka.bootstrap_servers, topic, [b"%d" % partition] * 5_000, partition=partition)

    def read(partition: int) -> tuple[int, set[bytes | None], int]:
        shard = StreamShard(topic, str(partition))
        found = values(source.read_again(shard, OffsetRange(0, 5_000)))
        return len(found), set(found), end_of(source, shard)

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(read, [0, 1] * 8))

    assert answers == [(5_000, {b"0"}, 5_000), (5_000, {b"1"}, 5_000)] * 8


# --- a group that shows where the job is -------------------------------------------------------


def committed(kafka: Kafka, group: str, topic: str) -> list[int]:
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": group})
    try:
        return [
            each.offset
            for each in consumer.committed([TopicPartition(topic, each) for each in (0, 1)], 20)
        ]
    finally:
        consumer.close()


def test_next_offsets_are_shown_in_a_group(kafka: Kafka, source: Source, topic: str) -> None:
    shards = [StreamShard(topic, "0"), StreamShard(topic, "1")]

    source.show_offsets(topic, {shards[0]: 7, shards[1]: 9})
    source.show_offsets(topic, {shards[1]: 10})
    source.show_offsets(topic, {})

    assert committed(kafka, topic, topic) == [7, 10]


def test_a_group_with_members_is_not_touched(kafka: Kafka, source: Source, topic: str) -> None:
    member = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": topic})
    member.subscribe([topic])
    deadline_s = time.monotonic() + TIMEOUT_S
    while not member.assignment():
        member.poll(0.1)
        assert time.monotonic() < deadline_s
    try:
        with pytest.raises(SourceError, match=rf"{topic}/0 cannot be committed") as reported:
            source.show_offsets(topic, {first_shard(topic): 7})
    finally:
        member.close()

    assert "commit_group" in reported.value.hint
    assert committed(kafka, topic, topic)[0] != 7


# --- what is not there -------------------------------------------------------------------------


def test_a_missing_topic_is_reported_with_the_nearest_name(source: Source, topic: str) -> None:
    mistyped = StreamShard(topic[:-1] + "_", "0")

    for ask in (
        lambda: source.read_offsets([first_shard(topic), mistyped]),
        lambda: source.resolve_first(mistyped, FirstOffset("latest")),
        lambda: source.find_open_transactions([mistyped]),
        lambda: source.read_again(mistyped, OffsetRange(0, 1)),
    ):
        started_s = time.monotonic()
        with pytest.raises(
            StreamMissing, match=f"topic {mistyped.stream} does not exist"
        ) as missing:
            ask()
        assert f"did you mean `{topic}`?" in missing.value.hint
        assert time.monotonic() - started_s < TIMEOUT_S / 2


def test_a_missing_partition_is_reported(source: Source, topic: str) -> None:
    with pytest.raises(StreamMissing, match=f"{topic} has no partition 7, "):
        source.read_offsets([StreamShard(topic, "7")])


def test_an_unreachable_broker_is_reported_in_time() -> None:
    (port,) = find_free_ports(1)
    timeout_s = 3.0  # a busy machine takes a moment to tell that a port is closed
    source = KafkaSource(f"{LOOPBACK}:{port}", {}, timeout_s=timeout_s)
    shard = StreamShard("clicks", "0")
    for ask in (
        source.list_streams,
        lambda: source.describe_streams(["clicks"]),
        lambda: source.read_offsets([shard]),
        lambda: source.read_again(shard, OffsetRange(0, 1)),
    ):
        started_s = time.monotonic()
        with pytest.raises(SourceUnreachable, match=f"{LOOPBACK}:{port}.*refused") as reported:
            ask()
        assert time.monotonic() - started_s < timeout_s + 2.5
        assert "bootstrap_servers" in reported.value.hint


def test_nothing_is_written_to_the_terminal() -> None:
    """In a process of its own: librdkafka writes past Python's streams."""
    program = """
from ashore.topics.read.kafka import KafkaSource
from ashore.errors import SourceUnreachable
source = KafkaSource("127.0.0.1:1", {}, 1.0)
try:
    source.list_streams()
except SourceUnreachable:
    source.close()
    print("told")
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert (done.stdout, done.stderr) == ("told\n", "")


def test_what_the_library_says_is_in_the_debug_log(caplog: pytest.LogCaptureFixture) -> None:
    (port,) = find_free_ports(1)
    with caplog.at_level(logging.DEBUG, "ashore.topics.read"), pytest.raises(SourceUnreachable):
        KafkaSource(f"{LOOPBACK}:{port}", {}, 0.5).list_streams()
    assert any("Connection refused" in each.getMessage() for each in caplog.records)
    assert {each.levelno for each in caplog.records} == {logging.DEBUG}
