"""What one bad record among 65,536 costs a task, in CPU time.

    python -m bench.bad_record

The same records three times: all good, one of 65,536 cut short, one of 65,536 with text where a
number belongs. Written from memory, where the share of the bad record is largest, and as a whole
task that reads Kafka. Rounds are interleaved; figures are medians.
"""

import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from statistics import median

import pyarrow as pa

from ashore.topics.read.reading import KafkaAddress
from ashore.topics.write.write_task import write_task
from ashore_lab.services.kafka import Kafka
from ashore_lab.services.producer import create_topics
from bench.peers.workload import SHAPES, Sender, Shape, make_records
from bench.table import Row
from bench.tasks import Stopwatch, fetched_batches, make_order, numbered, ranges_of, with_bad

EVERY = 65_536
COUNTS = {"small": 2 * EVERY, "large": EVERY}
ROUNDS = 7
AT_MOST = 1.1
BAD = {"cut short": b'{"id":17,"user":"us', "wrong type": b'{"id":17,"ts":"yesterday"}'}

Batches = Iterable[pa.RecordBatch]


class Trial:
    """One shape: its records with and without bad ones, in memory and in Kafka."""

    def __init__(self, shape: Shape, lakes: Iterator[Path], servers: str) -> None:
        self.shape = shape
        self._lakes = lakes
        self._count = COUNTS[shape.name]
        self._kafka = KafkaAddress(servers, {})
        good = list(make_records(shape, self._count))
        self.kinds = {"": good, **{each: with_bad(good, BAD[each], EVERY) for each in BAD}}
        self._batches = {
            kind: fetched_batches(self._topic(kind), records)
            for kind, records in self.kinds.items()
        }
        create_topics(servers, {self._topic(kind): 1 for kind in self.kinds})
        for kind, records in self.kinds.items():
            sender = Sender(servers, 50)
            sender.send(self._topic(kind), 0, records)
            sender.finish()

    def write(self, kind: str) -> float:
        """Write the records from memory; return the CPU seconds."""
        return self._measure(kind, self._batches[kind])

    def land(self, kind: str) -> float:
        """Read the records from Kafka and write them; return the CPU seconds."""
        return self._measure(kind, None)

    def _measure(self, kind: str, batches: Batches | None) -> float:
        lake = next(self._lakes)
        order = make_order(lake, self._topic(kind), self.shape.ddl, {0: self._count})
        with Stopwatch() as watch:
            given = self._kafka.read(ranges_of(order)) if batches is None else batches
            result = write_task(order, order.lake.open(), 0, given)
        (read,) = result.reads
        expected = self._count // EVERY if kind else 0
        if (read.fetched, read.dead) != (self._count, expected):
            raise RuntimeError(f"{read.fetched} fetched, {read.dead} dead: not what was given")
        shutil.rmtree(lake)
        return watch.cpu_s

    def _topic(self, kind: str) -> str:
        return f"{self.shape.name}-{kind or 'good'}".replace(" ", "-")


def measure(trial: Trial) -> dict[str, dict[str, list[float]]]:
    """Return CPU seconds by step and kind, one a round; a first round warms up."""
    steps = {"written": trial.write, "read and written": trial.land}
    found: dict[str, dict[str, list[float]]] = {
        step: {kind: [] for kind in trial.kinds} for step in steps
    }
    for round_ in range(ROUNDS + 1):
        kinds = list(trial.kinds)[:: 1 if round_ % 2 else -1]
        for step, run in steps.items():
            for kind in kinds:
                cpu_s = run(kind)
                if round_:
                    found[step][kind].append(cpu_s)
    return found


def compare(shape: str, found: Mapping[str, Mapping[str, list[float]]]) -> Iterator[Row]:
    """Yield one row a step and kind of bad record."""
    for step, by_kind in found.items():
        for kind, seconds in by_kind.items():
            spread = f"{min(seconds):.3f} to {max(seconds):.3f}"
            shown = f"{median(seconds):.3f} s CPU ({spread})"
            print(f"  {shape:5} {step:16} {kind or 'all good':10} {shown}")
            if kind:
                question = f"{shape} records {step}, 1 of {EVERY:,} {kind}, CPU v. all good"
                ratio = median(seconds) / median(by_kind[""])
                yield Row(question, ratio, at_most=AT_MOST)


def main() -> list[Row]:
    pa.set_cpu_count(1)  # as in a task
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print("starting a broker ...", file=sys.stderr)
        with Kafka(folder / "kafka") as kafka:
            for shape in SHAPES.values():
                trial = Trial(shape, numbered(folder), kafka.bootstrap_servers)
                rows += compare(shape.name, measure(trial))
    return rows


if __name__ == "__main__":
    for row in main():
        print(row)
