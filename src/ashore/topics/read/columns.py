"""Ranges of topic partitions as columns: what a task lands.

What it is: records as the client hands them out, gathered into batches of Arrow.
What it promises: every record of the ranges is in one batch, its bytes as they are; a batch is
bounded in records and bytes, and holds the records of a partition together, in order.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from types import MappingProxyType

import pyarrow as pa
import pyarrow.compute as pc

from ashore.base.native import describe_reader
from ashore.errors import RecordsTooLarge
from ashore.log.positions import OffsetRange, StreamShard
from ashore.topics.read.client import Cluster
from ashore.topics.read.limits import DEFAULT_LIMITS, ReadLimits, refused_range
from ashore.topics.read.native import BATCH_BYTES, BATCH_RECORDS, choose
from ashore.topics.read.reading import ReadReport, Use, read_ranges
from ashore.topics.read.record_columns import FETCHED

_FIRST_BYTES = FETCHED.get_field_index(
    "key"
)  # it and what comes after it is what a batch's size is


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
        choice = choose(Cluster.of(self.bootstrap_servers, self.options, self.timeout_s))
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


def gather(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the records in fewer batches, those of a partition together, in order.

    None is above the bounds unless one of `batches` is. What would not fit with the next one goes
    alone: to copy it beside what is as large costs more than a batch that is not full.
    """
    gathered: list[pa.RecordBatch] = []
    records = size_bytes = 0
    for batch in batches:
        batch_bytes = sum(column.nbytes for column in batch.columns[_FIRST_BYTES:])
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
