"""Records from librdkafka's memory into columns, without a Python object for each.

What it is: a consumer on the C API of the library that Python's client has loaded.
What it promises: as `RangeConsumer`; of the client's time for a small record about half is left.
What it must not know: ranges, tables.
"""

import ctypes
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException

from ashore.sources.consumer.base import Chunk, ConsumerEvent, TopicPartition
from ashore.sources.consumer.library import (
    CONF_OK,
    CONSUMER,
    ErrorCallback,
    Library,
    LogCallback,
)
from ashore.sources.failures import Complaints
from ashore.sources.fetched import FETCHED, to_times

# As `struct row` in gather.c. `error` is 0 for a record; addresses are 0 for what is null.
_FIELDS = "error topic partition offset time_ms key key_size value value_size"
ROW = np.dtype([(name, np.int64) for name in _FIELDS.split()])
REASON_BYTES = 512
BATCH_BYTES = 1 << 30  # Arrow counts the bytes of a binary column in 31 bits


class NativeConsumer:
    """See RangeConsumer.

    Arguments:
        library: librdkafka and our loops.
        settings: of librdkafka.
        complaints: what the connection complains of is noted here.

    Raises KafkaException if the settings do not hold.

    """

    def __init__(
        self, library: Library, settings: Mapping[str, str], complaints: Complaints
    ) -> None:
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
            records = rows[~is_event] if events else rows
            return Chunk([self._columns(each) for each in _pieces(records)], events)
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

    def _columns(self, rows: np.ndarray) -> pa.RecordBatch:
        columns = [
            self._topic_column(rows["topic"]),
            pa.array(rows["partition"].astype(np.int32)),
            pa.array(np.ascontiguousarray(rows["offset"])),
            to_times(rows["time_ms"]),
            self._bytes_column(rows["key"], rows["key_size"]),
            self._bytes_column(rows["value"], rows["value_size"]),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=FETCHED)

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


def _pieces(rows: np.ndarray) -> Iterator[np.ndarray]:
    """Cut rows where their bytes become more than one column may hold."""
    bytes_to = np.cumsum(rows["key_size"] + rows["value_size"])
    start = 0
    while start < len(rows):
        before = bytes_to[start - 1] if start else 0
        end = int(np.searchsorted(bytes_to, before + BATCH_BYTES, side="right"))
        end = max(end, start + 1)  # a record is less than that, whatever the settings
        yield rows[start:end]
        start = end


def _check(code: int) -> None:
    if code:
        raise KafkaException(KafkaError(code))


def _text(content: bytes) -> str:
    return content.decode(errors="replace")
