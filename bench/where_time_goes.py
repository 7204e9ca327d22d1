"""Where the CPU time of a task goes, stage by stage.

    python -m bench.where_time_goes

The same records of one topic partition: fetched by the client and dropped; fetched into columns;
decoded from memory; written from memory; landed, which is all of it. What is written has the
columns of the records only, but in the last stage, which adds where each record came from. The
client and the decoder are the limit: a reader or a parser that costs nothing would leave the rest.
"""

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median

import pyarrow as pa

from ashore.tables.ddl import parse_ddl
from ashore.topics.decode.registry import make_decoder
from ashore.topics.read.client import Cluster
from ashore.topics.read.reading import KafkaAddress, read_ranges
from ashore.topics.write.batch import BatchOrder
from ashore.topics.write.write_task import write_task
from ashore_lab.services.kafka import Kafka
from ashore_lab.services.producer import create_topics
from bench.peers.workload import SHAPES, Sender, Shape, make_records
from bench.table import Row
from bench.tasks import Stopwatch, fetched_batches, make_order, numbered, ranges_of

COUNTS = {
    "small": 500_000,
    "large": 100_000,
    "columns": 10_000,
    "nested": 60_000,
    "directories": 200_000,
    "huge": 10_000,
    "zstd": 200_000,
}
ROUNDS = 5
WHOLE = "landed"


class Stages:
    """The stages of one shape, each by itself."""

    def __init__(self, shape: Shape, lakes: Iterator[Path], servers: str) -> None:
        self.count = COUNTS[shape.name]
        self._shape = shape
        self._lakes = lakes
        self._servers = servers
        records = list(make_records(shape, self.count))
        self._batches = fetched_batches(shape.name, records)
        create_topics(servers, {shape.name: 1})
        sender = Sender(servers, 50, shape.compression)
        sender.send(shape.name, 0, records)
        sender.finish()

    def by_name(self) -> dict[str, Callable[[], float]]:
        """Return what measures each stage, in CPU seconds."""
        return {
            "fetched by the client": self._fetch,
            "fetched into columns": self._read,
            "decoded from memory": self._decode,
            "written from memory": lambda: self._write(self._batches, provenance=False),
            WHOLE: lambda: self._write(None, provenance=False),
            "landed with provenance": lambda: self._write(None, provenance=True),
        }

    def _fetch(self) -> float:
        ranges = ranges_of(self._order(provenance=False))
        with Stopwatch() as watch:
            found = sum(
                batch.num_rows for batch in read_ranges(Cluster.of(self._servers, {}, 30.0), ranges)
            )
        return self._checked(found, watch)

    def _read(self) -> float:
        ranges = ranges_of(self._order(provenance=False))
        with Stopwatch() as watch:
            found = sum(each.num_rows for each in KafkaAddress(self._servers, {}).read(ranges))
        return self._checked(found, watch)

    def _decode(self) -> float:
        decoder = make_decoder("json", parse_ddl(self._shape.ddl), "auto")
        with Stopwatch() as watch:
            found = sum(
                decoder.decode(each.column("value")).table.num_rows for each in self._batches
            )
        return self._checked(found, watch)

    def _write(self, given: list[pa.RecordBatch] | None, *, provenance: bool) -> float:
        order = self._order(provenance=provenance)
        with Stopwatch() as watch:
            batches = KafkaAddress(self._servers, {}).read(ranges_of(order))
            result = write_task(order, order.lake.open(), 0, batches if given is None else given)
        shutil.rmtree(order.lake.uri.removeprefix("file://"))
        return self._checked(sum(file.rows for file in result.files), watch)

    def _order(self, *, provenance: bool) -> BatchOrder:
        name, ddl = self._shape.name, self._shape.ddl
        order = make_order(next(self._lakes), name, ddl, {0: self.count})
        ((stream, spec),) = order.tables
        by = self._shape.partition_by or spec.output.partition_by
        output = replace(spec.output, partition_by=by)
        spec = replace(spec, output=output, provenance=provenance)
        return replace(order, tables=((stream, spec),))

    def _checked(self, found: int, watch: Stopwatch) -> float:
        if found != self.count:
            raise RuntimeError(f"{found} records instead of {self.count}")
        return watch.cpu_s


def measure(stages: Stages) -> dict[str, float]:
    """Return the median CPU microseconds a record of each stage; a first round warms up."""
    found: dict[str, list[float]] = {name: [] for name in stages.by_name()}
    for round_ in range(ROUNDS + 1):
        for name, run in stages.by_name().items():
            cpu_s = run()
            if round_:
                found[name].append(1e6 * cpu_s / stages.count)
    return {name: median(each) for name, each in found.items()}


def main() -> list[Row]:
    pa.set_cpu_count(1)  # as in a task
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        print("starting a broker ...", file=sys.stderr)
        with Kafka(Path(folder) / "kafka") as kafka:
            for shape in SHAPES.values():
                stages = Stages(shape, numbered(Path(folder)), kafka.bootstrap_servers)
                found = measure(stages)
                for name, cpu_us in found.items():
                    print(f"  {shape.name:11} {name:24} {cpu_us:6.2f} us CPU a record")
                    if name != WHOLE:
                        question = f"{shape.name} records {name}, CPU v. {WHOLE}"
                        rows.append(Row(question, cpu_us / found[WHOLE]))
    return rows


if __name__ == "__main__":
    for row in main():
        print(row)
