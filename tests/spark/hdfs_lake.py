"""A job whose lake is in HDFS: its process, what it tells, what it has to have landed.

The proof reads the table's files from HDFS and compares their rows with what was produced, then
asks `verify`.
"""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread

import pyarrow.parquet as pq
from tests.kafka_tools import create_topic, produce
from tests.spark.site import LOCAL

from ashore.jobs.events import Event, moment_of
from ashore.jobs.launch import JobLaunch, LaunchOptions
from ashore.proof.evidence.result import VerifyResult
from ashore.proof.status.status import read_status
from ashore.proof.verify.job import verify_job
from ashore.storage import Storage
from ashore.topics.open_job import open_job
from ashore_lab.services.hdfs import Hdfs
from ashore_lab.services.kafka import Kafka

WAIT_S = 120.0
SHARDS = (0, 1)
JOB = """\
job: {topic}
lake: hdfs://ashore/lake
deadline: {deadline}
source:
  kafka: {{bootstrap_servers: "{servers}"}}
  first_start: {{default: earliest}}
tables:
  - topic: {topic}
    table: ods.{topic}
    schema: "id BIGINT, part BIGINT"
    partition_by: [part]
batch: {{interval: 200ms, max_records: 2000}}
spark: {spark}
"""


class Running:
    """A job process that is listened to on a thread, so that a test can wait for what it tells."""

    def __init__(self, launch: JobLaunch) -> None:
        self.launch = launch
        self.seen: list[Event] = []
        self._events: SimpleQueue[Event | None] = SimpleQueue()
        self._listener = Thread(target=self._listen, daemon=True)
        self._listener.start()

    def wait_for(self, what: str, within_s: float = WAIT_S) -> Event:
        """Return the next event or step that is called `what`. Fails if the process ends before."""
        found = self.find(what, within_s)
        assert found is not None, f"no {what} within {within_s:g} s: {self.seen[-20:]}"
        return found

    def find(self, what: str, within_s: float) -> Event | None:
        """Return the next event or step that is called `what`, if there is one within a time."""
        end_s = time.monotonic() + within_s
        while (left_s := end_s - time.monotonic()) > 0:
            try:
                event = self._events.get(timeout=left_s)
            except Empty:
                break
            assert event is not None, f"ended: {self.seen[-20:]}, {self.launch.log_path}"
            if what == moment_of(event):
                return event
        return None

    def forget(self) -> None:
        """Let go of what was told until now."""
        while not self._events.empty():
            self._events.get()

    def stop(self) -> int:
        """Stop the job in order and return its exit code."""
        self.launch.stop()
        return self.wait()

    def wait(self) -> int:
        """Wait for the end of the process and return its exit code."""
        self._listener.join(WAIT_S)
        assert not self._listener.is_alive(), f"does not end: {self.seen[-20:]}"
        return self.launch.wait()

    def _listen(self) -> None:
        for event in self.launch.events():
            self.seen.append(event)
            self._events.put(event)
        self._events.put(None)


class Lake:
    """A topic with two partitions, and a job that lands it in HDFS, by Spark or without."""

    def __init__(
        self,
        kafka: Kafka,
        topic: str,
        directory: Path,
        *,
        parts: int = 1,
        deadline: str = "60s",
        uses_spark: bool = False,
    ) -> None:
        self.kafka, self.topic, self.parts, self.uses_spark = kafka, topic, parts, uses_spark
        self.job_file = directory / f"{topic}.yaml"
        servers = kafka.bootstrap_servers
        spark = json.dumps(LOCAL if uses_spark else "none")
        text = JOB.format(topic=topic, servers=servers, deadline=deadline, spark=spark)
        self.job_file.write_text(text, "utf-8")
        self.produced = 0
        create_topic(servers, topic, len(SHARDS))

    def produce(self, count: int) -> None:
        """Produce `count` records to each partition, for all partitions of the table in turn."""
        for shard in SHARDS:
            values = [
                json.dumps({"id": number, "part": number % self.parts}).encode()
                for number in range(self.produced, self.produced + count)
            ]
            produce(self.kafka.bootstrap_servers, self.topic, values, partition=shard)
        self.produced += count

    @contextmanager
    def running(self, *, available_now: bool = False) -> Iterator[Running]:
        """Run the job; whatever happens, nothing of its process is left."""
        options = LaunchOptions(self.uses_spark, available_now)
        launch = JobLaunch("run", self.job_file, options)
        launch.start()
        try:
            yield Running(launch)
        finally:
            launch.kill()
            launch.wait()

    def wait_until_read(self) -> None:
        """Wait until the log holds every record that was produced; its last moves may be left."""
        with open_job(self.job_file) as opened:
            wait_until(lambda: read_status(opened).slices[0].lag == 0, "all is read", 0.2)

    def drain(self) -> None:
        """Land what is left."""
        with self.running(available_now=True) as job:
            assert job.wait() == 0, job.seen[-3:]

    def prove(self) -> VerifyResult:
        """Check that every record that was produced is a row, once, and that `verify` says so."""
        with open_job(self.job_file) as opened:
            assert read_status(opened).slices[0].lag == 0
            rows = read_rows(opened.storage, f"ods.db/{self.topic}")
            result = verify_job(opened)
        expected = [(shard, number, number) for shard in SHARDS for number in range(self.produced)]
        assert sorted(rows) == expected
        assert result.exit_code == 0, result.to_dict()
        assert (result.totals.lost, result.totals.duplicated) == (0, 0)
        assert result.totals.landed == len(expected)
        return result


def read_rows(storage: Storage, table: str) -> list[tuple[int, int, int]]:
    """Return Kafka's partition and offset, and the id, of every row that a reader sees."""
    found: list[tuple[int, int, int]] = []
    for file in _visible(storage, table):
        rows = pq.read_table(BytesIO(storage.read(file)))
        columns = (rows[name].to_pylist() for name in ("kafka_partition", "kafka_offset", "id"))
        found += zip(*columns, strict=True)
    return found


def _visible(storage: Storage, directory: str) -> Iterator[str]:
    for each in storage.list(directory):
        if each.path.rpartition("/")[2][0] in "._":
            continue
        if each.is_directory:
            yield from _visible(storage, each.path)
        else:
            yield each.path


def wait_until(condition: Callable[[], bool], what: str, pause_s: float = 0.005) -> None:
    """Wait until a condition holds, looking again after a pause. Fails if it never does."""
    end_s = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < end_s, f"{what}: not within {WAIT_S:g} s"
        time.sleep(pause_s)


def now_ms() -> int:
    """Return the wall time, in which HDFS's audit log is written."""
    return time.time_ns() // 1_000_000


def is_writing(hdfs: Hdfs, lake: Lake, since_ms: int) -> bool:
    """Tell whether a task of the job has begun a file."""
    staged = f"/ods.db/{lake.topic}/.ashore/"
    return any(
        each.command == "create" and staged in (each.source or "")
        for each in hdfs.audit_entries(since_ms)
    )
