"""Machines that a real drill may lose: a standalone Spark cluster, and the driver's local disk.

What it is: `Machines`: master, workers and one directory, in which the job file stands too.
What it promises: what is destroyed is gone: processes by SIGKILL, and every file. The lake and the
broker are elsewhere. Whatever happens, no process is left.
"""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, Self

from ashore.base.clock import SystemClock
from ashore.errors import ServiceError
from ashore_lab.drills.sites.ahead import DRIVER_OPTIONS, JVM, Ahead
from ashore_lab.services.spark_cluster import SparkCluster, SparkOptions

CLOCK = SystemClock()
EXECUTORS_DEADLINE_S = 60
DESTROY_DEADLINE_S = 10
POLL_S = 0.02
LOOPBACK = "127.0.0.1"


class MovableJob(Protocol):
    """A job whose processes may be started from another job file than its own."""

    own_job_file: Path
    job_file: Path  # by which the next process is started
    ahead: Ahead


class Machines:
    """One cluster and one disk. As a context manager they are up inside and gone after."""

    def __init__(self, directory: Path, workers: int) -> None:
        self._directory = directory
        self._job_file = directory / "job.yaml"
        self._cluster = SparkCluster(directory / "spark", SparkOptions(workers=workers))

    def start_ahead(self, job: MovableJob) -> None:
        """Let the next process of a job start here, from a copy of the job file."""
        document = json.loads(job.own_job_file.read_text("utf-8"))
        driver_options = document["spark"]["conf"][DRIVER_OPTIONS]
        conf = {**self._conf(), DRIVER_OPTIONS: driver_options}
        document["spark"] = {"master": self._cluster.master_url, "conf": conf}
        self._job_file.write_text(json.dumps(document), "utf-8")
        job.ahead.start(self._job_file)

    @contextmanager
    def used_by(self, job: MovableJob) -> Iterator[None]:
        """Let processes of a job run here. Requires: one was started ahead."""
        job.job_file = self._job_file
        try:
            yield
        finally:
            job.job_file = job.own_job_file

    def kill_executors(self, count: int) -> None:
        """Kill `count` executors at once, when that many run; else raise ServiceError."""
        deadline_s = CLOCK.monotonic_s() + EXECUTORS_DEADLINE_S
        while len(self._cluster.executors()) < count:
            if CLOCK.monotonic_s() > deadline_s:
                raise ServiceError(f"there are no {count} executors to kill")
            CLOCK.sleep(POLL_S)
        for _ in range(count):
            self._cluster.kill_executor()

    def destroy(self) -> None:
        """Lose everything at once."""
        for process in self._cluster.processes:
            process.kill()
        deadline_s = CLOCK.monotonic_s() + DESTROY_DEADLINE_S
        while self._directory.exists():  # a driver that was just killed may still be writing
            shutil.rmtree(self._directory, ignore_errors=True)
            if CLOCK.monotonic_s() > deadline_s:
                raise ServiceError(f"{self._directory} cannot be destroyed")
            CLOCK.sleep(POLL_S)

    def __enter__(self) -> Self:
        self._cluster.__enter__()
        return self

    def __exit__(self, *ended_by: object) -> None:
        self._cluster.__exit__(*ended_by)

    def _conf(self) -> dict[str, str]:
        return {
            "spark.driver.memory": "512m",
            "spark.driver.host": LOOPBACK,
            "spark.driver.bindAddress": LOOPBACK,
            "spark.executor.memory": "512m",
            "spark.executor.extraJavaOptions": JVM,
            "spark.local.dir": str(self._directory / "local"),
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        }
