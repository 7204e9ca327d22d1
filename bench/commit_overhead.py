"""What the exactly-once protocol adds to a small batch.

    python -m bench.commit_overhead

Batches of a few records, one after the other, in a session that is warm, on local disk: how long
steps 1 and 3 to 6 take against step 2, and the batch against a Spark job of as many tasks that does
nothing. Before that a few such batches without Spark, tasks in this process, over a storage that
counts its calls.
"""

import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from statistics import median

from pyspark.sql import SparkSession

from ashore.jobs.jars import jar_paths
from ashore.log.plan_batch import BatchPlan
from ashore.log.positions import StreamShard
from ashore.log.progress import BatchLanded, Quiet
from ashore.queries.spark.sql.assembly import SparkJob, assembled
from ashore.storage.base import Storage
from ashore.topics.loop.assembly import JobAssembly
from ashore.topics.loop.job import load_job_file
from ashore.topics.loop.slice_loop import SliceLoop
from ashore.topics.loop.splits import plan_splits
from ashore.topics.loop.worker import Tick
from ashore.topics.read.reading import KafkaAddress
from ashore.topics.run.spark.session import start_session
from ashore.topics.write.batch import BatchOrder, TaskResult
from ashore.topics.write.write_task import write_task
from ashore_lab.services.kafka import Kafka
from ashore_lab.services.producer import create_topics
from ashore_lab.testing import FaultyStorage
from bench.peers.workload import PARTITIONS, SMALL, Sender, make_records
from bench.table import Row

TOPIC = "records"
RECORDS = 50  # a partition and batch
WARM, BATCHES = 5, 15
MASTER = "local[2]"


class Steps(Quiet):
    """A progress that notes when each step begins."""

    def __init__(self) -> None:
        self.began_s: dict[str, float] = {}
        self.files = 0

    def step(self, _slice_name: str, step: str) -> None:
        self.began_s[step] = time.perf_counter()

    def landed(self, _slice_name: str, batch: BatchLanded) -> None:
        self.files = batch.files

    def warn(self, slice_name: str, message: str) -> None:
        print(f"trouble: {slice_name}: {message}", file=sys.stderr)


class TasksHere:
    """A BatchRunner without Spark: the tasks of a batch one after the other in this process."""

    def __init__(self, kafka: KafkaAddress, storage: Storage) -> None:
        self._kafka = kafka
        self._storage = storage
        self.tasks = 0

    def run(self, order: BatchOrder, plan: BatchPlan) -> list[TaskResult]:
        splits = plan_splits(plan, dict(order.tables))
        self.tasks = len(splits)
        results = []
        for number, split in enumerate(splits):
            ranges = {StreamShard(each.key.stream, each.key.shard): each.offsets for each in split}
            result = write_task(order, self._storage, number, self._kafka.read(ranges))
            results.append(result.having_read(split))
        return results

    def probe(self, files: Mapping[str, bytes]) -> None:
        for path, content in files.items():
            self._storage.create(path, content)

    def cancel(self) -> None:
        """Nothing is under way elsewhere."""


def write_job(folder: Path, servers: str) -> Path:
    job = {
        "job": "overhead",
        "lake": f"file://{folder}/lake",
        "source": {
            "kafka": {"bootstrap_servers": servers},
            "first_start": {"default": "earliest"},
        },
        "tables": [{"topic": TOPIC, "table": "bench.records", "schema": SMALL.ddl}],
        "spark": {"master": MASTER},
    }
    path = folder / "overhead.yaml"
    path.write_text(json.dumps(job), "utf-8")
    return path


def produce(servers: str) -> None:
    sender = Sender(servers, 0)
    for partition in range(PARTITIONS):
        sender.send(TOPIC, partition, list(make_records(SMALL, RECORDS)))
    sender.finish()


def land(loop: SliceLoop, servers: str) -> float:
    """Land one batch and return its seconds."""
    produce(servers)
    began_s = time.perf_counter()
    outcome = loop.tick()
    if outcome is not Tick.LANDED:
        raise RuntimeError(f"a batch was to land: {outcome}")
    return time.perf_counter() - began_s


def time_bare(spark: SparkSession, tasks: int) -> float:
    began_s = time.perf_counter()
    spark.range(0, tasks, 1, tasks).mapInArrow(lambda each: each, "id BIGINT").collect()
    return time.perf_counter() - began_s


def count_calls(job: SparkJob, servers: str) -> tuple[Counter[str], int, int]:
    """Return the storage calls of a steady batch, its files and its tasks."""
    around, steps = job.assembly.environment, Steps()
    counted = FaultyStorage(around.storage)
    runner = TasksHere(KafkaAddress(servers, {}), counted)
    environment = replace(around, storage=counted, progress=steps)
    loop = JobAssembly(job.assembly.job, environment).slice(runner, job.cores)
    for _ in range(2):
        land(loop, servers)
    before = len(counted.calls)
    land(loop, servers)
    calls = Counter(each.kind for each in counted.calls[before:])
    loop.close()
    return calls, steps.files, runner.tasks


def measure(job: SparkJob, spark: SparkSession, steps: Steps, servers: str) -> list[Row]:
    calls, files, tasks = count_calls(job, servers)
    loop = job.slice()
    ours: list[float] = []
    writing: list[float] = []
    bare: list[float] = []
    for number in range(WARM + BATCHES):
        batch_s, bare_s = land(loop, servers), time_bare(spark, tasks)
        if number >= WARM:
            ours.append(batch_s)
            bare.append(bare_s)
            writing.append(steps.began_s["prepare"] - steps.began_s["write"])
    loop.close()
    around = median(all_s - write_s for all_s, write_s in zip(ours, writing, strict=True))
    print(f"  batch of {RECORDS * PARTITIONS} records: {tasks} tasks, {files} files")
    print(f"  the whole batch      {median(ours) * 1000:7.1f} ms")
    print(f"  step 2               {median(writing) * 1000:7.1f} ms")
    print(f"  steps 1 and 3 to 6   {around * 1000:7.1f} ms")
    print(f"  bare Spark job       {median(bare) * 1000:7.1f} ms")
    print(f"  storage calls        {dict(sorted(calls.items()))}")
    return [
        Row("small batch, steps 1 and 3 to 6 v. step 2", around / median(writing)),
        Row("small batch v. bare Spark job of as many tasks", median(ours) / median(bare)),
        Row("storage calls a batch", calls.total(), "calls"),
        Row("storage calls a file", calls.total() / files, "calls"),
    ]


def main() -> list[Row]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print("starting a broker and Spark ...", file=sys.stderr)
        with Kafka(folder / "kafka") as kafka:
            servers = kafka.bootstrap_servers
            create_topics(servers, {TOPIC: PARTITIONS})
            job = load_job_file(write_job(folder, servers))
            spark = start_session("overhead", MASTER, {}, jar_paths("spark-kafka"))
            steps = Steps()
            try:
                with assembled(job, spark, steps) as found:
                    return measure(found, spark, steps, servers)
            finally:
                spark.stop()


if __name__ == "__main__":
    for row in main():
        print(row)
