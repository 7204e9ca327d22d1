"""The demo: the main job on an embedded default, killed half-way, proven afterwards.

What it is: a real broker from jars, a producer of clickstream records, a job in a process of its
own that is killed with SIGKILL, started again and drained, and a verification.
What it promises: nothing is faked: what the demo shows is what `ashore run` and `ashore verify`
do. Everything stays in one directory; the broker is stopped at the end.
"""

import json
import random
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import ClassVar

from ashore.base import codec
from ashore.base.clock import SystemClock
from ashore.errors import ServiceError
from ashore.jobs.events import Event, Landed, StepBegun
from ashore.jobs.launch import JobLaunch, LaunchOptions
from ashore.log.progress import Step
from ashore.proof.evidence.result import VerifyResult
from ashore.topics.open_job import open_job
from ashore_lab.services.kafka import Kafka

TOPICS = ("clicks", "orders")
PARTITIONS = 4
HOURS_MS = 3 * 3_600_000
COUNTRIES = ("CN", "DE", "US", "IN", "BR", "FR", "JP", "NG")

JOB = """\
job: demo
lake: file://{lake}
source:
  kafka:
    bootstrap_servers: {servers}
  first_start: {{default: earliest}}
tables:
  - topic: clicks
    table: demo.clicks
    schema: "id BIGINT, user STRING, ts BIGINT, country STRING, amount DOUBLE, text STRING"
    event_time: {{column: ts, unit: ms}}
    partition_by: [date, hour]
    format: {format}
  - topic: orders
    table: demo.orders
    schema: "id BIGINT, user STRING, ts BIGINT, country STRING, amount DOUBLE, text STRING"
    event_time: {{column: ts, unit: ms}}
    partition_by: [date, hour]
    format: {format}
catalog: none
batch: {{interval: 1s, max_records: {max_records}}}
spark: {{master: "local[2]", conf: {{spark.driver.memory: 1g}}}}
"""


class DemoFormat(StrEnum):
    """What the demo's tables are: directories of Parquet files, or tables in a table format."""

    PARQUET = "parquet"
    ICEBERG = "iceberg"
    DELTA = "delta"


@dataclass(frozen=True, slots=True)
class DemoStep:
    """What the demo itself begins. `killed_at`: records that had landed when the job was killed."""

    kind: ClassVar[str] = "demo"
    step: str
    killed_at: int | None = codec.added(None)


@dataclass(frozen=True, slots=True)
class DemoResult:
    """What the demo ends with."""

    verdict: VerifyResult
    directory: Path
    job_file: Path
    killed_at: int  # records landed when the job was killed
    table_format: DemoFormat


class Demo:
    """One demo in one directory. Give `directory=None` for a fresh temporary one."""

    def __init__(
        self,
        directory: Path | None,
        records: int,
        table_format: DemoFormat = DemoFormat.PARQUET,
    ) -> None:
        if directory is not None and directory.exists() and any(directory.iterdir()):
            raise ServiceError(
                f"{directory} is not empty", hint="give the demo a directory of its own"
            )
        # Absolute: a lake is a URI, and the job file is read by another process.
        self.directory = (
            directory.absolute() if directory else Path(tempfile.mkdtemp(prefix="ashore-demo-"))
        )
        self.records = records
        self.table_format = table_format
        self.produced = 0
        self._kafka = Kafka(self.directory / "kafka")

    @property
    def lake(self) -> Path:
        """Where the tables are."""
        return self.directory / "lake"

    @property
    def job_file(self) -> Path:
        """The job file that the demo writes."""
        return self.directory / "job.yaml"

    def run(
        self, on_event: Callable[[Event], object], progress: Callable[[str, int, int], None]
    ) -> DemoResult:
        """Run the whole demo. `on_event` gets the job's events and a DemoStep now and then."""
        on_event(DemoStep("starting a Kafka broker from jars"))
        with self._kafka:
            self._prepare()
            producer = threading.Thread(target=self._produce, name="producer", daemon=True)
            producer.start()
            killed_at = self._run_and_kill(on_event)
            on_event(DemoStep("starting the job again", killed_at))
            producer.join()
            self._run_to_the_end(on_event)
            on_event(DemoStep("verifying: comparing log, files and Kafka"))
            from ashore.proof.verify.job import verify_job  # noqa: PLC0415 - loads Arrow

            with open_job(self.job_file) as opened:
                verdict = verify_job(opened, progress=progress)
        self._tidy()
        return DemoResult(verdict, self.directory, self.job_file, killed_at, self.table_format)

    def _prepare(self) -> None:
        from ashore_lab.services.producer import create_topics  # noqa: PLC0415 - loads the client

        self.lake.mkdir(parents=True, exist_ok=True)
        servers = self._kafka.bootstrap_servers
        create_topics(servers, dict.fromkeys(TOPICS, PARTITIONS))
        max_records = max(1, self.records // 10)  # so that half of them is not the last batch
        text = JOB.format(
            lake=self.lake, servers=servers, max_records=max_records, format=self.table_format
        )
        self.job_file.write_text(text, "utf-8")

    def _produce(self) -> None:
        """Send clickstream records of the last three hours, a few of them not valid JSON."""
        from ashore_lab.services.producer import Producer  # noqa: PLC0415 - loads the client

        tails = _tails()
        start_ms, step_ms = SystemClock().now_ms() - HOURS_MS, HOURS_MS / self.records
        with Producer(self._kafka.bootstrap_servers) as producer:
            for number in range(self.records):
                ts_ms = start_ms + int(number * step_ms)
                value = b'{"id": %d, "ts": %d, %b' % (number, ts_ms, tails[number % len(tails)])
                if number % 100_003 == 7:
                    value = b'{"id": not json'
                producer.send(TOPICS[number & 1], number // 2 % PARTITIONS, value)
                self.produced = number + 1

    def _run_and_kill(self, on_event: Callable[[Event], object]) -> int:
        """Run the job until half of the records have landed, then kill it in mid-work."""
        landed = 0
        with JobLaunch("run", self.job_file) as launch:
            for event in launch.events():
                on_event(event)
                if isinstance(event, Landed):
                    landed += event.rows
                is_moving = isinstance(event, StepBegun) and event.step in {Step.PREPARE, Step.MOVE}
                if landed >= self.records // 2 and is_moving:
                    launch.kill()
                    break
            code = launch.wait()
        if code != -9:
            raise ServiceError(f"the job ended with {code} before it could be killed")
        return landed

    def _run_to_the_end(self, on_event: Callable[[Event], object]) -> None:
        with JobLaunch("run", self.job_file, LaunchOptions(available_now=True)) as launch:
            for event in launch.events():
                on_event(event)
            code = launch.wait()
        if code != 0:
            raise ServiceError(
                f"the job ended with {code}", hint=f"ashore run {self.job_file} --debug"
            )

    def _tidy(self) -> None:
        """Remove the broker's data: the lake and the job file are what is worth keeping."""
        shutil.rmtree(self.directory / "kafka", ignore_errors=True)


def _tails() -> list[bytes]:
    """Return the ends of records, made once: the demo is about landing, not producing."""
    dice = random.Random(20261121)  # noqa: S311 - the same records each time
    tails = []
    for _ in range(1_000):
        record = {
            "user": f"user-{dice.randrange(50_000)}",
            "country": dice.choice(COUNTRIES),
            "amount": round(dice.uniform(0, 200), 2),
            "text": f"page/{dice.randrange(1_000)}",
        }
        tails.append(json.dumps(record).encode()[1:])
    return tails


def queries(result: DemoResult) -> Iterator[str]:
    """Yield what to look at next: a query that reads a table."""
    lake = result.directory / "lake"
    table = lake / "demo.db" / "clicks"
    read = {
        DemoFormat.PARQUET: (
            "import pyarrow.dataset as ds; print(ds.dataset("
            f"'{table}', partitioning='hive', exclude_invalid_files=True).to_table()"
        ),
        DemoFormat.ICEBERG: (
            "from pyiceberg.catalog import load_catalog; print(load_catalog('ashore', type='sql', "
            f"uri='sqlite:///{lake}/iceberg.db').load_table('demo.clicks').scan().to_arrow()"
        ),
        DemoFormat.DELTA: (
            f"from deltalake import DeltaTable; print(DeltaTable('{table}').to_pyarrow_table()"
        ),
    }[result.table_format]
    yield (
        f'{sys.executable} -c "{read}'
        ".group_by('country').aggregate([('id', 'count')]).to_pylist())\""
    )
