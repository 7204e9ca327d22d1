"""How cost grows with partitions, tables, files, entries and jobs: per piece, against the smallest.

    python -m bench.growth

Real Kafka, real NameNodes, a local disk. Tasks run in this process, so that CPU time holds all that
is Ashore's; Spark's own part grows with tasks only, and there are as many tasks every time. A ratio
of 1 means that a piece costs as much as before, of less that pieces share.
"""

import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

from ashore.base.clock import SystemClock
from ashore.proof.status.status import read_status
from ashore.storage import LocalStorage, Storage, open_storage
from ashore.tables.catalog import NoCatalog
from ashore.topics.loop.assembly import Environment, JobAssembly
from ashore.topics.loop.job import lake_of, load_job_file
from ashore.topics.loop.worker import Tick
from ashore.topics.open_job import open_job
from ashore.topics.read.kafka import KafkaSource
from ashore.topics.read.reading import KafkaAddress
from ashore_lab.services.hdfs import Hdfs
from ashore_lab.services.kafka import Kafka
from ashore_lab.services.producer import create_topics
from ashore_lab.testing import FaultyStorage
from bench.commit_overhead import TasksHere
from bench.commit_scale import Calls, Landing, Site
from bench.log_start import make_log, measure_starts
from bench.peers.workload import SMALL, Sender, make_records
from bench.table import Row

CLOCK = SystemClock()
PARTITIONS = (1, 4, 16, 64)
TABLES = (1, 10, 50, 200)
RECORDS = 64_000  # of a batch, however many partitions or tables share them
CORES = 2
ROUNDS = 3
HDFS_FILES = (10, 100, 1_000)
LOCAL_FILES = (10, 100, 1_000, 10_000)
ENTRIES = (1_000, 100_000)
JOBS = (1, 20, 200)


@dataclass(frozen=True, slots=True)
class Cost:
    """What one size of work cost."""

    size: int
    cpu_ms: float
    passed_ms: float
    calls: float = 0

    def over(self, first: "Cost") -> "Cost":
        """Return what this cost as multiples of what the smallest cost."""
        return Cost(
            self.size,
            self.cpu_ms / first.cpu_ms,
            self.passed_ms / first.passed_ms,
            self.calls / first.calls if first.calls else 0,
        )

    @property
    def per_piece(self) -> "Cost":
        """What one partition, table, file, entry or job costs."""
        size = self.size
        return Cost(1, self.cpu_ms / size, self.passed_ms / size, self.calls / size)


def show(what: str, unit: str, costs: Sequence[Cost]) -> None:
    """Print a table: costs, their multiples of the smallest, and the same for one piece."""
    first = costs[0]
    print(f"  {what}; then against {first.size:,} {unit}, then one of them against one")
    print(
        f"    {unit:>10} {'CPU ms':>9} {'wall ms':>9} {'calls':>8}"
        + 2 * "      CPU    wall   calls"
    )
    for each in costs:
        row = f"{each.size:10,} {each.cpu_ms:9.1f} {each.passed_ms:9.1f} {each.calls:8,.0f}"
        for times in (each.over(first), each.per_piece.over(first.per_piece)):
            row += f"  {times.cpu_ms:7.3f} {times.passed_ms:7.3f} {times.calls:7.3f}"
        print(f"    {row}", flush=True)


def measure(size: int, action: Callable[[], object], count: Callable[[], int]) -> Cost:
    """Run something once; `count` tells how many calls there were so far."""
    calls, cpu_s, began_s = count(), time.process_time(), time.perf_counter()
    action()
    passed_ms = (time.perf_counter() - began_s) * 1000
    return Cost(size, (time.process_time() - cpu_s) * 1000, passed_ms, count() - calls)


def calls_of(storage: FaultyStorage) -> int:
    return len(storage.calls)


def middle(costs: Sequence[Cost]) -> Cost:
    """Return the median of the same work done again and again."""
    return Cost(
        costs[0].size,
        median(each.cpu_ms for each in costs),
        median(each.passed_ms for each in costs),
        median(each.calls for each in costs),
    )


# ---- Kafka partitions and tables: whole batches


def write_job(folder: Path, name: str, servers: str, topics: Sequence[str]) -> Path:
    job = {
        "job": name,
        "lake": f"file://{folder}/lake",
        "source": {
            "kafka": {"bootstrap_servers": servers},
            "first_start": {"default": "earliest"},
        },
        "tables": [
            {"topic": each, "table": f"bench.{each.replace('-', '_')}", "schema": SMALL.ddl}
            for each in topics
        ],
    }
    path = folder / f"{name}.yaml"
    path.write_text(json.dumps(job), "utf-8")
    return path


def land(job_file: Path, produce: Callable[[], None], size: int) -> Cost:
    """Land batches of a job and return what one costs once directories are there."""
    job = load_job_file(job_file)
    kafka = job.source.kafka
    lake = lake_of(job)
    storage = FaultyStorage(lake.open(CLOCK))
    source = KafkaSource(kafka.bootstrap_servers, {})
    runner = TasksHere(KafkaAddress(kafka.bootstrap_servers, {}), storage)
    environment = Environment(lake, storage, source, NoCatalog(), CLOCK)
    loop = JobAssembly(job, environment).slice(runner, CORES)

    def tick() -> None:
        if loop.tick() is Tick.IDLE:
            raise RuntimeError("a batch was to land")

    costs = []
    for _ in range(ROUNDS + 1):
        produce()
        costs.append(measure(size, tick, partial(calls_of, storage)))
    loop.close()
    source.close()
    return middle(costs[1:])


def produce_to(servers: str, shards: Sequence[tuple[str, int]]) -> None:
    """Deal the records of a batch out to topic partitions."""
    sender = Sender(servers, 5)
    for topic, partition in shards:
        sender.send(topic, partition, list(make_records(SMALL, RECORDS // len(shards))))
    sender.finish()


def grow_partitions(folder: Path, servers: str) -> Iterator[Cost]:
    for size in PARTITIONS:
        topic = f"spread-{size}"
        create_topics(servers, {topic: size})
        shards = [(topic, each) for each in range(size)]
        job_file = write_job(folder, topic, servers, [topic])
        yield land(job_file, partial(produce_to, servers, shards), size)


def grow_tables(folder: Path, servers: str) -> Iterator[Cost]:
    for size in TABLES:
        topics = [f"table-{size}-{each}" for each in range(size)]
        create_topics(servers, dict.fromkeys(topics, 1))
        shards = [(topic, 0) for topic in topics]
        job_file = write_job(folder, f"tables-{size}", servers, topics)
        yield land(job_file, partial(produce_to, servers, shards), size)


# ---- files a batch, entries of a log


def commit(landing: Landing, files: int, count: Callable[[], int]) -> Cost:
    """Return what it costs to append and to move a batch of so many files."""
    costs = []
    for _ in range(ROUNDS + 1):
        body = landing.write(files)

        costs.append(measure(files, partial(landing.commit, body), count))
    return middle(costs[1:])


def grow_hdfs_files(folder: Path) -> Iterator[Cost]:
    with Hdfs(folder / "hdfs") as cluster:
        site = Site(cluster, Calls(cluster))
        for files in HDFS_FILES:
            yield commit(site.landing(f"files-{files}"), files, site.calls.total)


def grow_local_files(folder: Path) -> Iterator[Cost]:
    for files in LOCAL_FILES:
        uri = f"file://{folder}/files-{files}"
        storage = FaultyStorage(open_storage(uri))
        yield commit(Landing(storage, open_storage(uri)), files, partial(calls_of, storage))


def grow_log(folder: Path) -> Iterator[Cost]:
    for entries in ENTRIES:
        root = folder / f"log-{entries}"
        storage: Storage = LocalStorage(str(root))
        make_log(root, storage, entries, shards=1)
        counted = FaultyStorage(storage)
        start = partial(measure_starts, counted, 1)
        yield middle([measure(entries, start, partial(calls_of, counted)) for _ in range(ROUNDS)])


# ---- the status of many jobs


def read_statuses(job_files: Sequence[Path]) -> None:
    """Look at many jobs at once, in one process."""

    def look(path: Path) -> None:
        with open_job(path) as opened:
            read_status(opened)

    # A thread a job: without Kafka each waits for its deadline, and all of them together.
    with ThreadPoolExecutor(len(job_files)) as pool:
        list(pool.map(look, job_files))


def make_jobs(folder: Path, servers: str) -> list[Path]:
    """Land batches of a job, and copy its log for many others. Return all job files."""
    topic = "watched-0"
    create_topics(servers, {topic: 4})
    first = write_job(folder, topic, servers, [topic])
    land(first, partial(produce_to, servers, [(topic, each) for each in range(4)]), 1)
    logs = folder / "lake" / ".ashore"
    for number in range(1, max(JOBS)):
        shutil.copytree(logs / topic, logs / f"watched-{number}")
    return [write_job(folder, f"watched-{each}", servers, [topic]) for each in range(max(JOBS))]


def grow_jobs(job_files: Sequence[Path]) -> Iterator[Cost]:
    for size in JOBS:
        yield measure(size, partial(read_statuses, job_files[:size]), nothing)


def nothing() -> int:
    return 0


@dataclass(frozen=True, slots=True)
class Grown:
    """How a kind of cost grew with a kind of size."""

    what: str
    unit: str
    costs: Iterable[Cost]
    per_piece: bool = True  # or: all of it, where the same work is spread over more

    def rows(self) -> Iterator[Row]:
        """Print all costs; yield how the largest compares with the smallest."""
        costs = list(self.costs)
        show(self.what, self.unit, costs)
        first, last = costs[0], costs[-1]
        times = last.per_piece.over(first.per_piece) if self.per_piece else last.over(first)
        each = f"one of {last.size:,} {self.unit} v. one of {first.size:,}"
        sizes = each if self.per_piece else f"{last.size:,} {self.unit} v. {first.size:,}"
        yield Row(f"{self.what}, {sizes}: CPU", times.cpu_ms)
        yield Row(f"{self.what}, {sizes}: time", times.passed_ms)
        if times.calls:
            yield Row(f"{self.what}, {sizes}: storage calls", times.calls)


def grow_all(folder: Path) -> Iterator[Grown]:
    print("starting a broker ...", file=sys.stderr)
    with Kafka(folder / "kafka") as kafka:
        servers = kafka.bootstrap_servers
        spread = f"batch of {RECORDS:,} records"
        yield Grown(spread, "partitions", grow_partitions(folder, servers), per_piece=False)
        yield Grown(spread, "tables", grow_tables(folder, servers), per_piece=False)
        job_files = make_jobs(folder, servers)
        yield Grown("status at once", "jobs", grow_jobs(job_files))
    yield Grown("status at once without Kafka", "jobs", grow_jobs(job_files))
    yield Grown("commit on a local disk", "files", grow_local_files(folder))
    yield Grown("start of a log", "entries", grow_log(folder), per_piece=False)
    print("starting an HDFS ...", file=sys.stderr)
    yield Grown("commit on HDFS", "files", grow_hdfs_files(folder))


def main() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        return [row for grown in grow_all(Path(folder)) for row in grown.rows()]


if __name__ == "__main__":
    for row in main():
        print(row)
