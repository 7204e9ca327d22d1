"""The native reader where brokers, networks and histories fail; what it gives up is read on.

What is read of a healthy broker, by each reader: `test_kafka_source.py` and its neighbours.
"""

import itertools
import logging
import os
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from uuid import uuid4

import pyarrow as pa
import pytest
from tests.fetched_rows import rows
from tests.kafka_tools import Sender, Transaction, create_topic, delete_topic
from tests.tampering import (
    LARGE,
    TamperingProxy,
    let_pass,
    not_leading,
    put,
    speaks_up_to,
)
from tests.three_brokers import ThreeBrokers

from ashore.errors import OffsetsGone, SourceError
from ashore.jobs.jars import SHORT_LIVED
from ashore.log.positions import OffsetRange, StreamShard
from ashore.topics.read import native as raw
from ashore.topics.read.client import Cluster
from ashore.topics.read.kafka import KafkaSource
from ashore.topics.read.native import GaveUp, RawReading
from ashore.topics.read.reading import LIBRDKAFKA, ReadReport, Use, read_ranges
from ashore_lab.services.kafka import BrokerOptions, Kafka
from ashore_lab.services.ports import LOOPBACK, find_free_ports

TIMEOUT_S = 60.0
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many fetches and many batches, so that much can happen between them."""
    monkeypatch.setattr(raw, "FETCH_BYTES", 100_000)
    monkeypatch.setattr(raw, "BATCH_RECORDS", 100)
    raw._connections.cache_clear()


def read_raw(
    servers: str,
    ranges: dict[StreamShard, OffsetRange],
    timeout_s: float = TIMEOUT_S,
    topic_ids: Mapping[str, str] = MappingProxyType({}),
    options: Mapping[str, str] = MappingProxyType({}),
):
    """Return a reading by the native reader alone."""
    return RawReading(Cluster.of(servers, options, timeout_s), ranges, (), topic_ids)


def send(
    servers: str, topic: str, values: Iterable[bytes], partition: int = 0, codec: str = "none"
) -> None:
    """Produce in batches of 50 records."""
    settings = {"compression.type": codec, "batch.num.messages": 50}
    with Sender(servers, topic, **settings) as sender:
        sender.send(values, partition=partition)


def body(partition: int, number: int) -> bytes:
    return b"%d/%d " % (partition, number) * 60


# --- leaders -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreeBrokers]:
    with ThreeBrokers(tmp_path_factory.mktemp("trio")) as brokers:
        yield brokers


def fill(trio: ThreeBrokers, partitions: int, count: int) -> tuple[str, dict]:
    """Return a new topic with three replicas, and what it holds."""
    topic = f"moving-{uuid4().hex[:8]}"
    trio.create_topic(topic, partitions)
    trio.wait_for_leaders(topic)
    wanted = {}
    for partition in range(partitions):
        values = [body(partition, each) for each in range(count)]
        send(trio.bootstrap_servers, topic, values, partition, CODECS[partition % len(CODECS)])
        wanted[StreamShard(topic, str(partition))] = list(enumerate(values))
    return topic, wanted


def whole(wanted: dict) -> dict[StreamShard, OffsetRange]:
    return {shard: OffsetRange(0, len(values)) for shard, values in wanted.items()}


def read_while(trio: ThreeBrokers, wanted: dict, events: list) -> list[pa.RecordBatch]:
    """Read all, with one event after each so many batches. Fails if the reader gives up."""
    reading = read_raw(trio.bootstrap_servers, whole(wanted))
    batches: list[pa.RecordBatch] = []
    for batch in reading.read():
        batches.append(batch)
        if events and len(batches) % 8 == 0:
            events.pop(0)()
    assert events == [], "the reading was over before everything had happened"
    return batches


def test_leaders_that_move_are_killed_and_come_back(trio: ThreeBrokers) -> None:
    topic, wanted = fill(trio, 6, 1_500)
    victim = trio.leaders(topic)[0]

    def kill() -> None:
        trio.brokers[victim].kill()

    def start() -> None:
        trio.wait_for_leaders(topic, without=victim)
        trio.brokers[victim].start()
        trio.wait_for_replicas(topic)

    def move_back() -> None:
        trio.move_leaders_back(topic)

    assert rows(read_while(trio, wanted, [kill, start, move_back])) == wanted


@pytest.mark.long
def test_each_broker_is_killed_in_turn(trio: ThreeBrokers) -> None:
    topic, wanted = fill(trio, 6, 3_000)
    events = []
    for broker in trio.brokers.values():
        events += [
            broker.kill,
            lambda broker=broker: (broker.start(), trio.wait_for_replicas(topic)),
            lambda: trio.move_leaders_back(topic),
        ]

    assert rows(read_while(trio, wanted, events)) == wanted


# --- what is between ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def proxied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Kafka, TamperingProxy]]:
    """A broker that clients reach through a proxy only."""
    proxy_port, own_port, controller = find_free_ports(3)
    settings = {
        "listeners": f"PLAINTEXT://{LOOPBACK}:{own_port},CONTROLLER://{LOOPBACK}:{controller}",
        "advertised.listeners": f"PLAINTEXT://{LOOPBACK}:{proxy_port}",
        "controller.quorum.voters": f"1@{LOOPBACK}:{controller}",
    }
    directory = tmp_path_factory.mktemp("proxied")
    with TamperingProxy(proxy_port, own_port) as proxy:
        broker = Kafka(directory, BrokerOptions(settings=settings, java=SHORT_LIVED))
        # The port that it waits for is its own; `bootstrap_servers` is the proxy's, below.
        (directory / "kafka.json").write_text(
            f'{{"cluster": "{uuid4().hex[:22]}", "port": {own_port},'
            f' "controller_port": {controller}}}'
        )
        with broker:
            yield broker, proxy


@pytest.fixture
def proxy(proxied: tuple[Kafka, TamperingProxy]) -> Iterator[TamperingProxy]:
    yield proxied[1]
    proxied[1].tamper, proxied[1].pause_s = let_pass, 0.0


@pytest.fixture
def servers(proxy: TamperingProxy) -> str:
    return f"{LOOPBACK}:{proxy.port}"


@pytest.fixture
def wanted(servers: str) -> dict:
    """Return what a new topic of two partitions holds."""
    topic = f"between-{uuid4().hex[:8]}"
    create_topic(servers, topic, 2)
    found = {}
    for partition in (0, 1):
        values = [body(partition, each) for each in range(1_000)]
        send(servers, topic, values, partition)
        found[StreamShard(topic, str(partition))] = list(enumerate(values))
    return found


def nth_large(chosen: set[int], change):
    """Change some of the answers that have records, counted over all connections."""
    count = itertools.count()

    def tamper(number: int, answer: bytes) -> bytes | None:
        if len(answer) < LARGE or next(count) not in chosen:
            return let_pass(number, answer)
        return change(number, answer)

    return tamper


def flip(number: int, answer: bytes) -> bytes:
    """Change one bit of the first batch."""
    at = 400
    return let_pass(number, answer[:at] + bytes((answer[at] ^ 4,)) + answer[at + 1 :])


def cut(number: int, answer: bytes) -> bytes:
    """Announce all, and send half; what comes next is taken for the rest."""
    return let_pass(number, answer)[: len(answer) // 2]


def close(_number: int, _answer: bytes) -> None:
    """Close the connection in place of an answer."""


@pytest.mark.parametrize("change", [flip, cut, close])
def test_an_answer_that_is_damaged_or_cut_is_fetched_again(
    proxy: TamperingProxy, servers: str, wanted: dict, change
) -> None:
    proxy.tamper = nth_large({1, 4}, change)
    reading = read_raw(servers, whole(wanted), timeout_s=16)  # the rest is waited for half of it

    assert rows(reading.read()) == wanted

    damaged = reading.counts["damaged"]
    assert damaged == 2 if change is flip else damaged <= 2
    assert reading.counts["leader_lookups"] >= 3


def test_a_connection_that_hangs_is_given_up_in_time(
    proxy: TamperingProxy, servers: str, wanted: dict
) -> None:
    proxy.tamper = nth_large({2}, lambda _number, _answer: b"")
    started_s = time.monotonic()

    assert rows(read_raw(servers, whole(wanted), timeout_s=8).read()) == wanted

    assert time.monotonic() - started_s < TIMEOUT_S


def test_what_it_cannot_mend_is_read_by_librdkafka_from_the_next_offset(
    proxy: TamperingProxy, servers: str, wanted: dict, caplog: pytest.LogCaptureFixture
) -> None:
    def until_it_gives_up(number: int, answer: bytes) -> bytes:
        return let_pass(number, answer) if caplog.records else flip(number, answer)

    proxy.tamper = nth_large(set(range(3, 10_000)), until_it_gives_up)

    with caplog.at_level(logging.WARNING, "ashore.topics.read"):
        found = rows(read_ranges(Cluster.of(servers, {}, TIMEOUT_S), whole(wanted)))

    assert found == wanted
    (said,) = [each.getMessage() for each in caplog.records]
    assert "CRC" in said
    assert "librdkafka continues" in said


def test_records_that_stay_damaged_are_never_delivered(
    proxy: TamperingProxy, servers: str, wanted: dict
) -> None:
    proxy.tamper = nth_large(set(range(2, 10_000)), flip)
    found = []

    with pytest.raises(SourceError):
        found.extend(read_ranges(Cluster.of(servers, {}, 10), whole(wanted)))

    for shard, records in rows(found).items():
        assert records == wanted[shard][: len(records)]
    assert found, "what came before the damage is delivered"


@pytest.mark.parametrize("highest", [11, 12])
def test_older_brokers_are_spoken_to_in_their_versions(
    proxy: TamperingProxy, servers: str, wanted: dict, highest: int
) -> None:
    asked: list[int] = []
    proxy.tamper = speaks_up_to(highest, asked)

    assert rows(read_raw(servers, whole(wanted)).read()) == wanted
    assert asked


def test_a_broker_that_is_too_old_is_left_to_librdkafka(
    proxy: TamperingProxy, servers: str, wanted: dict
) -> None:
    def tamper(number: int, answer: bytes) -> bytes:
        if number == 0 and len(answer) < 1_000:
            keys = {answer[at : at + 2]: at for at in range(10, len(answer) - 5, 6)}
            answer = put(answer, keys[b"\0\1"] + 4, 10)
        return let_pass(number, answer)

    proxy.tamper = tamper

    with pytest.raises(GaveUp, match="4 to 10 of request 1, 11 to 16 "):
        list(read_raw(servers, whole(wanted)).read())


# --- progress is an offset that advances, and nothing else ----------------------------------------

SHORT_S = 4.0  # the native reader waits for half of it


def repeat(proxy: TamperingProxy) -> None:
    """Answer each fetch with the first batches again."""
    first: list[bytes] = []

    def tamper(number: int, answer: bytes) -> bytes:
        if len(answer) < LARGE:
            return let_pass(number, answer)
        first[:] = first or [answer]
        return let_pass(number, answer[:4] + first[0][4:])  # the number of the request comes first

    proxy.tamper = tamper


def throttle(proxy: TamperingProxy) -> None:
    """Answer fetches with a throttle of 24 days."""

    def tamper(number: int, answer: bytes) -> bytes:
        if len(answer) < LARGE:
            return let_pass(number, answer)
        return let_pass(number, answer[:5] + b"\x7f\xff\xff\xff" + answer[9:])

    proxy.tamper = tamper


def drip(proxy: TamperingProxy) -> None:
    """Send a byte now and then."""
    proxy.pause_s = 0.1


def refuse(proxy: TamperingProxy) -> None:
    """Answer each fetch with an error that may pass: the broker does not lead a partition."""

    def tamper(number: int, answer: bytes) -> bytes:
        return let_pass(number, answer if len(answer) < LARGE else not_leading(answer))

    proxy.tamper = tamper


@pytest.mark.parametrize("fault", [repeat, throttle, drip, refuse])
def test_what_is_no_progress_prolongs_no_reading(
    proxy: TamperingProxy, servers: str, wanted: dict, fault
) -> None:
    fault(proxy)
    started_s, found = time.monotonic(), []

    with pytest.raises(GaveUp) as gave_up:
        found.extend(read_raw(servers, whole(wanted), timeout_s=SHORT_S).read())

    assert time.monotonic() - started_s < 3 * SHORT_S
    for shard, records in rows(found).items():
        assert records == wanted[shard][: len(records)]
    said = {
        repeat: "end before offset",
        throttle: "throttles for",
        drip: "bytes",
        refuse: "NOT_LEADER_OR_FOLLOWER",
    }
    assert said[fault] in str(gave_up.value)


@pytest.mark.parametrize("fault", [repeat, drip, refuse])
def test_nor_one_by_librdkafka(proxy: TamperingProxy, servers: str, wanted: dict, fault) -> None:
    fault(proxy)
    started_s, found = time.monotonic(), []
    small = {"fetch.message.max.bytes": "50000"}  # or one fetch has all
    cluster = Cluster(servers, small, SHORT_S)

    with pytest.raises(SourceError, match="sent nothing new"):
        found.extend(read_ranges(cluster, whole(wanted), LIBRDKAFKA))

    assert time.monotonic() - started_s < 3 * SHORT_S
    for shard, records in rows(found).items():
        assert records == wanted[shard][: len(records)]


# --- topic ids -----------------------------------------------------------------------------------


def id_of(servers: str, topic: str) -> str:
    source = KafkaSource(servers, {})
    found = source.describe_streams([topic])[topic].stream_id
    source.close()
    return found


def create_again(servers: str, topic: str, partitions: int) -> None:
    delete_topic(servers, topic)
    create_topic(servers, topic, partitions)


def test_ranges_that_were_read_by_topic_ids_are_told(kafka: Kafka) -> None:
    servers, topic = kafka.bootstrap_servers, f"by-id-{uuid4().hex[:8]}"
    create_topic(servers, topic)
    send(servers, topic, [body(0, each) for each in range(300)])
    ranges = {StreamShard(topic, "0"): OffsetRange(0, 300)}
    cluster, ids = Cluster.of(servers, {}, TIMEOUT_S), {topic: id_of(servers, topic)}
    told: dict[str, ReadReport] = {
        each: ReadReport() for each in ("by id", "by name", "librdkafka")
    }

    list(read_ranges(cluster, ranges, Use(report=told["by id"]), topic_ids=ids))
    list(read_ranges(cluster, ranges, Use(report=told["by name"])))
    list(read_ranges(cluster, ranges, Use(native=False, report=told["librdkafka"]), topic_ids=ids))

    assert told.pop("by id").by_id == set(ranges.items())
    assert not any(each.by_id for each in told.values())


def test_of_a_topic_with_another_id_nothing_is_read(kafka: Kafka) -> None:
    servers, topic = kafka.bootstrap_servers, f"another-{uuid4().hex[:8]}"
    create_topic(servers, topic)
    send(servers, topic, [body(0, each) for each in range(300)])
    ids, report = {topic: id_of(servers, topic)}, ReadReport()
    create_again(servers, topic, 1)
    send(servers, topic, [body(1, each) for each in range(300)])
    ranges, found = {StreamShard(topic, "0"): OffsetRange(0, 300)}, []
    batches = read_ranges(
        Cluster.of(servers, {}, TIMEOUT_S), ranges, Use(report=report), topic_ids=ids
    )

    with pytest.raises(SourceError, match="deleted and created again"):
        found.extend(batches)
    assert (found, report.by_id) == ([], set())


def test_nor_of_one_that_is_created_again_between_two_fetches(kafka: Kafka) -> None:
    servers, topic = kafka.bootstrap_servers, f"between-{uuid4().hex[:8]}"
    create_topic(servers, topic)
    send(servers, topic, [body(0, each) for each in range(3_000)])
    shard, report = StreamShard(topic, "0"), ReadReport()
    batches = read_ranges(
        Cluster.of(servers, {}, TIMEOUT_S),
        {shard: OffsetRange(0, 3_000)},
        Use(report=report),
        topic_ids={topic: id_of(servers, topic)},
    )
    seen = [next(batches)]
    create_again(servers, topic, 1)
    send(servers, topic, [body(1, each) for each in range(3_000)])

    with pytest.raises(SourceError, match="deleted and created again"):
        seen.extend(batches)
    values = [each for batch in seen for each in batch.column("value").to_pylist()]
    assert values == [body(0, each) for each in range(len(values))]
    assert report.by_id == set()


def test_an_old_broker_is_asked_by_name(proxy: TamperingProxy, servers: str, wanted: dict) -> None:
    (topic,) = {shard.stream for shard in wanted}
    ids = {topic: id_of(servers, topic)}
    proxy.tamper = speaks_up_to(12, [])

    reading = read_raw(servers, whole(wanted), topic_ids=ids)

    assert rows(reading.read()) == wanted
    assert not reading.is_by_id


# --- connections ---------------------------------------------------------------------------------


def test_the_next_reading_uses_the_connections_of_the_last(
    proxy: TamperingProxy, servers: str, wanted: dict
) -> None:
    def read(**options: str) -> int:
        """Read all; return how many connections were made for it."""
        before = proxy.accepted
        assert rows(read_raw(servers, whole(wanted), options=options).read()) == wanted
        return proxy.accepted - before

    assert [read(), read(), read()] == [2, 0, 0]  # one to ask for leaders, one to fetch
    assert read(**{"client.id": "another"}) == 2  # what is made otherwise is not shared
    proxy.close_all()
    assert read() == 2


def test_a_reading_that_ends_early_leaves_no_connection_on_which_an_answer_is_due(
    proxy: TamperingProxy, servers: str, wanted: dict
) -> None:
    batches = read_raw(servers, whole(wanted)).read()
    next(batches)
    batches.close()

    assert rows(read_raw(servers, whole(wanted)).read()) == wanted


def test_a_child_that_was_forked_leaves_connections_to_its_parent(
    proxy: TamperingProxy, servers: str, wanted: dict
) -> None:
    assert rows(read_raw(servers, whole(wanted)).read()) == wanted
    before = proxy.accepted
    child = os.fork()
    if child == 0:
        done = rows(read_raw(servers, whole(wanted)).read()) == wanted
        os._exit(0 if done else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert proxy.accepted == before + 2

    assert rows(read_raw(servers, whole(wanted)).read()) == wanted
    assert proxy.accepted == before + 2


# --- histories, sizes, codecs ------------------------------------------------------------------


def test_another_history_is_noticed_on_the_way(mortal_kafka: Kafka, tmp_path: Path) -> None:
    kafka, topic = mortal_kafka, f"history-{uuid4().hex[:8]}"
    create_topic(kafka.bootstrap_servers, topic)
    place, shard = kafka.directory / "data" / f"{topic}-0", StreamShard(topic, "0")

    def grow(mark: str, count: int) -> None:
        values = (f"{mark} {each} ".encode() * 60 for each in range(count))
        send(kafka.bootstrap_servers, topic, values)

    grow("first", 1_000)
    kafka.stop()
    shutil.copytree(place, tmp_path / "kept")
    kafka.start()  # another leader epoch
    grow("lost", 1_000)
    reading = read_raw(kafka.bootstrap_servers, {shard: OffsetRange(500, 2_000)})
    batches = reading.read()
    seen = [next(batches) for _ in range(8)]
    assert b"lost" in seen[-1].column("value")[-1].as_py()

    kafka.stop()
    shutil.rmtree(place)
    shutil.copytree(tmp_path / "kept", place)
    kafka.start()
    grow("regrown", 2_000)

    with pytest.raises(OffsetsGone, match=r"another history: .* at offset 1000") as gone:
        seen.extend(batches)
    assert 1_000 < gone.value.fields["start"] <= 2_000
    values = [each for batch in seen for each in batch.column("value").to_pylist()]
    assert not any(b"regrown" in each for each in values)


def test_batches_larger_than_a_fetch_come_whole(kafka: Kafka) -> None:
    topic = f"large-{uuid4().hex[:8]}"
    create_topic(kafka.bootstrap_servers, topic, 2, {"max.message.bytes": "5000000"})
    bodies = [bytes([each]) * 1_000_000 for each in range(4)]
    limits = {"message.max.bytes": 5_000_000}
    for partition in (0, 1):
        with Sender(kafka.bootstrap_servers, topic, **limits) as sender:
            sender.send(bodies, partition=partition)
    wanted = {StreamShard(topic, str(each)): list(enumerate(bodies)) for each in (0, 1)}

    assert rows(read_raw(kafka.bootstrap_servers, whole(wanted)).read()) == wanted


def test_codecs_transactions_and_ends_within_batches(kafka: Kafka) -> None:
    servers, topic = kafka.bootstrap_servers, f"mixed-{uuid4().hex[:8]}"
    create_topic(servers, topic)
    wanted: list[tuple[int, bytes]] = []
    end = 0
    for turn, codec in enumerate(CODECS * 2):
        values = [body(turn, each) for each in range(150)]
        send(servers, topic, values, codec=codec)
        wanted += enumerate(values, end)
        end += len(values)
        with Transaction(servers, topic, topic) as transaction:
            inside = [b"%s %d" % (codec.encode(), turn)] * 3
            transaction.send(inside, partition=0)
            if turn % 2:
                transaction.abort()
            else:
                transaction.commit()
                wanted += enumerate(inside, end)
        end += 4  # three records and a marker
    shard = StreamShard(topic, "0")

    for start, stop in [(0, end), (3, end - 3), (149, 151), (150, 154), (153, 154), (end - 1, end)]:
        found = rows(read_raw(servers, {shard: OffsetRange(start, stop)}).read())
        assert found.get(shard, []) == [each for each in wanted if start <= each[0] < stop]


def test_a_topic_that_is_not_there_is_left_to_librdkafka(kafka: Kafka) -> None:
    missing = {StreamShard(f"missing-{uuid4().hex[:8]}", "0"): OffsetRange(0, 5)}

    with pytest.raises(GaveUp, match=r"no record for 1s: .*error 3"):
        list(read_raw(kafka.bootstrap_servers, missing, timeout_s=2).read())
