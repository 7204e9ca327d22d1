"""Records through Python's Kafka client, one object each.

What it is: the consumer where no C compiler built the loops of the native one.
What it promises: as `RangeConsumer`.
What it must not know: ranges, tables.
"""

from collections.abc import Collection, Iterable, Mapping
from itertools import chain

import numpy as np
import pyarrow as pa
from confluent_kafka import Consumer, Message
from confluent_kafka import TopicPartition as KafkaPartition

from ashore.errors import BadRecord
from ashore.sources.consumer.base import Chunk, ConsumerEvent, TopicPartition
from ashore.sources.fetched import FETCHED, FETCHED_WITH_HEADERS, to_headers, to_times
from ashore.sources.headers import Header, read_headers


class MessageConsumer:
    """See RangeConsumer."""

    def __init__(self, client: Consumer, with_headers: Collection[str] = ()) -> None:
        self._client = client
        self._with_headers = with_headers

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """See RangeConsumer."""
        self._client.assign([KafkaPartition(*each, at) for each, at in positions.items()])

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """See RangeConsumer."""
        self._client.pause([KafkaPartition(*each) for each in partitions])

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """See RangeConsumer."""
        self._client.resume([KafkaPartition(*each) for each in partitions])

    def consume(self, limit: int, wait_s: float) -> Chunk:
        """See RangeConsumer."""
        messages = self._client.consume(limit, wait_s)
        events = []
        if any(map(Message.error, messages)):
            events = [_event(each) for each in messages if each.error() is not None]
            messages = [each for each in messages if each.error() is None]
        return Chunk([self._to_columns(messages)] if messages else [], events)

    def close(self) -> None:
        """See RangeConsumer."""
        self._client.close()

    def _to_columns(self, messages: list[Message]) -> pa.RecordBatch:
        columns = _to_columns(messages)
        if not self._with_headers:
            return pa.RecordBatch.from_arrays(columns, schema=FETCHED)
        asked = [each.topic() in self._with_headers for each in messages]
        headers = [
            _headers_of(each) if is_asked else []
            for each, is_asked in zip(messages, asked, strict=True)
        ]
        pairs = list(chain.from_iterable(headers))
        column = to_headers(
            np.array([len(each) for each in headers], np.int64),
            pa.array([key.encode() for key, _ in pairs], pa.binary()),
            pa.array([value for _, value in pairs], pa.binary()),
        )
        return pa.RecordBatch.from_arrays([*columns, column], schema=FETCHED_WITH_HEADERS)


def _headers_of(message: Message) -> list[Header]:
    headers = read_headers(message)
    if headers is None:
        offset = message.offset()
        raise BadRecord(
            f"{message.topic()}/{message.partition()}, offset {offset}: a header's key is not "
            "UTF-8, and Python's Kafka client cannot read it",
            hint="install Ashore where there is a C compiler, or write `provenance: true`",
            topic=message.topic(),
            partition=message.partition(),
            offset=offset,
        )
    return headers


def _event(message: Message) -> ConsumerEvent:
    error = message.error()
    partition = message.topic() or "", message.partition()
    return ConsumerEvent(partition, error.code(), message.offset() or 0, error.str())


def _to_columns(messages: list[Message]) -> list[pa.Array]:
    times_ms = np.array([time for _, time in map(Message.timestamp, messages)], np.int64)
    return [
        pa.array(list(map(Message.topic, messages)), pa.string()),
        pa.array(list(map(Message.partition, messages)), pa.int32()),
        pa.array(list(map(Message.offset, messages)), pa.int64()),
        to_times(times_ms),
        pa.array(list(map(Message.key, messages)), pa.binary()),
        pa.array(list(map(Message.value, messages)), pa.binary()),
    ]
