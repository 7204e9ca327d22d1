"""Tasks as executors run them, for the benchmarks that measure one.

What it is: orders for a topic on local disk, records with some that are bad, CPU time.
What it promises: an order is what a job with hourly partitions and all defaults gives its tasks.
What it must not know: Spark.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Self

import pyarrow as pa

from ashore.log.names import SliceName
from ashore.log.positions import BatchTime, OffsetRange, ShardKey, ShardRange, StreamShard
from ashore.storage.open import LakeAddress
from ashore.topics.read.record_columns import FETCHED
from ashore.topics.write.batch import BatchOrder, LandingSpec, LateRule, OutputSpec

HOUR_MS = 3_600_000
FIRST_TS_MS = 1_795_000_000_000  # of the records of bench.peers.workload
BATCH_BYTES = 16 << 20  # as KafkaAddress.read gives them out
BATCH_RECORDS = 65_536


def make_order(lake: Path, topic: str, ddl: str, ends: Mapping[int, int]) -> BatchOrder:
    """Return the order to land the partitions of a topic up to their ends."""
    output = OutputSpec(
        table="bench.records",
        schema=ddl,
        partition_by=("date", "hour"),
        timezone="UTC",
        event_column="ts",
        event_unit="ms",
        format="parquet",
        roll_bytes=256_000_000,
    )
    late = LateRule(after_ms=2 * HOUR_MS, policy="rehome", future_max_ms=HOUR_MS)
    spec = LandingSpec(output, "json", late, on_invalid="dead_letter", provenance=True)
    ranges = tuple(
        ShardRange(ShardKey("kafka", topic, 1, str(partition)), OffsetRange(0, end))
        for partition, end in ends.items()
    )
    return BatchOrder(
        lake=LakeAddress(f"file://{lake}"),
        name=SliceName("bench", "main"),
        epoch=1,
        batch=0,
        time=BatchTime(FIRST_TS_MS + HOUR_MS),
        ranges=ranges,
        tables=((topic, spec),),
    )


def ranges_of(order: BatchOrder) -> dict[StreamShard, OffsetRange]:
    """Return what an order reads, as a source wants it."""
    return {StreamShard(each.key.stream, each.key.shard): each.offsets for each in order.ranges}


def with_bad(records: Sequence[bytes], bad: bytes, every: int) -> list[bytes]:
    """Return the records, one of `every` replaced by `bad`; each time at another place."""
    found = list(records)
    for turn, start in enumerate(range(0, len(found), every)):
        size = min(every, len(found) - start)
        found[start + (turn * 7_919 + size // 3) % size] = bad
    return found


def fetched_batches(topic: str, records: Sequence[bytes]) -> list[pa.RecordBatch]:
    """Return the records as a task gets them from Kafka: one partition, bounded batches."""
    batches, start, size = [], 0, 0
    for at, record in enumerate(records):
        size += len(record)
        is_full = at + 1 - start == BATCH_RECORDS or size >= BATCH_BYTES
        if is_full or at + 1 == len(records):
            batches.append(_to_batch(topic, start, records[start : at + 1]))
            start, size = at + 1, 0
    return batches


def _to_batch(topic: str, first: int, values: Sequence[bytes]) -> pa.RecordBatch:
    count = len(values)
    columns = {
        "topic": pa.repeat(topic, count),
        "partition": pa.repeat(pa.scalar(0, pa.int32()), count),
        "offset": pa.array(range(first, first + count), pa.int64()),
        "timestamp": pa.repeat(FIRST_TS_MS * 1000, count),
        "key": pa.nulls(count, pa.binary()),
        "value": pa.array(values, pa.binary()),
    }
    arrays = [columns[field.name].cast(field.type) for field in FETCHED]
    return pa.RecordBatch.from_arrays(arrays, schema=FETCHED)


class Stopwatch:
    """A context manager that measures the CPU time of this process, all threads."""

    cpu_s = 0.0

    def __enter__(self) -> Self:
        self._began_s = time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.cpu_s = time.process_time() - self._began_s


def numbered(folder: Path) -> Iterator[Path]:
    """Yield names of new lakes below a folder."""
    number = 0
    while True:
        yield folder / f"lake-{number:04d}"
        number += 1
