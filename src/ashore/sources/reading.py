"""Ranges of topic partitions, read by a task or read again by the verifier.

What it is: one consumer over some ranges, each from its first offset to its end.
What it promises: committed records only, all of them, those of a partition in order; a range ends
also where it ends in transaction markers or in offsets that compaction has emptied. Never waits
longer than the cluster's timeout for a sign of life, and never takes silence for an end.
What it must not know: what becomes of the records.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

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

CHUNK_RECORDS = 2_000  # few enough to stay in the processor's cache
TICK_S = 0.05  # the longest wait for a chunk to fill: how late an end is noticed
# Small ranges are read side by side, as one fetch each costs more than their records; together
# they are no more than this, so that a partition's records come in few stretches.
WAVE_RECORDS = 65_536

SETTINGS = {
    "isolation.level": "read_committed",
    "enable.partition.eof": True,
    "fetch.wait.max.ms": 20,  # the range is all there: nothing to wait for
    "fetch.queue.backoff.ms": 10,  # the default, a second at a full queue, is 7 times slower
    "queued.max.messages.kbytes": 16 << 10,  # fetched ahead: what a range's end throws away
}

_log = logging.getLogger(__name__)

Ranges = Mapping[StreamShard, OffsetRange]


def read_range(cluster: Cluster, shard: StreamShard, offsets: OffsetRange) -> Iterator[Record]:
    """Yield the committed records of `offsets`, which the partition has: the caller has looked.

    Raises OffsetsGone if retention overtakes the reading, and SourceError.
    """
    for messages in read_ranges(cluster, {shard: offsets}):
        for each in messages:
            yield Record(each.offset(), each.timestamp()[1], each.key(), each.value())


def read_ranges(cluster: Cluster, ranges: Ranges) -> Iterator[list[Message]]:
    """Yield the committed records of ranges that the partitions have, in lists of a few thousand.

    Records of one partition come in order; those of small ranges may alternate.
    Raises OffsetsGone if retention overtakes the reading, and SourceError.
    """
    complaints = Complaints()
    consumer = cluster.open_consumer(complaints, SETTINGS)
    try:
        yield from _Reading(cluster, consumer, ranges, complaints).read()
    finally:
        consumer.close()


def only_topic(ranges: Ranges) -> str | None:
    """Return the topic of all ranges; None where there are several."""
    topics = {shard.stream for shard in ranges}
    return topics.pop() if len(topics) == 1 else None


class _Reading:
    """The state of one reading."""

    def __init__(
        self, cluster: Cluster, consumer: Consumer, ranges: Ranges, complaints: Complaints
    ) -> None:
        self._cluster = cluster
        self._consumer = consumer
        self._complaints = complaints
        self._places = {_place(shard): shard for shard in ranges}
        self._positions = {_place(shard): each.start for shard, each in ranges.items()}
        self._ends = {_place(shard): each.end for shard, each in ranges.items()}
        self._topic = only_topic(ranges)

    def read(self) -> Iterator[list[Message]]:
        # All at once, and paused: the metadata of a topic that is assigned later takes a second.
        self._consumer.assign([TopicPartition(*each, at) for each, at in self._positions.items()])
        waves = list(_waves(self._positions, self._ends))
        self._consumer.pause([TopicPartition(*each) for wave in waves[1:] for each in wave])
        for number, wave in enumerate(waves):
            if number:
                self._consumer.resume([TopicPartition(*each) for each in wave])
            yield from self._read_wave(set(wave))

    def _read_wave(self, wave: set[tuple[str, int]]) -> Iterator[list[Message]]:
        now_s = self._cluster.clock.monotonic_s
        quiet_until_s = now_s() + self._cluster.timeout_s
        while wave:
            left = sum(self._ends[each] - self._positions[each] for each in wave)
            messages = self._consumer.consume(min(CHUNK_RECORDS, left), TICK_S)
            yield self._sift(messages)
            ended = {each for each in wave if self._positions[each] >= self._ends[each]}
            if ended:
                self._consumer.pause([TopicPartition(*each) for each in ended])
                wave -= ended
            if messages:
                quiet_until_s = now_s() + self._cluster.timeout_s
            elif now_s() > quiet_until_s:
                raise self._silent(wave)

    def _sift(self, messages: list[Message]) -> list[Message]:
        """Note how far the reading is, and return the records that are in their ranges."""
        if any(map(Message.error, messages)):
            for each in messages:
                error = each.error()
                if error is not None:
                    self._hear(error, each)
            messages = [each for each in messages if each.error() is None]
        is_beyond = False
        for place, offset in self._last_offsets(messages):
            self._positions[place] = max(self._positions[place], offset + 1)
            is_beyond |= offset >= self._ends[place]
        return [each for each in messages if self._is_within(each)] if is_beyond else messages

    def _last_offsets(self, messages: list[Message]) -> Iterator[tuple[tuple[str, int], int]]:
        """Yield the last offset of each partition, without a step of Python for each record."""
        partitions, offsets = map(Message.partition, messages), map(Message.offset, messages)
        if self._topic is not None:
            for partition, offset in dict(zip(partitions, offsets, strict=True)).items():
                yield (self._topic, partition), offset
            return
        places = zip(map(Message.topic, messages), partitions, strict=True)
        yield from dict(zip(places, offsets, strict=True)).items()

    def _is_within(self, message: Message) -> bool:
        return bool(message.offset() < self._ends[message.topic(), message.partition()])

    def _hear(self, error: KafkaError, message: Message) -> None:
        """Take an event of the consumer: the end of a partition, a passing error, a failure."""
        code, place = error.code(), (message.topic(), message.partition())
        if code == PARTITION_END and place in self._positions:
            self._positions[place] = max(self._positions[place], message.offset())
        elif code == OFFSET_OUT_OF_RANGE and place in self._positions:
            raise self._gone(place, error)
        elif code in PASSING or code == KafkaError.GROUP_AUTHORIZATION_FAILED:
            # The library looks for the coordinator of a group that is never joined.
            _log.debug("reading %s goes on after %s", place, error)
        else:
            cluster = self._cluster
            raise tell(error, self._complaints, cluster.bootstrap_servers, cluster.timeout_s)

    def _gone(self, place: tuple[str, int], error: KafkaError) -> OffsetsGone:
        shard, rest = self._places[place], self._rest(place)
        return OffsetsGone(
            f"Kafka no longer has {shard.stream}/{shard.shard} {rest}: {error.str()}",
            hint="retention has removed records while they were read",
            stream=shard.stream,
            shard=shard.shard,
            start=rest.start,
            end=rest.end,
        )

    def _silent(self, wave: set[tuple[str, int]]) -> SourceError:
        place = min(wave)
        cause = f": {self._complaints.last}" if self._complaints.last else ""
        return SourceError(
            f"Kafka sends nothing of {place[0]}/{place[1]} {self._rest(place)} for"
            f" {self._cluster.timeout_s:g} s, neither a record nor an end{cause}",
            hint="look at the broker's log, then try again",
        )

    def _rest(self, place: tuple[str, int]) -> OffsetRange:
        return OffsetRange(self._positions[place], self._ends[place])


def _place(shard: StreamShard) -> tuple[str, int]:
    return shard.stream, int(shard.shard)


def _waves(
    starts: Mapping[tuple[str, int], int], ends: Mapping[tuple[str, int], int]
) -> Iterator[Sequence[tuple[str, int]]]:
    """Group partitions that are read side by side."""
    wave: list[tuple[str, int]] = []
    records = 0
    for place, start in starts.items():
        size = ends[place] - start
        if wave and records + size > WAVE_RECORDS:
            yield wave
            wave, records = [], 0
        wave.append(place)
        records += size
    if wave:
        yield wave
