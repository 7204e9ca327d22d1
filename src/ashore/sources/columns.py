"""Ranges of topic partitions as columns: what a task lands.

What it is: records as the client hands them out, gathered into batches of Arrow.
What it promises: every record of the ranges is in one batch, its bytes as they are; a batch is
bounded in records and bytes, and holds the records of a partition together, in order.
What it must not know: tables, decoding, Spark.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Message

from ashore.protocol.positions import OffsetRange
from ashore.sources.base import StreamShard
from ashore.sources.client import Cluster
from ashore.sources.fetched import FETCHED
from ashore.sources.reading import only_topic, read_ranges

BATCH_RECORDS = 65_536  # suits decoding
BATCH_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class KafkaAddress:
    """How a task reaches Kafka: servers, and client options under their Java names."""

    bootstrap_servers: str
    options: Mapping[str, str] = field(repr=False)
    timeout_s: float = 30.0  # without a sign of life

    def read(self, ranges: Mapping[StreamShard, OffsetRange]) -> Iterator[pa.RecordBatch]:
        """Yield the committed records of ranges, in the columns of FETCHED.

        Requires: the partitions have the ranges; the driver has looked.
        Raises OffsetsGone if retention overtakes the reading, SourceError, JobFileInvalid.
        """
        cluster = Cluster.of(self.bootstrap_servers, self.options, self.timeout_s)
        topic = only_topic(ranges)
        held: list[pa.RecordBatch] = []
        records = size_bytes = 0
        for messages in read_ranges(cluster, ranges):
            if not messages:
                continue
            batch = _to_columns(messages, topic)
            held.append(batch)
            records += batch.num_rows
            size_bytes += batch.column("value").nbytes + batch.column("key").nbytes
            if records >= BATCH_RECORDS or size_bytes >= BATCH_BYTES:
                yield _join(held)
                held, records, size_bytes = [], 0, 0
        if held:
            yield _join(held)


def _is_constant(column: pa.Array) -> bool:
    ends = pc.min_max(column)
    return bool(ends["min"] == ends["max"])


def _to_columns(messages: list[Message], topic: str | None) -> pa.RecordBatch:
    """Return records as columns. `topic`: of all of them; None where they may be of several."""
    times_ms = pa.array([time for _, time in map(Message.timestamp, messages)], pa.int64())
    columns = [
        pa.repeat(topic, len(messages))
        if topic is not None
        else pa.array(list(map(Message.topic, messages)), pa.string()),
        pa.array(list(map(Message.partition, messages)), pa.int32()),
        pa.array(list(map(Message.offset, messages)), pa.int64()),
        times_ms.cast(pa.timestamp("ms", "UTC")).cast(FETCHED.field("timestamp").type),
        pa.array(list(map(Message.key, messages)), pa.binary()),
        pa.array(list(map(Message.value, messages)), pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=FETCHED)


def _join(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Return one batch, in which the records of a partition are together."""
    joined = pa.concat_batches(batches)
    if all(_is_constant(joined.column(name)) for name in ("partition", "topic")):
        return joined
    by_shard = [("topic", "ascending"), ("partition", "ascending"), ("offset", "ascending")]
    return joined.take(pc.sort_indices(joined, sort_keys=by_shard))
