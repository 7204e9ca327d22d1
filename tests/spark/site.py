"""A lake, topics and job files of one test, with writers in this process and proofs at the end.

The writers are put together from the product's own parts, over the session that tests share; only
the process around them (`ashore.queries.spark.main`) is left out. The proof reads tables as Spark
does and compares them with what Kafka says is committed, then asks `verify`.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Self
from uuid import uuid4

from pyspark.sql import DataFrame, Row, SparkSession
from tests.kafka_tools import create_topic, produce

from ashore.jobs import jars
from ashore.log.entries import Entry
from ashore.log.fold import Fold
from ashore.log.names import SliceName
from ashore.log.plan_batch import BatchPlan
from ashore.log.positions import OffsetRange, StreamShard
from ashore.log.progress import Progress, Quiet
from ashore.log.store.reader import read_history, read_log
from ashore.proof.evidence.result import VerifyResult
from ashore.proof.verify.job import verify_job
from ashore.queries.spark.sql.assembly import SparkJob, assembled
from ashore.storage.base import Storage
from ashore.storage.open import open_storage
from ashore.topics.loop.job import load_job_file
from ashore.topics.loop.worker import Tick
from ashore.topics.open_job import open_job
from ashore.topics.read.kafka import KafkaSource
from ashore.topics.run.spark.session import DRIVER_OPTIONS
from ashore.topics.write.batch import BatchOrder, BatchRunner, TaskResult

SCHEMA = "id BIGINT, country STRING, ts BIGINT"
DEADLINE_S = 30.0
# Tests end before the second compiler of the JVM pays: a job process starts in half the time.
SHORT_LIVED = {DRIVER_OPTIONS: " ".join(jars.SHORT_LIVED)}
# Of the session that all tests of a process share, which compiles more than the 48 MB that a JVM
# keeps for one compiler, and would compile again what it threw away.
SHARED = {DRIVER_OPTIONS: " ".join((*jars.SHORT_LIVED, "-XX:ReservedCodeCacheSize=240m"))}
# Of a job whose processes read little, and several of which may run at once.
LOCAL = {"master": "local[2]", "conf": {**SHORT_LIVED, "spark.driver.memory": "512m"}}
PROVENANCE = ("kafka_topic", "kafka_partition", "kafka_offset")

Place = tuple[str, int, int]  # topic, partition, offset
Table = Mapping[str, object]


def event(number: int, country: str | None = "DE", ts_ms: int = 1_795_000_000_000) -> bytes:
    """Return a record of SCHEMA."""
    return json.dumps({"id": number, "country": country, "ts": ts_ms}).encode()


def events(start: int, count: int) -> list[bytes]:
    """Return records with the ids from `start` on."""
    return [event(number) for number in range(start, start + count)]


def table_of(topic: str, table: str = "ods.events", **keys: object) -> Table:
    """Return an item of `tables`: JSON into a table without partitions, unless `keys` differ."""
    return {"topic": topic, "table": table, "schema": SCHEMA, "partition_by": [], **keys}


def _nothing() -> None:
    """Let nothing happen."""


class Around:
    """A runner that lets something happen before and after each run, and counts the runs."""

    def __init__(
        self,
        runner: BatchRunner,
        *,
        before: Callable[[], object] = _nothing,
        after: Callable[[], object] = _nothing,
    ) -> None:
        self._runner = runner
        self._before = before
        self._after = after
        self.runs = 0

    def run(self, order: BatchOrder, plan: BatchPlan) -> list[TaskResult]:
        self.runs += 1
        self._before()
        results = self._runner.run(order, plan)
        self._after()
        return results

    def probe(self, files: Mapping[str, bytes]) -> None:
        self._runner.probe(files)

    def cancel(self) -> None:
        self._runner.cancel()


class At(Quiet):
    """A progress that lets something happen, once, when a step is announced."""

    def __init__(self, step: str, action: Callable[[], object]) -> None:
        self._step = step
        self._action: Callable[[], object] | None = action
        self.warnings: list[str] = []

    def step(self, slice_name: str, step: str) -> None:
        if step == self._step and self._action is not None:
            action, self._action = self._action, None
            action()

    def warn(self, slice_name: str, message: str) -> None:
        self.warnings.append(message)


class Writer:
    """One writer of a job: what its process puts together, on a session that stays."""

    def __init__(
        self,
        job: SparkJob,
        wrap: Callable[[BatchRunner], BatchRunner] = lambda runner: runner,
    ) -> None:
        self.job = replace(job, runner=wrap(job.runner))
        self.loop = self.job.slice()
        self.plan, self.parts = self.loop.plan, self.loop.parts
        self.log, self.source, self.storage = self.parts.log, self.parts.source, self.parts.storage

    def ticks(self) -> list[Tick]:
        """Take turns until nothing is left to land; the last entry stays unclosed."""
        ticks = [self.loop.tick()]
        while ticks[-1] is not Tick.IDLE:
            ticks.append(self.loop.tick())
        return ticks

    def drain(self) -> None:
        """Land what is there and end, as `--available-now` does."""
        self.job.loop(until_drained=True).run(probe=self.job.runner)


class Site:
    """A temporary directory with a lake. A context manager: it lets go of writers' connections."""

    def __init__(self, directory: Path, servers: str, spark: SparkSession) -> None:
        self.directory = directory
        self.servers = servers
        self.lake = directory / "lake"
        self.lake.mkdir()
        self.spark = spark
        self._source = KafkaSource(servers, {}, timeout_s=20)
        self._writers = ExitStack()

    @property
    def storage(self) -> Storage:
        """The lake."""
        return open_storage(f"file://{self.lake}", deadline_s=DEADLINE_S)

    # ---- before

    def topic(self, partitions: int = 1, prefix: str = "events", **config: str) -> str:
        """Create a topic with a name of its own and return it."""
        name = f"{prefix}-{uuid4().hex[:10]}"
        create_topic(self.servers, name, partitions, config)
        return name

    def produce(self, topic: str, values: Iterable[bytes | None], partition: int = 0) -> None:
        """Produce to one partition and wait."""
        produce(self.servers, topic, values, partition=partition)

    def produce_keyed(self, topic: str, keys: Iterable[bytes], values: Iterable[bytes]) -> None:
        """Produce to partition 0 with keys, and wait."""
        produce(self.servers, topic, values, partition=0, keys=keys)

    def job_file(self, *tables: Table, job: str = "landing", **sections: object) -> Path:
        """Write a job file. `sections` replaces whole keys; `gap` and `first_start` are known."""
        source = {
            "kafka": {"bootstrap_servers": self.servers},
            "first_start": {"default": sections.pop("first_start", "earliest")},
            "gap": sections.pop("gap", "fail"),
        }
        content = {"job": job, "lake": f"file://{self.lake}", "source": source} | sections
        path = self.directory / f"{job}.yaml"
        path.write_text(json.dumps({**content, "tables": list(tables)}, indent=1), "utf-8")
        return path

    # ---- landing in this process

    def writer(
        self,
        job_file: Path,
        progress: Progress | None = None,
        wrap: Callable[[BatchRunner], BatchRunner] = lambda runner: runner,
    ) -> Writer:
        """Return a new writer of the job, as a restart of its process would be."""
        assembly = assembled(load_job_file(job_file), self.spark, progress or Quiet())
        return Writer(self._writers.enter_context(assembly), wrap)

    # ---- after

    def committed(self, *topics: str) -> dict[Place, bytes | None]:
        """Return every committed record that Kafka still has."""
        found: dict[Place, bytes | None] = {}
        for info in self._source.describe_streams(topics).values():
            shards = [StreamShard(info.stream, shard) for shard in info.shards]
            for shard, there in self._source.read_offsets(shards).items():
                offsets = OffsetRange(there.earliest, there.end)
                for record in self._source.read_again(shard, offsets):
                    found[info.stream, int(shard.shard), record.offset] = record.value
        return found

    def committed_ids(self, *topics: str) -> dict[Place, int]:
        """Return the id of every committed record of SCHEMA."""
        return {
            place: json.loads(value or b"{}")["id"]
            for place, value in self.committed(*topics).items()
        }

    def path_of(self, table: str) -> Path:
        """Return the directory of `database.table`."""
        database, name = table.split(".")
        return self.lake / f"{database}.db" / name

    def read(self, table: str = "ods.events") -> DataFrame:
        """Return the table as Spark SQL sees it."""
        return self.spark.read.parquet(str(self.path_of(table)))

    def landed_ids(self, table: str = "ods.events") -> dict[Place, int]:
        """Return the id of every row. Fails where a record appears twice."""
        rows = self.read(table).select(*PROVENANCE, "id").collect()
        return distinct(rows)

    def files(self, table: str = "ods.events") -> list[Path]:
        """Return the visible files of a table."""
        root = self.path_of(table)
        return sorted(
            path
            for path in root.rglob("*")
            if path.is_file() and not any(part[0] in "._" for part in path.relative_to(root).parts)
        )

    def staged(self, table: str = "ods.events") -> list[Path]:
        """Return the in-progress and pending files of a table."""
        return sorted((self.path_of(table) / ".ashore").rglob("*.in-progress"))

    def fold(self, job: str = "landing") -> Fold:
        """Return the log of a job, folded."""
        return read_log(self.storage, SliceName(job, "main"))

    def history(self, job: str = "landing") -> list[Entry]:
        """Return every entry of a job's log."""
        return list(read_history(self.storage, SliceName(job, "main")))

    def log_directory(self, job: str = "landing") -> Path:
        """Return where a job's log is."""
        return self.lake / ".ashore" / job / "main" / "log"

    def verify(self, job_file: Path) -> VerifyResult:
        """Return what `ashore verify` says."""
        with open_job(job_file) as opened:
            return verify_job(opened)

    def prove(self, job_file: Path) -> VerifyResult:
        """Return what `ashore verify` says, which must be that all is well."""
        verdict = self.verify(job_file)
        assert verdict.exit_code == 0, (verdict.summary, verdict.problems, verdict.notes)
        return verdict

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._writers.close()
        self._source.close()


def distinct(rows: Iterable[Row]) -> dict[Place, int]:
    """Return rows (topic, partition, offset, id) by their place. Fails where one appears twice."""
    found: dict[Place, int] = {}
    for topic, partition, offset, number in rows:
        assert (topic, partition, offset) not in found, f"{topic}/{partition} {offset} is twice"
        found[topic, partition, offset] = number
    return found
