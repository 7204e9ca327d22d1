"""The reader on Python's Kafka client: what can be seen without a broker."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, Message

from ashore.errors import BadRecord, JobFileInvalid, SourceError
from ashore.log.positions import OffsetRange, StreamShard
from ashore.topics.read import client, consumer, reading
from ashore.topics.read.client import PARTITION_END, Cluster, Complaints
from ashore.topics.read.consumer import ConsumerEvent, RangeConsumer
from ashore.topics.read.native import Choice, GaveUp
from ashore.topics.read.reading import LIBRDKAFKA, read_ranges
from ashore.topics.read.record_columns import FETCHED, FETCHED_WITH_HEADERS, to_times

CLUSTER = Cluster("127.0.0.1:1", {}, 1.0)
SHARD = StreamShard("clicks", "0")
RANGES = {SHARD: OffsetRange(2, 5)}


class Client:
    """Delivers messages, in their order."""

    def __init__(self, messages: list[Message]) -> None:
        self.messages = messages

    def consume(self, limit: int, _wait_s: float) -> list[Message]:
        taken, self.messages = self.messages[:limit], self.messages[limit:]
        return taken

    def assign(self, _partitions: object) -> None:
        """See Consumer."""

    pause = assign

    def close(self) -> None:
        """See Consumer."""


@pytest.fixture
def unread_headers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records 1 and 4 have headers that the client cannot read, 2 has others; there is no 3."""
    monkeypatch.setattr(
        consumer, "read_headers", lambda sent: None if sent.offset() in (1, 4) else [("a", b"1")]
    )
    consumer_of([message(offset) for offset in (1, 2, 4)], monkeypatch)


def message(offset: int, value: bytes | None = b"v", **parts: object) -> Message:
    place = {"topic": "clicks", "partition": 0, "offset": offset, "timestamp": (1, 5)}
    return Message(**{**place, "value": value, **parts})


def consumer_of(
    messages: list[Message], monkeypatch: pytest.MonkeyPatch, with_headers: set[str] = frozenset()
) -> RangeConsumer:
    monkeypatch.setattr(Cluster, "open_client", lambda *_arguments: Client(messages))
    return RangeConsumer(CLUSTER, Complaints(), client.RANGES, with_headers)


def offsets_of(batches: list[pa.RecordBatch]) -> list[list[int]]:
    return [each["offset"].to_pylist() for each in batches]


def test_settings_that_do_not_hold_are_refused() -> None:
    with pytest.raises(JobFileInvalid, match=r"fetch\.wait\.max\.ms"):
        RangeConsumer(CLUSTER, Complaints(), {**client.RANGES, "fetch.wait.max.ms": "soon"})


def test_kafkas_times_are_those_of_a_calendar_or_null() -> None:
    """What is far out must not wrap round to a time that is plausible."""
    known = [0, -1, -62_135_596_800_000, 253_402_300_799_999, 1_795_219_200_123]
    beyond = [-62_135_596_800_001, 253_402_300_800_000, -(10**14), -(10**17), 10**17]
    beyond += [-(2**63), 2**63 - 1]
    found = to_times(np.array([*known, *beyond], np.int64))
    assert found.type == FETCHED.field("timestamp").type
    assert found.view(pa.int64()).to_pylist() == [1000 * each for each in known] + [None] * 7
    assert to_times(np.array(known, np.int64)).null_count == 0


def test_records_and_events_come_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = message(3, error=KafkaError(PARTITION_END, "the end"))
    sent = [message(1, None, key=b""), ended, message(2, b"", topic="views", partition=7)]

    found = consumer_of(sent, monkeypatch).consume(9, 0)

    (batch,) = found.records
    assert batch.schema.equals(FETCHED)
    columns = ("topic", "partition", "offset", "key", "value")
    rows = list(zip(*(batch[name].to_pylist() for name in columns), strict=True))
    assert rows == [("clicks", 0, 1, b"", None), ("views", 7, 2, None, b"")]
    assert found.events == [ConsumerEvent(("clicks", 0), PARTITION_END, 3, "the end")]
    assert consumer_of([ended], monkeypatch).consume(9, 0).records == []
    assert consumer_of([], monkeypatch).consume(9, 0) == consumer.PollResult([], [])


def test_only_topics_that_are_asked_for_have_headers(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [("a", b"1"), ("é", None)]
    sent = [message(1, headers=pairs), message(2), message(3, topic="views", headers=pairs)]

    (batch,) = consumer_of(sent, monkeypatch, {"clicks"}).consume(9, 0).records

    assert batch.schema.equals(FETCHED_WITH_HEADERS)
    read = [{"key": key, "value": value} for key, value in pairs]
    assert batch["headers"].to_pylist() == [read, None, None]


@pytest.mark.parametrize("where", ["value", "key", "headers"])
def test_no_batch_has_more_bytes_than_a_column_can_have(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer, "ARROW_BYTES", 40)
    parts = [bytes(size) for size in (5, 5, 4, 60, 1, 9, 9, 9)]
    sent = [
        message(at, **{"value": None, where: [("", part)] if where == "headers" else part})
        for at, part in enumerate(parts)
    ]

    found = consumer_of(sent, monkeypatch, {"clicks"}).consume(9, 0).records

    assert offsets_of(found) == [[0, 1], [2], [3], [4, 5, 6, 7]]
    columns = [
        each["headers"].flatten().field("value") if where == "headers" else each[where]
        for each in found
    ]
    assert [part for each in columns for part in each.to_pylist()] == parts


@pytest.mark.usefixtures("unread_headers")
def test_headers_that_it_cannot_read_stop_the_reading() -> None:
    with pytest.raises(BadRecord, match=r"clicks/0, offset 4: .* not UTF-8"):
        list(read_ranges(CLUSTER, RANGES, LIBRDKAFKA, with_headers={"clicks"}))


@pytest.mark.usefixtures("unread_headers")
def test_headers_of_records_outside_the_ranges_stop_nothing() -> None:
    ranges = {SHARD: OffsetRange(2, 4)}

    (batch,) = read_ranges(CLUSTER, ranges, LIBRDKAFKA, with_headers={"clicks"})

    assert offsets_of([batch]) == [[2]]
    assert batch["headers"].to_pylist() == [[{"key": "a", "value": b"1"}]]


@pytest.mark.usefixtures("unread_headers")
def test_where_the_native_reader_gave_up_on_them_another_attempt_may_read_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class GivesUp:
        def __init__(self, *_arguments: object) -> None:
            """See RawReading."""

        def read(self) -> Iterator[pa.RecordBatch]:
            raise GaveUp("no record for 15 s")

        def rest(self) -> dict[StreamShard, OffsetRange]:
            return RANGES

    monkeypatch.setattr(reading, "choose_reader", lambda _cluster: Choice(True, ""))
    monkeypatch.setattr(reading, "RawReading", GivesUp)

    with pytest.raises(SourceError, match=r"not UTF-8.*no record for 15 s") as found:
        list(read_ranges(CLUSTER, RANGES, with_headers={"clicks"}))
    assert not isinstance(found.value, BadRecord)
