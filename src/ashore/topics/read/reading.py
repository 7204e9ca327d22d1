"""Ranges of topic partitions, read by a task or read again by the verifier.

What it is: one reader over some ranges, each from its first offset to its end: the native one where
it can be, librdkafka's consumer elsewhere, and for what the native one gives up on the way. A task
gets records gathered into batches of Arrow that are bounded in records and bytes, and hold those of
a partition together, in order.
What it promises: committed records only, all of them, those of a partition in order; a range ends
also where it ends in transaction markers or in offsets that compaction has emptied. Never waits
longer than the cluster's timeout for an offset to advance, or half as long again where the native
reader waited first; and never takes silence for an end. Errors that pass, and records that were
delivered before, are no progress.
"""

import logging
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import KafkaError

from ashore.base.native import describe_reader
from ashore.errors import AshoreError, BadRecord, OffsetsGone, RecordsTooLarge, SourceError
from ashore.log.positions import OffsetRange, StreamShard
from ashore.topics.read.client import (
    BAD_COMPRESSION,
    HARMLESS,
    OFFSET_OUT_OF_RANGE,
    PARTITION_END,
    RANGES,
    TIMED_OUT,
    Cluster,
    Complaints,
    explain_kafka_error,
)
from ashore.topics.read.consumer import ConsumerEvent, RangeConsumer, TopicPartition
from ashore.topics.read.limits import (
    DEFAULT_LIMITS,
    HARD_LIMITS,
    ReadLimits,
    records_too_large,
    refused_range,
)
from ashore.topics.read.native import (
    BATCH_BYTES,
    BATCH_RECORDS,
    WAVE_RECORDS,
    GaveUp,
    RawReading,
    choose_reader,
    offsets_gone,
)
from ashore.topics.read.record_columns import FETCHED, record_sizes
from ashore.topics.read.source import Record

POLL_RECORDS = 8_192  # few enough to stay in the processor's cache, as are
POLL_BYTES = 4 << 20  # where records are larger; by the size of those before
FIRST_POLL_RECORDS = 500  # before any size is known
TICK_S = 0.05  # the longest wait for a poll to fill: how late an end is noticed

RECEIVED_DEFAULT_BYTES = 100_000_000  # by librdkafka's own default
RECEIVED_MOST_BYTES = 2**31 - 1
ANSWER_OVERHEAD_BYTES = 512  # that librdkafka asks for beside what was fetched


# The size of a batch is that of this column and what comes after it.
_FIRST_SIZED = FETCHED.get_field_index("key")

_log = logging.getLogger(__name__)

Ranges = Mapping[StreamShard, OffsetRange]


@dataclass(frozen=True, slots=True)
class ReadReport:
    """The report of readings beside records, each once it is over.

    Arguments:
        counts: how often the native reader gave up, as `reader_fallbacks`.
        by_id: ranges all of whose records were fetched by the expected id of their topic. None of
            them is of another topic that has the name, whatever happened while they were read.

    """

    counts: Counter[str] = field(default_factory=Counter)
    by_id: set[tuple[StreamShard, OffsetRange]] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Use:
    """Which readers may read.

    Arguments:
        native: the native reader, where it can. Else librdkafka reads, through Python's client.
        report: what they add their reports to.
        limits: of records and batches. librdkafka decompresses what it has fetched before anybody
            can look, of zstd up to the limit or 100 MB: of what it hands out, records are compared.

    """

    native: bool = True
    report: ReadReport | None = None
    limits: ReadLimits = HARD_LIMITS


ANY = Use()
LIBRDKAFKA = Use(native=False)
# Who verifies reads by librdkafka, and not by what has landed: a mistake of one is not in both.
AGAIN = LIBRDKAFKA


@dataclass(frozen=True, slots=True)
class KafkaAddress:
    """How a task reaches Kafka: servers, and client options under their Java names."""

    bootstrap_servers: str
    options: Mapping[str, str] = field(repr=False)
    timeout_s: float = 30.0  # without a sign of life
    reader: str = "auto"  # auto | native | python: `python` is librdkafka in any case
    limits: ReadLimits = DEFAULT_LIMITS

    def describe_reader(self) -> str:
        """Return which reader and decoder run on this machine, and why not others, for people.

        Asks no broker. Raises JobFileInvalid.
        """
        words = describe_reader(self.reader)
        if not words.startswith("native"):
            return words
        choice = choose_reader(Cluster.of(self.bootstrap_servers, self.options, self.timeout_s))
        return words if choice.is_raw else f"{words}; librdkafka reads: {choice.why_not}"

    def read(
        self,
        ranges: Mapping[StreamShard, OffsetRange],
        with_headers: Collection[str] = (),
        topic_ids: Mapping[str, str] = MappingProxyType({}),
        report: ReadReport | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the committed records of ranges, in the columns of FETCHED.

        Where `with_headers` names topics, their records have their headers, those of others none.
        `topic_ids`: ids of topics, as expected. `report`: where the report of the reader is added.
        Requires: the partitions have the ranges; the driver has looked.
        Raises OffsetsGone if retention overtakes the reading, RecordsTooLarge, SourceError,
        BadRecord, JobFileInvalid.
        """
        cluster = Cluster.of(self.bootstrap_servers, self.options, self.timeout_s)
        use = Use(native=self.reader != "python", report=report, limits=self.limits)
        yield from gather(
            read_ranges(cluster, ranges, use, with_headers=with_headers, topic_ids=topic_ids)
        )

    def find_too_large(self, shard: StreamShard, offsets: OffsetRange) -> OffsetRange | None:
        """Return the offsets that the first record of a range is too large with.

        None: it can be read, or there is none. Raises as `read`.
        """
        try:
            next(iter(self.read({shard: offsets})), None)
        except RecordsTooLarge as error:
            found = refused_range(error)[1]
            return found if found.start <= offsets.start < found.end else None
        return None


def read_range(cluster: Cluster, shard: StreamShard, offsets: OffsetRange) -> Iterator[Record]:
    """Yield the committed records of `offsets`, which the partition has: the caller has looked.

    Raises OffsetsGone if retention overtakes the reading, and SourceError.
    """
    for batch in read_ranges(cluster, {shard: offsets}, AGAIN):
        times_us = batch.column("timestamp").view(pa.int64()).to_pylist()
        rows = zip(
            batch.column("offset").to_pylist(),
            (None if time is None else time // 1000 for time in times_us),
            batch.column("key").to_pylist(),
            batch.column("value").to_pylist(),
            strict=True,
        )
        yield from map(Record, *zip(*rows, strict=True))


def read_ranges(
    cluster: Cluster,
    ranges: Ranges,
    use: Use = ANY,
    *,
    with_headers: Collection[str] = (),
    topic_ids: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[pa.RecordBatch]:
    """Yield the committed records of ranges that the partitions have, a few thousand at a time.

    They come in the columns of FETCHED; where `with_headers` names topics, also with headers, which
    those of other topics do not have. Records of one partition come in order; those of small
    ranges may alternate. `topic_ids`: ids of topics that are expected; the native reader reads
    nothing of a topic that has another one, and reports which ranges it has read so.
    Raises OffsetsGone if retention overtakes the reading, RecordsTooLarge, SourceError, and
    BadRecord where librdkafka's client for Python cannot read a record's headers.
    """
    choice = choose_reader(cluster)
    gave_up = ""
    if use.native and not choice.is_raw:
        _log.info("librdkafka reads: %s", choice.why_not)
    if use.native and choice.is_raw:
        reading = RawReading(cluster, ranges, with_headers, topic_ids, use.limits)
        try:
            yield from reading.read()
        except GaveUp as failure:
            ranges, gave_up = reading.rest(), str(failure)
            _log.warning("the native reader gives up, librdkafka continues: %s", gave_up)
            if use.report is not None:
                use.report.counts["reader_fallbacks"] += 1
            cluster = replace(cluster, settings={**cluster.settings, "check.crcs": "true"})
        else:
            if use.report is not None and reading.is_by_id:
                use.report.by_id.update(ranges.items())
            return
    complaints = Complaints()
    settings = {**RANGES, "receive.message.max.bytes": str(_most_bytes(cluster, use.limits))}
    consumer = RangeConsumer(cluster, complaints, settings, with_headers)
    try:
        yield from _Reading(cluster, consumer, ranges, complaints, use.limits).read()
    except BadRecord as error:
        if not gave_up:
            raise
        raise SourceError(
            f"{error}; the native reader can, but gave up: {gave_up}",
            hint="repair what the native reader gave up at, then try again",
        ) from None
    finally:
        consumer.close()


def gather(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the records in fewer batches, those of a partition together, in order.

    None is above the bounds unless one of `batches` is. What would not fit with the next one goes
    alone: to copy it beside what is as large costs more than a batch that is not full.
    """
    gathered: list[pa.RecordBatch] = []
    records = size_bytes = 0
    for batch in batches:
        batch_bytes = sum(column.nbytes for column in batch.columns[_FIRST_SIZED:])
        if gathered and (
            records + batch.num_rows > BATCH_RECORDS or size_bytes + batch_bytes > BATCH_BYTES
        ):
            yield _join(gathered)
            records = size_bytes = 0
        gathered.append(batch)
        records += batch.num_rows
        size_bytes += batch_bytes
        del batch  # or it is in memory while others work on what it became
    if gathered:
        yield _join(gathered)


def _shard_of(batch: pa.RecordBatch) -> tuple[str, int] | None:
    """Return topic and partition of all records; None: they differ."""
    topics, partitions = (pc.min_max(batch.column(name)) for name in ("topic", "partition"))
    if topics["min"] != topics["max"] or partitions["min"] != partitions["max"]:
        return None
    return topics["min"].as_py(), partitions["min"].as_py()


def _join(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Return one batch, in which the records of a partition are together. Empties `batches`."""
    shards = [shard for shard in map(_shard_of, batches) if shard is not None]
    is_sorted = len(shards) == len(batches)
    if is_sorted:
        # Those of one partition come in order, and stay in it.
        batches[:] = [batches[number] for _, number in sorted(zip(shards, count(), strict=False))]
    joined = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
    batches.clear()  # before anybody works on what they became
    if is_sorted:
        return joined
    by_shard = [("topic", "ascending"), ("partition", "ascending"), ("offset", "ascending")]
    return joined.take(pc.sort_indices(joined, sort_keys=by_shard))


def _most_bytes(cluster: Cluster, limits: ReadLimits) -> int:
    """Return what an answer may have: of zstd librdkafka decompresses no batch to more than that.

    It takes no less than a fetch may have.
    """
    fetched = int(cluster.settings.get("fetch.max.bytes", 0)) + ANSWER_OVERHEAD_BYTES
    return min(max(limits.batch_bytes, fetched, RECEIVED_DEFAULT_BYTES), RECEIVED_MOST_BYTES)


class _Reading:
    """The state of one reading."""

    def __init__(
        self,
        cluster: Cluster,
        consumer: RangeConsumer,
        ranges: Ranges,
        complaints: Complaints,
        limits: ReadLimits,
    ) -> None:
        self._cluster = cluster
        self._limits = limits
        self._consumer = consumer
        self._complaints = complaints
        self._shards = {_topic_partition(shard): shard for shard in ranges}
        self._positions = {_topic_partition(shard): each.start for shard, each in ranges.items()}
        self._ends = {_topic_partition(shard): each.end for shard, each in ranges.items()}
        self._starts = dict(self._positions)
        self._limit = FIRST_POLL_RECORDS

    def read(self) -> Iterator[pa.RecordBatch]:
        # All at once, and paused: the metadata of a topic that is assigned later takes a second.
        self._consumer.assign(self._positions)
        waves = list(_waves(self._positions, self._ends))
        self._consumer.pause([each for wave in waves[1:] for each in wave])
        for number, wave in enumerate(waves):
            if number:
                self._consumer.resume(wave)
            yield from self._read_wave(set(wave))

    def _read_wave(self, wave: set[TopicPartition]) -> Iterator[pa.RecordBatch]:
        now_s = self._cluster.clock.monotonic_s
        quiet_until_s = now_s() + self._cluster.timeout_s
        while wave:
            left = sum(self._ends[each] - self._positions[each] for each in wave)
            before = sum(self._positions.values())
            polled = self._consumer.consume(min(self._limit, left), TICK_S)
            for batch in polled.records:
                yield from self._sift(batch)
            for event in polled.events:
                self._handle(event)
            for partition, offset in polled.unread:
                if self._starts[partition] <= offset < self._ends[partition]:
                    raise _headers_unread(partition, offset)
                self._positions[partition] = max(self._positions[partition], offset + 1)
            ended = {each for each in wave if self._positions[each] >= self._ends[each]}
            if ended:
                self._consumer.pause(ended)
                wave -= ended
            if sum(self._positions.values()) > before:
                quiet_until_s = now_s() + self._cluster.timeout_s
            elif self._complaints.is_final or now_s() > quiet_until_s:
                raise self._silent(wave)

    def _sift(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Note how far the reading is, and yield the records that come next in their ranges.

        One that is delivered again is dropped: where offsets have holes, no count would show it.
        """
        mean_bytes = batch.nbytes // batch.num_rows + 1
        self._limit = min(POLL_RECORDS, POLL_BYTES // mean_bytes + 1)
        offsets = batch.column("offset").to_numpy()
        is_next = np.ones(len(offsets), bool)
        for partition, rows in _by_partition(batch):
            came = offsets[rows]
            # How far the reading is before each of these records.
            reached = np.maximum.accumulate(
                np.concatenate(([self._positions[partition]], came + 1))
            )
            is_next[rows] = (came >= reached[:-1]) & (came < self._ends[partition])
            self._positions[partition] = int(reached[-1])
        if not is_next.all():
            batch = batch.filter(pa.array(is_next))
        if batch.num_rows:
            self._check_sizes(batch)
            yield batch

    def _check_sizes(self, batch: pa.RecordBatch) -> None:
        """Raise RecordsTooLarge at the first record that exceeds its limit."""
        if batch.nbytes <= self._limits.record_bytes:
            return
        found = np.flatnonzero(record_sizes(batch) > self._limits.record_bytes)
        if len(found):
            raise record_too_large(batch, int(found[0]), self._limits)

    def _handle(self, event: ConsumerEvent) -> None:
        """Take what is no record: the end of a partition, a passing error, a failure."""
        code, partition = event.code, event.partition
        if code == PARTITION_END and partition in self._positions:
            self._positions[partition] = max(self._positions[partition], event.offset)
        elif code == OFFSET_OUT_OF_RANGE and partition in self._positions:
            raise self._deleted(partition, event.text)
        elif code == BAD_COMPRESSION and partition in self._positions:
            raise self._not_decompressed(partition, event.text)
        elif code in HARMLESS:
            _log.debug("reading %s continues after %s", partition, event.text)
        else:
            cluster, error = self._cluster, KafkaError(code, event.text)
            raise explain_kafka_error(
                error, self._complaints, cluster.bootstrap_servers, cluster.timeout_s
            )

    def _deleted(self, partition: TopicPartition, reason: str) -> OffsetsGone:
        return offsets_gone(self._shards[partition], self._rest(partition), reason)

    def _not_decompressed(self, partition: TopicPartition, reason: str) -> AshoreError:
        """Return the error for a batch that is damaged, or becomes more than it may.

        The native reader, where it can be used, reports which of them, and where the batch ends.
        """
        shard, rest = self._shards[partition], self._rest(partition)
        if choose_reader(self._cluster).is_raw:
            try:
                next(RawReading(self._cluster, {shard: rest}, (), limits=self._limits).read(), None)
            except RecordsTooLarge as error:
                return error
            except GaveUp as gave_up:
                reason = str(gave_up)
        return SourceError(
            f"the batch at offset {rest.start} of {shard.stream}/{shard.shard} cannot be "
            f"decompressed: it is damaged, or exceeds the limits: {reason}",
            hint=f"a batch may become {self._limits.batch_bytes:,} bytes: raise `limits` in the "
            "job file if it is larger. Where the native reader can be used, it reports which of "
            "both it is, and what is too large can be skipped",
        )

    def _silent(self, wave: set[TopicPartition]) -> SourceError:
        cluster, complaints = self._cluster, self._complaints
        if complaints.is_final:
            refused = KafkaError(TIMED_OUT)
            return explain_kafka_error(
                refused, complaints, cluster.bootstrap_servers, cluster.timeout_s
            )
        partition = min(wave)
        cause = f": {complaints.last}" if complaints.last else ""
        return SourceError(
            f"Kafka sent nothing new of {partition[0]}/{partition[1]} {self._rest(partition)} for "
            f"{cluster.timeout_s:g} s, neither a record nor an end{cause}",
            hint="check the broker's log, then try again",
        )

    def _rest(self, partition: TopicPartition) -> OffsetRange:
        return OffsetRange(self._positions[partition], self._ends[partition])


def _headers_unread(partition: TopicPartition, offset: int) -> BadRecord:
    topic, number = partition
    return BadRecord(
        f"{topic}/{number}, offset {offset}: a header's key is not UTF-8, and Python's Kafka "
        "client cannot read it",
        hint="the native reader can read it: install ashore-native and use options that it has; "
        "or write `provenance: true`",
        topic=topic,
        partition=number,
        offset=offset,
    )


def record_too_large(batch: pa.RecordBatch, at: int, limits: ReadLimits) -> RecordsTooLarge:
    """Return the error for the record in row `at` of a batch, whose value is not looked at."""
    topic, partition, offset = (
        batch.column(name)[at].as_py() for name in ("topic", "partition", "offset")
    )
    shard = StreamShard(topic, str(partition))
    return records_too_large(shard, OffsetRange(offset, offset + 1), limits)


def _topic_partition(shard: StreamShard) -> TopicPartition:
    return shard.stream, int(shard.shard)


def _by_partition(batch: pa.RecordBatch) -> Iterator[tuple[TopicPartition, np.ndarray | slice]]:
    """Yield the partitions of a batch, each with its rows."""
    topics, partitions = batch.column("topic"), batch.column("partition").to_numpy()
    if (partitions == partitions[0]).all() and len(topics.unique()) == 1:
        yield (topics[0].as_py(), int(partitions[0])), slice(None)
        return
    names = topics.dictionary_encode()
    codes = names.indices.to_numpy()
    for code, name in enumerate(names.dictionary.to_pylist()):
        for partition in np.unique(partitions[codes == code]).tolist():
            yield (name, partition), (codes == code) & (partitions == partition)


def _waves(
    starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> Iterator[Sequence[TopicPartition]]:
    """Group partitions that are read side by side."""
    wave: list[TopicPartition] = []
    records = 0
    for partition, start in starts.items():
        size = ends[partition] - start
        if wave and records + size > WAVE_RECORDS:
            yield wave
            wave, records = [], 0
        wave.append(partition)
        records += size
    if wave:
        yield wave
