"""Where the time of a small batch goes, and of a run with few records: what they cost beside these.

    python -m bench.waterfall

A steady stream of 5,000 small records a second at an interval of one second, batch for batch; and
runs of `--available-now` over 400 records, each on a topic of its own. Both in a session that is
warm, on a real broker and a local disk. Medians; each line begins where the one before it ends.
"""

import json
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import pyarrow as pa
from pyspark.sql import SparkSession

from ashore.jobs.jars import jar_paths
from ashore.log.positions import ShardRange
from ashore.log.progress import Quiet, Step
from ashore.queries.spark.sql.assembly import SparkJob, assembled
from ashore.topics.loop.assembly import Environment, JobAssembly
from ashore.topics.loop.job import load_job_file
from ashore.topics.loop.worker import Tick
from ashore.topics.read.reading import KafkaAddress, ReadReport
from ashore.topics.run.spark import runner as runner_module
from ashore.topics.run.spark.session import LIGHT_JVM, start_session
from ashore.topics.run.spark.task import Report, read_splits
from ashore.topics.write.batch import BatchOrder, TaskResult
from ashore.topics.write.write_task import write_task
from ashore_lab.services.kafka import Kafka
from ashore_lab.services.producer import create_topics
from bench.marks import Marks, Span, watched
from bench.peers.workload import PARTITIONS, SMALL, Sender, make_records
from bench.table import Row

MASTER = "local[2]"
STREAMED, FEW = 625, 50  # records a partition
WARM, BATCHES = 10, 20
WARM_RUNS, RUNS = 4, 9
PAUSE_S = 0.2  # between batches, as in a stream that waits for its interval

Splits = Sequence[tuple[ShardRange, ...]]


class Steps(Quiet):
    """A progress that marks when each step begins."""

    def __init__(self, marks: Marks) -> None:
        self._marks = marks

    def step(self, slice_name: str, step: Step) -> None:
        """See Progress."""
        now_s = time.perf_counter()
        self._marks.add(f"{slice_name} {step}", now_s, now_s)


def land_watched(
    order: BatchOrder, kafka: KafkaAddress, splits: Splits, numbers: Iterable[int]
) -> Iterator[Report]:
    """Do as `land_splits` does, and leave what was marked beside the lake."""
    marks, began_s = Marks(), time.perf_counter()
    mine = [splits[number] for number in numbers]
    seen = ReadReport()
    records = _watched_reads(read_splits(kafka, mine, order, seen), marks)
    storage = watched(order.lake.open(), marks, "storage")
    task = min(splits.index(each) for each in mine)
    result: TaskResult = write_task(order, storage, task, records)
    ranges = [each for split in mine for each in split]
    report = Report(False, result.having_read(ranges, seen.counts, seen.by_id).to_bytes())
    marks.add("task", began_s, time.perf_counter())
    note = Path(f"{order.lake.uri.removeprefix('file://')}-{order.batch}-{task}.marks")
    note.write_text(json.dumps(marks.take()), "utf-8")
    yield report


def _watched_reads(records: Iterator[pa.RecordBatch], marks: Marks) -> Iterator[pa.RecordBatch]:
    while (batch := marks.call("read", lambda: next(records, None))) is not None:
        yield batch


@dataclass(frozen=True, slots=True)
class Site:
    """What the jobs of this benchmark share."""

    folder: Path
    servers: str
    spark: SparkSession

    def produce(self, topic: str, count: int) -> None:
        """Add records to each partition of a topic."""
        sender = Sender(self.servers, 0)
        for partition in range(PARTITIONS):
            sender.send(topic, partition, list(make_records(SMALL, count)))
        sender.finish()

    def write_job(self, topic: str) -> Path:
        """Write the job that lands a topic."""
        job = {
            "job": topic,
            "lake": f"file://{self.folder}/{topic}",
            "source": {
                "kafka": {"bootstrap_servers": self.servers},
                "first_start": {"default": "earliest"},
            },
            "tables": [{"topic": topic, "table": "bench.records", "schema": SMALL.ddl}],
            "spark": {"master": MASTER},
        }
        path = self.folder / f"{topic}.yaml"
        path.write_text(json.dumps(job), "utf-8")
        return path

    def task_marks(self, topic: str) -> list[list[Span]]:
        """Take what the tasks of the last batch have marked, each by itself."""
        notes = list(self.folder.glob(f"{topic}-*.marks"))
        found = [[Span(*each) for each in json.loads(note.read_text())] for note in notes]
        for note in notes:
            note.unlink()
        return found


def watch(job: SparkJob, marks: Marks) -> JobAssembly:
    """Return the job with its seams watched."""
    around: Environment = job.assembly.environment
    environment = replace(
        around,
        storage=watched(around.storage, marks, "storage"),
        source=watched(around.source, marks, "source"),
        progress=Steps(marks),
    )
    return JobAssembly(job.assembly.job, environment)


# --- one batch of a stream -----------------------------------------------------------------------


def cut_batch(began_s: float, ended_s: float, spans: list[Span], tasks: list[list[Span]]) -> dict:
    """Return what each part of a batch took, in ms."""
    (run,) = (each for each in spans if each.name == "runner run")
    wholes = [each for task in tasks for each in task if each.name == "task"]
    first_s, last_s = min(each.begin_s for each in wholes), max(each.end_s for each in wholes)
    slowest = max(tasks, key=lambda task: task[-1].end_s)
    reading_s = sum(each.seconds for each in slowest if each.name == "read")
    storage_s = sum(each.seconds for each in slowest if each.name.startswith("storage"))
    whole_s = slowest[-1].seconds
    created = min(
        each.begin_s for each in spans if each.name == "storage create" and each.begin_s > run.end_s
    )
    move = next(each for each in spans if each.name == "main move")
    moved = max(each.end_s for each in spans if each.name == "storage move")
    parts = {
        "plan: topics, offsets": run.begin_s - began_s,
        "Spark, to the start of a task": first_s - run.begin_s,
        "task: reading Kafka": reading_s,
        "task: decode, sort, encode": whole_s - reading_s - storage_s,
        "task: file written and synced, its directory synced": storage_s,
        "Spark, from the end of a task": run.end_s - last_s,
        "results put together": created - run.end_s,
        "prepare entry, synced; look for its archive": move.begin_s - created,
        "move: readable now": moved - move.begin_s,
        "directories synced, and the rest": ended_s - moved,
    }
    return {name: 1000 * seconds for name, seconds in parts.items()}


def stream(site: Site) -> Iterator[dict[str, float]]:
    """Yield the parts of each batch."""
    topic, marks = "stream", Marks()
    create_topics(site.servers, {topic: PARTITIONS})
    with assembled(load_job_file(site.write_job(topic)), site.spark, Quiet()) as job:
        runner = watched(job.runner, marks, "runner")
        loop = watch(job, marks).slice(runner, job.cores)
        loop.open()
        for number in range(WARM + BATCHES):
            site.produce(topic, STREAMED)
            time.sleep(PAUSE_S)
            marks.take()
            began_s = time.perf_counter()
            if loop.tick() is not Tick.LANDED:
                raise RuntimeError("a batch was to land")
            ended_s = time.perf_counter()
            tasks = site.task_marks(topic)
            if number >= WARM:
                yield cut_batch(began_s, ended_s, marks.take(), tasks)
        loop.close()


# --- one run -------------------------------------------------------------------------------------


def cut_run(began_s: float, ended_s: float, spans: list[Span]) -> dict[str, float]:
    """Return what each part of a run took, in ms."""

    def first(name: str, after_s: float = 0.0) -> Span:
        return min(
            (each for each in spans if each.name == name and each.begin_s >= after_s),
            key=lambda each: each.begin_s,
        )

    opened, probe, plan = first("main open"), first("runner probe"), first("main plan")
    run = first("runner run")
    last = max(each.begin_s for each in spans if each.name == "storage create")
    bounds = {
        "put together": opened.begin_s,
        "open: log read, `open` entry, owner of the table": probe.begin_s,
        "probe: a task writes a file, the driver moves and reads it": plan.begin_s,
        "plan: topics, tables, `join` entry, offsets": run.begin_s,
        "the batch's Spark job": run.end_s,
        "prepare, moves, syncs": last,
        "`commit` entry, end": ended_s,
    }
    found, before_s = {}, began_s
    for name, end_s in bounds.items():
        found[name], before_s = 1000 * (end_s - before_s), end_s
    return found


def run_all(site: Site) -> Iterator[dict[str, float]]:
    """Yield the parts of each run."""
    for number in range(WARM_RUNS + RUNS):
        topic, marks = f"run-{number}", Marks()
        create_topics(site.servers, {topic: PARTITIONS})
        site.produce(topic, FEW)
        job_file = site.write_job(topic)
        began_s = time.perf_counter()
        with assembled(load_job_file(job_file), site.spark, Quiet()) as job:
            assembly, runner = watch(job, marks), watched(job.runner, marks, "runner")
            loop = assembly.loop([assembly.slice(runner, job.cores)], until_drained=True)
            loop.run(probe=runner)
        ended_s = time.perf_counter()
        site.task_marks(topic)
        if number >= WARM_RUNS:
            yield cut_run(began_s, ended_s, marks.take())


def show(what: str, cuts: Iterable[dict[str, float]]) -> Iterator[Row]:
    """Print a waterfall; yield its parts and their sum."""
    found = list(cuts)
    print(f"  {what}, {len(found)} times, median ms")
    past_ms = 0.0
    for name in found[0]:
        took_ms = median(each[name] for each in found)
        print(f"    {past_ms:7.1f} {'':{round(past_ms / 4)}}|{took_ms:.1f} {name}")
        past_ms += took_ms
        yield Row(f"{what}: {name}", took_ms, "ms")
    whole_ms = median(sum(each.values()) for each in found)
    print(f"    {whole_ms:7.1f} in all")
    yield Row(f"{what}: in all", whole_ms, "ms")


def main() -> list[Row]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print("starting a broker and Spark ...", file=sys.stderr)
        with Kafka(folder / "kafka") as kafka:
            spark = start_session("waterfall", MASTER, LIGHT_JVM, jar_paths("spark-kafka"))
            landing, runner_module.land_splits = runner_module.land_splits, land_watched
            try:
                site = Site(folder, kafka.bootstrap_servers, spark)
                return [*show("a batch", stream(site)), *show("a run", run_all(site))]
            finally:
                runner_module.land_splits = landing
                spark.stop()


if __name__ == "__main__":
    for row in main():
        print(row)
