"""Records of named partitions as columns, through librdkafka's client for Python.

What it is: the consumer of every reading that the native reader does not make.
What it promises: it joins no group and commits nothing; no batch is too large for Arrow.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from confluent_kafka import Message
from confluent_kafka import TopicPartition as KafkaPartition

from ashore.topics.read.client import Cluster, Complaints, read_headers
from ashore.topics.read.record_columns import FETCHED, FETCHED_WITH_HEADERS, to_headers, to_times

ARROW_BYTES = 1 << 30  # Arrow counts the bytes of a binary column in 31 bits

TopicPartition = tuple[str, int]  # topic, partition
_Headers = list[tuple[bytes, bytes | None]]


class ConsumerEvent(NamedTuple):
    """What a consumer delivers instead of a record: the end of a partition, or an error."""

    partition: TopicPartition
    code: int  # of the Kafka client
    offset: int  # where the partition ends
    text: str


@dataclass(frozen=True, slots=True)
class PollResult:
    """The result of one call."""

    records: list[pa.RecordBatch]  # in the columns of FETCHED, or with headers; none of them empty
    events: list[ConsumerEvent]
    unread: Sequence[tuple[TopicPartition, int]] = ()  # where records have headers it cannot read


class RangeConsumer:
    """A consumer of partitions that are named to it.

    Arguments:
        cluster: where.
        complaints: what the connection complains of is noted here.
        settings: of librdkafka, beside the cluster's.
        with_headers: the topics whose records come with their headers; where it is empty, records
            come in the columns of FETCHED, else of FETCHED_WITH_HEADERS.

    Raises JobFileInvalid if the settings do not hold.

    """

    def __init__(
        self,
        cluster: Cluster,
        complaints: Complaints,
        settings: Mapping[str, str],
        with_headers: Collection[str] = (),
    ) -> None:
        self._client = cluster.open_client(complaints, settings)
        self._with_headers = with_headers

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Begin to fetch these partitions at these offsets."""
        self._client.assign([KafkaPartition(*each, at) for each, at in positions.items()])

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Fetch no more of these for now, and drop what was fetched ahead."""
        self._client.pause([KafkaPartition(*each) for each in partitions])

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Fetch these again."""
        self._client.resume([KafkaPartition(*each) for each in partitions])

    def consume(self, limit: int, wait_s: float) -> PollResult:
        """Return at most `limit` records and events, those of a partition in order.

        Waits until there are that many, at most `wait_s`. A record may come after a pause.
        """
        messages = self._client.consume(limit, wait_s)
        events = []
        if any(map(Message.error, messages)):
            events = [_event(each) for each in messages if each.error() is not None]
            messages = [each for each in messages if each.error() is None]
        if not self._with_headers:
            return PollResult(list(_to_batches(messages, None)), events)
        found = [(each, self._headers_of(each)) for each in messages]
        read = [(each, headers) for each, headers in found if headers is not None]
        unread = [
            ((each.topic(), each.partition()), each.offset())
            for each, headers in found
            if headers is None
        ]
        batches = _to_batches([each for each, _ in read], [headers for _, headers in read])
        return PollResult(list(batches), events, unread)

    def close(self) -> None:
        """Close its connections. Nothing may follow."""
        self._client.close()

    def _headers_of(self, message: Message) -> _Headers | None:
        """Return the headers of a record; None: the client cannot read them."""
        found = read_headers(message) if message.topic() in self._with_headers else []
        return None if found is None else [(key.encode(), value) for key, value in found]


def _event(message: Message) -> ConsumerEvent:
    error = message.error()
    partition = message.topic() or "", message.partition()
    return ConsumerEvent(partition, error.code(), message.offset() or 0, error.str())


def _to_batches(
    messages: Sequence[Message], headers: Sequence[_Headers] | None
) -> Iterator[pa.RecordBatch]:
    """Yield records as batches that Arrow can hold. A single record is less than that."""
    if not messages:
        return
    count = len(messages)
    keys, values = (list(map(part, messages)) for part in (Message.key, Message.value))
    pairs = list(chain.from_iterable(headers or ()))
    parts = chain(keys, values, chain.from_iterable(pairs))
    if count > 1 and len(pairs) + sum(map(len, filter(None, parts))) > ARROW_BYTES:
        for rows in (slice(count // 2), slice(count // 2, None)):
            yield from _to_batches(messages[rows], headers and headers[rows])
        return
    topics = list(map(Message.topic, messages))
    times_ms = (time_ms for _, time_ms in map(Message.timestamp, messages))
    columns = [
        pa.repeat(topics[0], count) if len(set(topics)) == 1 else pa.array(topics, pa.string()),
        pa.array(np.fromiter(map(Message.partition, messages), np.int32, count)),
        pa.array(np.fromiter(map(Message.offset, messages), np.int64, count)),
        to_times(np.fromiter(times_ms, np.int64, count)),
        pa.array(keys, pa.binary()),
        pa.array(values, pa.binary()),
    ]
    if headers is None:
        yield pa.RecordBatch.from_arrays(columns, schema=FETCHED)
        return
    names, contents = ([each[place] for each in pairs] for place in (0, 1))
    counts = np.array([len(each) for each in headers], np.int64)
    column = to_headers(counts, pa.array(names, pa.binary()), pa.array(contents, pa.binary()))
    yield pa.RecordBatch.from_arrays([*columns, column], schema=FETCHED_WITH_HEADERS)
