"""Records from librdkafka's memory into columns, without a Python object for each.

What it is: a consumer on the C API of the library that Python's client has loaded.
What it promises: as `RangeConsumer`; of the client's time for a small record about half is left.
What it must not know: ranges, tables.
"""

import ctypes
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException

from ashore.errors import SourceError
from ashore.sources.consumer.base import Chunk, ConsumerEvent, TopicPartition
from ashore.sources.consumer.library import (
    CONF_OK,
    CONSUMER,
    ErrorCallback,
    Library,
    LogCallback,
)
from ashore.sources.failures import Complaints
from ashore.sources.fetched import FETCHED, FETCHED_WITH_HEADERS, to_headers, to_times

# As `struct row` in gather.c. `error` is 0 for a record; addresses are 0 for what is null.
_FIELDS = "error topic partition offset time_ms key key_size value value_size"
ROW = np.dtype([(name, np.int64) for name in _FIELDS.split()])
# As `struct header`. A header without a value has no address there.
HEADER = np.dtype([(name, np.int64) for name in ("key", "key_size", "value", "value_size")])
REASON_BYTES = 512
BATCH_BYTES = 1 << 30  # Arrow counts the bytes of a binary column in 31 bits


class NativeConsumer:
    """See RangeConsumer.

    Arguments:
        library: librdkafka and our loops.
        settings: of librdkafka.
        complaints: what the connection complains of is noted here.
        with_headers: the topics whose records come with their headers.

    Raises KafkaException if the settings do not hold.

    """

    def __init__(
        self,
        library: Library,
        settings: Mapping[str, str],
        complaints: Complaints,
        with_headers: Collection[str] = (),
    ) -> None:
        self._with_headers = with_headers
        self._library = library
        self._kafka = library.kafka
        self._topics: dict[int, str] = {}
        # Kept, as the library calls it as long as the client lives.
        self._on_error = ErrorCallback(
            lambda _client, code, text, _opaque: complaints.note(KafkaError(code, _text(text)))
        )
        self._client = self._open(settings)
        self._kafka.rd_kafka_poll_set_consumer(self._client)
        self._queue = self._kafka.rd_kafka_queue_get_consumer(self._client)

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """See RangeConsumer."""
        with self._partitions(positions) as listed:
            for (topic, partition), offset in positions.items():
                self._kafka.rd_kafka_topic_partition_list_set_offset(
                    listed, topic.encode(), partition, offset
                )
            _check(self._kafka.rd_kafka_assign(self._client, listed))

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """See RangeConsumer."""
        with self._partitions(partitions) as listed:
            _check(self._kafka.rd_kafka_pause_partitions(self._client, listed))

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """See RangeConsumer."""
        with self._partitions(partitions) as listed:
            _check(self._kafka.rd_kafka_resume_partitions(self._client, listed))

    def consume(self, limit: int, wait_s: float) -> Chunk:
        """See RangeConsumer."""
        messages = np.empty(limit, np.int64)
        count = self._kafka.rd_kafka_consume_batch_queue(
            self._queue, int(1000 * wait_s), messages.ctypes.data, limit
        )
        if count <= 0:
            return Chunk([], [])
        library, loops = self._library, self._library.loops
        try:
            rows = np.empty(count, ROW)
            loops.ashore_look(messages.ctypes.data, count, library.time_of, rows.ctypes.data)
            is_event = rows["error"] != 0
            events = [self._event(row) for row in rows[is_event]]
            # All of `messages` are let go below, events too: the records get a name of their own.
            records = messages[:count]
            if events:
                rows, records = rows[~is_event], records[~is_event]
            return Chunk(list(self._batches(rows, records)), events)
        finally:
            loops.ashore_let_go(messages.ctypes.data, count, library.destroy)

    def close(self) -> None:
        """See RangeConsumer."""
        self._kafka.rd_kafka_queue_destroy(self._queue)
        self._kafka.rd_kafka_consumer_close(self._client)
        self._kafka.rd_kafka_destroy(self._client)

    def _open(self, settings: Mapping[str, str]) -> int:
        kafka, reason = self._kafka, ctypes.create_string_buffer(REASON_BYTES)
        conf = kafka.rd_kafka_conf_new()
        for name, value in settings.items():
            texts = name.encode(), value.encode()
            if kafka.rd_kafka_conf_set(conf, *texts, reason, REASON_BYTES) != CONF_OK:
                kafka.rd_kafka_conf_destroy(conf)
                raise KafkaException(KafkaError(KafkaError._INVALID_ARG, _text(reason.value)))  # noqa: SLF001 -- the library's name for its own error
        kafka.rd_kafka_conf_set_error_cb(conf, self._on_error)
        kafka.rd_kafka_conf_set_log_cb(conf, LogCallback())  # none: nothing for the terminal
        client = kafka.rd_kafka_new(CONSUMER, conf, reason, REASON_BYTES)
        if not client:
            kafka.rd_kafka_conf_destroy(conf)
            raise KafkaException(KafkaError(KafkaError._INVALID_ARG, _text(reason.value)))  # noqa: SLF001 -- as above
        return int(client)

    @contextmanager
    def _partitions(self, partitions: Iterable[TopicPartition]) -> Iterator[int]:
        listed = self._kafka.rd_kafka_topic_partition_list_new(1)
        try:
            for topic, partition in partitions:
                self._kafka.rd_kafka_topic_partition_list_add(listed, topic.encode(), partition)
            yield listed
        finally:
            self._kafka.rd_kafka_topic_partition_list_destroy(listed)

    def _event(self, row: np.void) -> ConsumerEvent:
        partition = self._topic(int(row["topic"])), int(row["partition"])
        text = ctypes.string_at(int(row["value"]), int(row["value_size"])) if row["value"] else b""
        return ConsumerEvent(partition, int(row["error"]), int(row["offset"]), _text(text))

    def _topic(self, address: int) -> str:
        if address not in self._topics:
            name = self._kafka.rd_kafka_topic_name(address) if address else b""
            self._topics[address] = _text(name)
        return self._topics[address]

    def _batches(self, rows: np.ndarray, messages: np.ndarray) -> Iterator[pa.RecordBatch]:
        """Yield the records of messages, of which `rows` tells."""
        sizes = rows["key_size"] + rows["value_size"]
        if not self._with_headers:
            for piece in _pieces(sizes):
                yield pa.RecordBatch.from_arrays(self._columns(rows[piece]), schema=FETCHED)
            return
        asked = self._asked(rows, messages)
        counts, header_sizes = self._count_headers(rows, asked)
        for piece in _pieces(sizes + counts + header_sizes):
            headers = self._headers_column(asked[piece], counts[piece])
            columns = [*self._columns(rows[piece]), headers]
            yield pa.RecordBatch.from_arrays(columns, schema=FETCHED_WITH_HEADERS)

    def _columns(self, rows: np.ndarray) -> list[pa.Array]:
        return [
            self._topic_column(rows["topic"]),
            pa.array(rows["partition"].astype(np.int32)),
            pa.array(np.ascontiguousarray(rows["offset"])),
            to_times(rows["time_ms"]),
            self._bytes_column(rows["key"], rows["key_size"]),
            self._bytes_column(rows["value"], rows["value_size"]),
        ]

    def _asked(self, rows: np.ndarray, messages: np.ndarray) -> np.ndarray:
        """Return the messages whose headers are wanted, 0 in place of the others."""
        topics = np.unique(rows["topic"])
        wanted = [each for each in topics if self._topic(int(each)) in self._with_headers]
        if len(wanted) == len(topics):
            return np.ascontiguousarray(messages)
        return np.where(np.isin(rows["topic"], wanted), messages, 0)

    def _count_headers(
        self, rows: np.ndarray, messages: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return how many headers each message has, and their bytes."""
        library, size = self._library, len(messages)
        counts, sizes = np.empty(size, np.int64), np.empty(size, np.int64)
        into = counts.ctypes.data, sizes.ctypes.data
        odd = library.loops.ashore_count_headers(
            messages.ctypes.data, size, *library.headers, *into
        )
        if odd >= 0:
            row = rows[odd]
            place = f"{self._topic(int(row['topic']))}/{row['partition']} offset {row['offset']}"
            raise SourceError(
                f"the headers of {place} cannot be read",
                hint="land the topic without them: `provenance: true`",
            )
        return counts, sizes

    def _headers_column(self, messages: np.ndarray, counts: np.ndarray) -> pa.ListArray:
        library, rows = self._library, np.empty(int(counts.sum()), HEADER)
        messages, counts = np.ascontiguousarray(messages), np.ascontiguousarray(counts)
        library.loops.ashore_look_headers(
            *(messages.ctypes.data, len(counts), *library.headers),
            *(counts.ctypes.data, rows.ctypes.data),
        )
        keys = self._bytes_column(rows["key"], rows["key_size"])
        return to_headers(counts, keys, self._bytes_column(rows["value"], rows["value_size"]))

    def _topic_column(self, addresses: np.ndarray) -> pa.Array:
        if (addresses == addresses[0]).all():
            return pa.repeat(self._topic(int(addresses[0])), len(addresses))
        return pa.array([self._topic(each) for each in addresses.tolist()], pa.string())

    def _bytes_column(self, addresses: np.ndarray, sizes: np.ndarray) -> pa.Array:
        there = addresses != 0
        if not there.any():
            return pa.nulls(len(addresses), pa.binary())
        addresses, sizes = np.ascontiguousarray(addresses), np.where(there, sizes, 0)
        ends = np.zeros(len(sizes) + 1, np.int32)
        np.cumsum(sizes, out=ends[1:])
        content = pa.allocate_buffer(int(ends[-1]))
        self._library.loops.ashore_copy(
            addresses.ctypes.data, sizes.ctypes.data, len(sizes), content.address
        )
        validity = None if there.all() else pa.array(there).buffers()[1]
        buffers = [validity, pa.py_buffer(ends), content]
        return pa.Array.from_buffers(pa.binary(), len(sizes), buffers)


def _pieces(sizes: np.ndarray) -> Iterator[slice]:
    """Cut rows where their bytes become more than one column may hold."""
    bytes_to = np.cumsum(sizes)
    start = 0
    while start < len(sizes):
        before = bytes_to[start - 1] if start else 0
        end = int(np.searchsorted(bytes_to, before + BATCH_BYTES, side="right"))
        end = max(end, start + 1)  # a record is less than that, whatever the settings
        yield slice(start, end)
        start = end


def _check(code: int) -> None:
    if code:
        raise KafkaException(KafkaError(code))


def _text(content: bytes) -> str:
    return content.decode(errors="replace")
