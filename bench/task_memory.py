"""How the memory of a task grows with its batch: N records against 16 N.

    python -m bench.task_memory

Each figure is the highest resident set of a fresh process that reads a topic partition and writes
its records on local disk, as an executor's Python worker does.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

import pyarrow as pa

from ashore.topics.read.reading import KafkaAddress
from ashore.topics.write.write_task import write_task
from ashore_lab.services.kafka import Kafka
from ashore_lab.services.producer import create_topics
from bench.table import Row
from bench.tasks import make_order, ranges_of

TIMES = 16
COUNTS = {"small": 524_288, "large": 65_536}  # 64 MB of values: a task's buffers are full
ROUNDS = 3
AT_MOST = 1.2
EXECUTOR_ENV = "spark.executorEnv."


def fill(servers: str, shape_name: str, count: int) -> None:
    from bench.peers.workload import SHAPES, Sender, make_records  # noqa: PLC0415 - not in a task

    create_topics(servers, {shape_name: 1})
    sender, held = Sender(servers, 50), list[bytes]()
    for record in make_records(SHAPES[shape_name], count):
        held.append(record)
        if len(held) == 10_000:
            sender.send(shape_name, 0, held)
            held = []
    sender.send(shape_name, 0, held)
    sender.finish()


def environment() -> dict[str, str]:
    """Return the environment of an executor's Python worker."""
    from ashore.topics.run.spark.session import DEFAULTS  # noqa: PLC0415 - not in a task

    ours = {name: value for name, value in DEFAULTS.items() if name.startswith(EXECUTOR_ENV)}
    return {**os.environ, **{name.removeprefix(EXECUTOR_ENV): ours[name] for name in ours}}


def ddl_of(shape_name: str) -> str:
    from bench.peers.workload import SHAPES  # noqa: PLC0415 - not in a task

    return SHAPES[shape_name].ddl


def run_task(servers: str, topic: str, ddl: str, count: int, lake: str) -> None:
    """Be the task: land `count` records and print the highest resident set in bytes."""
    pa.set_cpu_count(1)
    order = make_order(Path(lake), topic, ddl, {0: count})
    result = write_task(
        order, order.lake.open(), 0, KafkaAddress(servers, {}).read(ranges_of(order))
    )
    status = Path("/proc/self/status").read_text("utf-8")
    (line,) = (each for each in status.splitlines() if each.startswith("VmHWM:"))
    landed = sum(read.landed for read in result.reads)
    print(json.dumps({"landed": landed, "peak_bytes": int(line.split()[1]) * 1024}))


def measure(servers: str, topic: str, count: int, folder: Path) -> int:
    """Return the highest resident set of a process that lands `count` records."""
    with tempfile.TemporaryDirectory(dir=folder) as lake:
        said = subprocess.run(
            [
                sys.executable,
                "-m",
                "bench.task_memory",
                servers,
                topic,
                ddl_of(topic),
                str(count),
                lake,
            ],
            stdout=subprocess.PIPE,
            env=environment(),
            check=True,
        )
    found: dict[str, int] = json.loads(said.stdout)
    if found["landed"] != count:
        raise RuntimeError(f"{found['landed']} of {count} records landed")
    return found["peak_bytes"]


def main() -> list[Row]:
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print("starting a broker ...", file=sys.stderr)
        with Kafka(folder / "kafka") as kafka:
            for topic, count in COUNTS.items():
                fill(kafka.bootstrap_servers, topic, TIMES * count)
                peaks: dict[int, list[int]] = {count: [], TIMES * count: []}
                for _ in range(ROUNDS):
                    for each, found in peaks.items():
                        found.append(measure(kafka.bootstrap_servers, topic, each, folder))
                for each, found in peaks.items():
                    shown = ", ".join(f"{peak / 1e6:.0f}" for peak in found)
                    print(f"  {topic:5} {each:9,} records: peak {shown} MB")
                ratio = median(peaks[TIMES * count]) / median(peaks[count])
                question = f"memory of a task, {TIMES} x {count:,} {topic} records v. {count:,}"
                rows.append(Row(question, ratio, at_most=AT_MOST))
    return rows


if __name__ == "__main__":
    if sys.argv[1:]:
        servers_, topic_, ddl_, count_, lake_ = sys.argv[1:]
        run_task(servers_, topic_, ddl_, int(count_), lake_)
    else:
        for row in main():
            print(row)
