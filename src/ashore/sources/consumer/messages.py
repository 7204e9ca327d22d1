"""Records through Python's Kafka client, one object each.

What it is: the consumer where no C compiler built the loops of the native one.
What it promises: as `RangeConsumer`.
What it must not know: ranges, tables.
"""

from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa
from confluent_kafka import Consumer, Message
from confluent_kafka import TopicPartition as KafkaPartition

from ashore.sources.consumer.base import Chunk, ConsumerEvent, TopicPartition
from ashore.sources.fetched import FETCHED, to_times


class MessageConsumer:
    """See RangeConsumer."""

    def __init__(self, client: Consumer) -> None:
        self._client = client

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
        return Chunk([_to_columns(messages)] if messages else [], events)

    def close(self) -> None:
        """See RangeConsumer."""
        self._client.close()


def _event(message: Message) -> ConsumerEvent:
    error = message.error()
    partition = message.topic() or "", message.partition()
    return ConsumerEvent(partition, error.code(), message.offset() or 0, error.str())


def _to_columns(messages: list[Message]) -> pa.RecordBatch:
    times_ms = np.array([time for _, time in map(Message.timestamp, messages)], np.int64)
    columns = [
        pa.array(list(map(Message.topic, messages)), pa.string()),
        pa.array(list(map(Message.partition, messages)), pa.int32()),
        pa.array(list(map(Message.offset, messages)), pa.int64()),
        to_times(times_ms),
        pa.array(list(map(Message.key, messages)), pa.binary()),
        pa.array(list(map(Message.value, messages)), pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=FETCHED)
