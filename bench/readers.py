"""What reading a record costs: the native reader against librdkafka, both into columns.

    python -m bench.readers

Each figure is CPU time of this process, all its threads, for the records of bench.peers in a topic
of eight partitions, lz4, on a broker of this machine; best of seven, turn by turn.
"""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from ashore.protocol.positions import OffsetRange
from ashore.services.kafka import Kafka
from ashore.sources.base import StreamShard
from ashore.sources.client import Cluster
from ashore.sources.kafka import KafkaSource
from ashore.sources.raw import choose
from ashore.sources.reading import ANY, LIBRDKAFKA, read_ranges
from bench.peers.workload import PARTITIONS, SHAPES, Shape, fill_topic
from bench.table import Row
from bench.tasks import Stopwatch

RECORDS = {"small": 1_600_000, "large": 200_000}
ROUNDS = 7
READERS = {"native": ANY, "librdkafka": LIBRDKAFKA}


def measure(servers: str, shape: Shape, count: int) -> Iterator[Row]:
    size = fill_topic(servers, shape.name, shape, count)
    cluster = Cluster.of(servers, {}, 30.0)
    if not choose(cluster).is_raw:
        raise RuntimeError(f"the native reader does not read: {choose(cluster).why_not}")
    source = KafkaSource(servers, {})
    there = source.read_offsets([StreamShard(shape.name, str(each)) for each in range(PARTITIONS)])
    source.close()
    ranges = {shard: OffsetRange(each.earliest, each.end) for shard, each in there.items()}
    best = dict.fromkeys(READERS, float("inf"))
    quickest = dict.fromkeys(READERS, float("inf"))
    for _ in range(ROUNDS):
        for name, use in READERS.items():
            began_s = time.monotonic()
            with Stopwatch() as watch:
                batches: Iterator[pa.RecordBatch] = read_ranges(cluster, ranges, use)
                read = sum(batch.num_rows for batch in batches)
            if read != count:
                raise RuntimeError(f"{name} read {read} records of {count}")
            best[name] = min(best[name], watch.cpu_s)
            quickest[name] = min(quickest[name], time.monotonic() - began_s)
    print(f"{shape.name}: {count} records of {size / count:.0f} bytes")
    for name in READERS:
        cpu_ns, wall_ns = (1e9 * each[name] / count for each in (best, quickest))
        print(f"  {name:10} {cpu_ns:7.0f} ns of CPU time, {wall_ns:7.0f} ns, a record", flush=True)
        yield Row(f"{shape.name} records, {name}: CPU time per record", cpu_ns, "ns")
    ratio = best["librdkafka"] / best["native"]
    yield Row(f"{shape.name} records: librdkafka's CPU time, native = 1", ratio)


def main() -> list[Row]:
    """Read each shape by each reader."""
    with tempfile.TemporaryDirectory() as folder, Kafka(Path(folder)) as kafka:
        return [
            row
            for name, count in RECORDS.items()
            for row in measure(kafka.bootstrap_servers, SHAPES[name], count)
        ]


if __name__ == "__main__":
    main()
