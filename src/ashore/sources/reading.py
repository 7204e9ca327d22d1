"""A range of a topic partition, read again.

What it is: one consumer for one range, from its first offset to its end.
What it promises: committed records only, in order, all of them; it ends also where the range ends
in transaction markers or in offsets that compaction has emptied. Never waits longer than the
cluster's timeout for a sign of life, and never takes silence for an end.
What it must not know: what the records are compared with.
"""

import logging
from collections.abc import Iterator

from confluent_kafka import Consumer, KafkaError, TopicPartition

from ashore.errors import OffsetsGone, SourceError
from ashore.protocol.positions import OffsetRange
from ashore.sources.base import Record, StreamShard
from ashore.sources.client import Cluster
from ashore.sources.failures import (
    OFFSET_OUT_OF_RANGE,
    PARTITION_END,
    PASSING,
    Complaints,
    tell,
)

BATCH_RECORDS = 10_000
TICK_S = 0.05  # the longest wait for a batch to fill: how late an end is noticed

SETTINGS = {
    "isolation.level": "read_committed",
    "enable.partition.eof": True,
    "fetch.wait.max.ms": 20,  # the range is all there: nothing to wait for
    "fetch.queue.backoff.ms": 10,  # the default, a second at a full queue, is 7 times slower
}

_log = logging.getLogger(__name__)


def read_range(cluster: Cluster, shard: StreamShard, offsets: OffsetRange) -> Iterator[Record]:
    """Yield the committed records of `offsets`, which the partition has: the caller has looked.

    Raises OffsetsGone if retention overtakes the reading, and SourceError.
    """
    complaints = Complaints()
    consumer = cluster.open_consumer(complaints, SETTINGS)
    try:
        yield from _Reading(cluster, shard, offsets, complaints).read(consumer)
    finally:
        consumer.close()


class _Reading:
    """The state of one reading."""

    def __init__(
        self, cluster: Cluster, shard: StreamShard, offsets: OffsetRange, complaints: Complaints
    ) -> None:
        self.cluster = cluster
        self.shard = shard
        self.position, self.end = offsets.start, offsets.end
        self.complaints = complaints

    def read(self, consumer: Consumer) -> Iterator[Record]:
        now_s = self.cluster.clock.monotonic_s
        begin = TopicPartition(self.shard.stream, int(self.shard.shard), self.position)
        consumer.assign([begin])
        quiet_until_s = now_s() + self.cluster.timeout_s
        while self.position < self.end:
            wanted = min(BATCH_RECORDS, self.end - self.position)
            messages = consumer.consume(wanted, TICK_S)
            for message in messages:
                if message.error() is not None:
                    self._hear(message.error(), message.offset())
                    continue
                offset = message.offset()
                self.position = offset + 1
                if offset >= self.end:
                    return
                yield Record(offset, message.timestamp()[1], message.key(), message.value())
            if messages:
                quiet_until_s = now_s() + self.cluster.timeout_s
            elif now_s() > quiet_until_s:
                raise self._silent()

    def _hear(self, error: KafkaError, offset: int | None) -> None:
        """Take an event of the consumer: the end of the partition, a passing error, a failure."""
        code = error.code()
        if code == PARTITION_END and offset is not None:
            self.position = max(self.position, offset)
        elif code == OFFSET_OUT_OF_RANGE:
            raise OffsetsGone(
                f"Kafka no longer has {self.shard.stream}/{self.shard.shard}"
                f" {OffsetRange(self.position, self.end)}: {error.str()}",
                hint="retention has removed records while they were read again",
                stream=self.shard.stream,
                shard=self.shard.shard,
                start=self.position,
                end=self.end,
            )
        elif code in PASSING or code == KafkaError.GROUP_AUTHORIZATION_FAILED:
            # The library looks for the coordinator of a group that is never joined.
            _log.debug("reading %s goes on after %s", self.shard, error)
        else:
            raise tell(
                error, self.complaints, self.cluster.bootstrap_servers, self.cluster.timeout_s
            )

    def _silent(self) -> SourceError:
        rest = OffsetRange(self.position, self.end)
        return SourceError(
            f"Kafka sends nothing of {self.shard.stream}/{self.shard.shard} {rest} for"
            f" {self.cluster.timeout_s:g} s, neither a record nor an end"
            + (f": {self.complaints.last}" if self.complaints.last else ""),
            hint="look at the broker's log, then try again",
        )
