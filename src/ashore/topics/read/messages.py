"""Ranges of a topic partition, message by message, through Python's client.

What it is: a second way to the same records, for who checks the first: no column, no C of ours.
What it promises: committed records, in order; ends at the range's end, or where Kafka ends.
"""

from collections.abc import Iterator

from confluent_kafka import Consumer, Message, TopicPartition

from ashore.base.calendar import FIRST_MS, LAST_MS
from ashore.errors import OffsetsGone
from ashore.log.positions import OffsetRange, StreamShard
from ashore.topics.read.base import Record
from ashore.topics.read.client import Cluster
from ashore.topics.read.failures import OFFSET_OUT_OF_RANGE, Complaints
from ashore.topics.read.headers import read_headers
from ashore.topics.read.polling import READING, next_answer

SETTINGS = {
    **READING,
    "group.id": "ashore-verify",  # the client requires one; nothing is committed
    # Ranges are short, and what is fetched beyond their ends is fetched for nothing.
    "queued.min.messages": "1000",
    "queued.max.messages.kbytes": "4096",
}


class PlainReader:
    """One connection for many ranges, one after the other. Used by one thread."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._complaints = Complaints()
        self._consumer: Consumer | None = None

    def read(self, shard: StreamShard, offsets: OffsetRange) -> Iterator[Record]:
        """Yield the committed records of a range. Raises OffsetsGone, SourceError."""
        if self._consumer is None:
            self._consumer = self._cluster.open_client(self._complaints, SETTINGS)
        partition = TopicPartition(shard.stream, int(shard.shard), offsets.start)
        self._consumer.assign([partition])  # drops what an earlier range has left
        while True:
            message = self._next(self._consumer, shard, offsets)
            offset = None if message is None else message.offset()
            if message is None or offset is None or offset >= offsets.end:
                return
            _, time_ms = message.timestamp()
            is_time = FIRST_MS <= time_ms <= LAST_MS
            key, value = _bytes(message.key()), _bytes(message.value())
            found = read_headers(message)
            headers = None if found is None else tuple(found)
            yield Record(offset, time_ms if is_time else None, key, value, headers)

    def close(self) -> None:
        """Close the connection."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def _next(self, consumer: Consumer, shard: StreamShard, offsets: OffsetRange) -> Message | None:
        """Return the next message; None: the partition ends here."""
        cluster = self._cluster
        deadline_s = cluster.clock.monotonic_s() + cluster.timeout_s
        message = next_answer(cluster, consumer, self._complaints, deadline_s)
        error = message.error()
        if error is None:
            return message
        if error.code() == OFFSET_OUT_OF_RANGE:
            text = f"Kafka no longer has {shard.stream}/{shard.shard} {offsets}: {error.str()}"
            raise OffsetsGone(text, hint="Kafka has deleted these records by retention")
        return None


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
