"""Ranges of a topic partition, message by message, through Python's client.

What it is: a second way to the same records, for who checks the first: no column, no C of ours.
What it promises: committed records, in order; ends at the range's end, or where Kafka ends.
What it must not know: how tasks read.
"""

from collections.abc import Iterator

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from ashore.protocol.positions import OffsetRange
from ashore.sources.base import Record, StreamShard
from ashore.sources.client import Cluster
from ashore.sources.failures import PARTITION_END, PASSING, TIMED_OUT, Complaints, tell

POLL_S = 0.5
SETTINGS = {
    "group.id": "ashore-verify",  # the client wants one; nothing is committed
    "enable.auto.commit": "false",
    "auto.offset.reset": "error",
    "isolation.level": "read_committed",
    "enable.partition.eof": "true",
}


def read_plain(cluster: Cluster, shard: StreamShard, offsets: OffsetRange) -> Iterator[Record]:
    """Yield the committed records of a range. Raises SourceError."""
    complaints = Complaints()
    consumer = cluster.open_client(complaints, SETTINGS)
    try:
        consumer.assign([TopicPartition(shard.stream, int(shard.shard), offsets.start)])
        while True:
            message = _next(cluster, consumer, complaints)
            if message is None or (message.offset() or 0) >= offsets.end:
                return
            key, value = message.key(), message.value()
            yield Record(message.offset() or 0, message.timestamp()[1], _bytes(key), _bytes(value))
    finally:
        consumer.close()


def _next(cluster: Cluster, consumer: Consumer, complaints: Complaints) -> Message | None:
    """Return the next message; None: the partition ends here."""
    deadline_s = cluster.clock.monotonic_s() + cluster.timeout_s
    while True:
        message = consumer.poll(POLL_S)
        if message is not None and message.error() is None:
            return message
        error = KafkaError(TIMED_OUT) if message is None else message.error()
        if error is not None and error.code() == PARTITION_END:
            return None
        is_late = cluster.clock.monotonic_s() >= deadline_s
        if is_late or (message is not None and error is not None and error.code() not in PASSING):
            raise tell(error, complaints, cluster.bootstrap_servers, cluster.timeout_s)


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
