"""A query over kills and restarts, each with other settings: the rows are those of one run.

Whatever the number of cores (and with it the least number of ranges that a batch is read in), of
Kafka partitions, and whether Spark plans adaptively: a table holds what one run over the whole
input would give. What is killed is a process; what ends by itself runs in this one, in which alone
adaptive plans can be had: a job may not ask for them.
"""

import itertools
import shutil
import signal
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from tests.kafka_tools import add_partitions
from tests.spark.site import Site
from tests.spark.sql_jobs import (
    PER_MINUTE,
    PER_MINUTE_TABLE,
    Click,
    clicks,
    encode,
    per_minute,
    read_only,
    read_per_minute,
    run,
    sql_job,
)
from tests.spark.test_processes import LOCAL, is_step, wait_for

from ashore.queries.spark.sql.settings import STATE
from ashore_lab.drills.sites.ahead import Ahead
from ashore_lab.services.kafka import Kafka

STEPS = 6
LATE_MS = 10_000
AGAIN = 5  # records of the step before, sent a second time: not too late for the watermark
SQL = PER_MINUTE + (
    "INSERT INTO ods.firsts SELECT id, max(country) AS country FROM clicks "
    "GROUP BY id, window(event_time, '1 second');"
)
PROVIDERS = {
    "rocksdb": "RocksDBStateStoreProvider",
    "in memory": "HDFSBackedStateStoreProvider",
}
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
STATE_CLASSES = "org.apache.spark.sql.execution.streaming.state"


@dataclass(frozen=True)
class Step:
    """One run: what it is started with, and how it ends."""

    killed_at: str | None  # the step of a batch; None: it ends when all has been read
    cores: int  # of a process
    is_adaptive: bool  # where it is none
    partitions_more: int
    count: int  # records that are there when it starts


STEP = st.builds(
    Step,
    killed_at=st.sampled_from(["move", "landed", None, "prepare", "plan"]),
    cores=st.integers(1, 4),
    is_adaptive=st.booleans(),
    partitions_more=st.integers(0, 2),
    count=st.integers(20, 150),
)
EXAMPLES = st.lists(STEP, min_size=STEPS, max_size=STEPS)
SLOW = {
    "deadline": None,
    "derandomize": True,
    "database": None,
    "phases": [Phase.generate],  # a smaller example would take as many minutes again
    "suppress_health_check": list(HealthCheck),
}


class Job:
    """One example: a topic, a job file that changes, and all that was ever sent."""

    def __init__(self, site: Site, provider: str, ahead: Ahead) -> None:
        self.sent: list[Click] = []
        self._site = site
        self._ahead = ahead
        self._provider = provider
        self._partitions = 1
        self._topic = site.topic(1)
        self._next = 0

    def play(self, step: Step, following: Step | None) -> None:
        """Run it; the process of the step that follows starts meanwhile."""
        self._produce(step)
        job_file = self._job_file(step)
        if step.killed_at is None:
            with pytest.MonkeyPatch.context() as patch:
                patch.setitem(STATE, "spark.sql.adaptive.enabled", str(step.is_adaptive).lower())
                run(self._site, job_file)
            return
        launch = self._ahead.take(job_file)
        if following is not None and following.killed_at is not None:
            self._ahead.start(self._job_file(following))
        wait_for(launch, is_step(step.killed_at))
        launch.kill()
        assert launch.wait() == -signal.SIGKILL

    def check(self) -> None:
        """Compare both tables with what all records give."""
        watermark_ms = max(at_ms for _, _, at_ms in self.sent) - LATE_MS
        assert read_per_minute(self._site) == per_minute(self.sent, watermark_ms=watermark_ms)
        rows = [tuple(row) for row in self._site.read("ods.firsts").collect()]
        final = {
            (number, country) for number, country, at in self.sent if at + 1000 <= watermark_ms
        }
        assert sorted(rows) == sorted(final)
        self._site.prove(self._job_file(Step(None, 2, False, 0, 0)))

    def _produce(self, step: Step) -> None:
        if step.partitions_more:
            self._partitions += step.partitions_more
            add_partitions(self._site.servers, self._topic, self._partitions)
        start = max(0, self._next - AGAIN)
        self._next += step.count
        records = clicks(start, self._next - start)
        self.sent += records
        for partition in range(self._partitions):
            part = encode(records[partition :: self._partitions])
            self._site.produce(self._topic, part, partition)

    def _job_file(self, step: Step) -> Path:
        conf = {
            **LOCAL["conf"],
            PROVIDER: f"{STATE_CLASSES}.{self._provider}",
            "spark.sql.streaming.stateStore.minDeltasForSnapshot": "2",
            "spark.sql.streaming.stateStore.maintenanceInterval": "500ms",
        }
        tables = [read_only(self._topic), PER_MINUTE_TABLE, {"table": "ods.firsts"}]
        spark = {"master": f"local[{step.cores}]", "conf": conf}
        job_file = sql_job(self._site, SQL, *tables, spark=spark)
        path = job_file.with_stem(f"cores-{step.cores}")
        # At once: a process that was started ahead may be reading it.
        return Path(shutil.copy(job_file, path.with_suffix(".new"))).replace(path)


@pytest.fixture
def sites(
    kafka: Kafka, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Site]:
    """A lake of its own for each example."""
    monkeypatch.setenv("ASHORE_HOME", str(tmp_path / "home"))

    def build() -> Iterator[Site]:
        for number in itertools.count():
            directory = tmp_path / f"example-{number}"
            directory.mkdir()
            yield Site(directory, kafka.bootstrap_servers, spark)

    return build()


def restart(sites: Iterator[Site], provider: str, steps: list[Step], ahead: Ahead) -> None:
    with next(sites) as site:
        job = Job(site, PROVIDERS[provider], ahead)
        steps = [*steps[:-1], replace(steps[-1], killed_at=None)]
        for step, following in zip_longest(steps, steps[1:]):
            job.play(step, following)
        job.check()


# The first example is the simplest: it is killed at the moves of each batch, on one core. Every day
# a job's query is killed in test_sql_processes.py and test_sql_hdfs.py.
@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("provider", PROVIDERS)
@settings(max_examples=6, **SLOW)
@given(steps=EXAMPLES)
def test_state_over_more_restarts(
    sites: Iterator[Site], ahead: Ahead, provider: str, steps: list[Step]
) -> None:
    restart(sites, provider, steps, ahead)
