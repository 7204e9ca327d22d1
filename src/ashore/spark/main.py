"""The job process: `python -m ashore.spark.main run JOB.yaml`.

What it is: a job file, run in a process of its own. Started by the control plane, which never
loads a JVM itself.
What it promises: events on stdout, talk on stderr, the exit codes of `ashore.errors`. SIGTERM,
SIGINT and the end of the parent are an orderly stop; SIGKILL is always safe.
What it must not know: terminals.
"""

import argparse
import logging
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from ashore.base.clock import Clock, SystemClock
from ashore.base.steered_clock import CLOCK_VARIABLE, SteeredClock
from ashore.config import Job
from ashore.errors import AshoreError
from ashore.landing.job import lake_of, load_job_file
from ashore.landing.job_loop import JobLoop
from ashore.landing.recovery import open_and_find_lost, reland
from ashore.spark.assembly import SparkJob, assembled
from ashore.spark.events import EventWriter, watch_parent
from ashore.spark.runner import start_worker
from ashore.spark.session import LIGHT_JVM, hadoop_settings, start_session
from ashore.spark.sql.validate import describe_queries


class JobProcess:
    """One job in this process."""

    def __init__(self, job: Job, jars: list[Path], *, is_held: bool = False) -> None:
        self.job = job
        self.events = EventWriter()
        self._jars = jars
        self._released = threading.Event() if is_held else None
        self._loop: JobLoop | None = None
        self._is_stopped = False

    def run(self, *, until_drained: bool) -> None:
        """Land until stopped, or until everything that was there has landed."""
        with self._assembled() as job:
            self._loop = job.loop(until_drained=until_drained)
            if self._is_stopped:
                return
            self.events.send("started", job=self.job.job)
            self._loop.run(probe=job.runner)

    def reland(self) -> None:
        """Read lost files again. Sends how many rows; none where nothing is lost."""
        with self._assembled() as job:
            worker = job.slice()
            lost = open_and_find_lost(worker.parts.committer())
            rows = reland(worker.plan, worker.parts, lost) if lost else 0
            self.events.send("relanded", rows=rows, files=len(lost.files) if lost else 0)

    def validate(self) -> None:
        """Plan the job's queries and send what they would be. Nothing is read or written."""
        with self._assembled() as job:
            queries = describe_queries(job.sql)
            self.events.send("validated", queries=queries)

    def stop(self) -> None:
        """Stop in order; the second time as well."""
        self._is_stopped = True
        self.release()
        if self._loop is not None:
            self._loop.stop()

    def release(self) -> None:
        """Go on, where it was held with a Spark that is up."""
        if self._released is not None:
            self._released.set()

    @contextmanager
    def _assembled(self) -> Iterator[SparkJob]:
        """Start Spark, put the job together, and let go of both at the end."""
        job = self.job
        self.events.send("starting", job=job.job, lake=str(job.lake))
        clock = self._clock()
        spark = start_session(job.job, job.spark.master, conf_of(job), self._jars)
        try:
            if self._released is not None:
                start_worker(spark)
                self._released.wait()
                job = load_job_file(job.path)  # what it says now counts
            with assembled(job, spark, self.events, clock) as found:
                yield found
        finally:
            spark.stop()

    def _clock(self) -> Clock:
        """Return the machine's clock; in drills and benchmarks one that is steered, and say so."""
        path = os.environ.get(CLOCK_VARIABLE)
        if not path:
            return SystemClock()
        self.events.send("steered_clock", path=path)
        try:
            return SteeredClock(Path(path))
        except ValueError as error:
            hint = f"unset {CLOCK_VARIABLE}: it is for drills and benchmarks"
            raise AshoreError(f"{CLOCK_VARIABLE}: {error}", hint=hint) from error


def conf_of(job: Job) -> dict[str, str]:
    """Return settings of Spark that suit what a job lets the JVM do; the job's own come last."""
    if job.sql is not None:
        # Spark's own client of HDFS is for checkpoints: it must reach what the lake is on.
        return {**hadoop_settings(lake_of(job)), **job.spark.conf}
    has_records = any(item.select or item.where for item in job.tables)
    return {**({} if has_records else LIGHT_JVM), **job.spark.conf}


def main(arguments: list[str] | None = None) -> int:
    """Run the job process and return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m ashore.spark.main")
    parser.add_argument("command", choices=["run", "reland", "validate"])
    parser.add_argument("job_file")
    parser.add_argument("--available-now", action="store_true")
    parser.add_argument("--hold", action="store_true", help="start Spark; wait for a line on stdin")
    parser.add_argument("--jar", action="append", default=[], type=Path)
    parser.add_argument("--debug", action="store_true")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    events = EventWriter()
    try:
        job = load_job_file(options.job_file)
        process = JobProcess(job, options.jar, is_held=options.hold)
        _listen(process)
        match options.command:
            case "reland":
                process.reland()
            case "validate":
                process.validate()
            case _:
                process.run(until_drained=options.available_now)
    except AshoreError as error:
        if options.debug:
            traceback.print_exc()
        events.send("error", exit_code=error.exit_code, **error.to_dict())
        return error.exit_code
    events.send("ended")
    return 0


def _listen(process: JobProcess) -> None:
    def on_signal(_number: int, _frame: FrameType | None) -> None:
        process.stop()

    signal.signal(signal.SIGTERM, on_signal)
    signal.signal(signal.SIGINT, on_signal)
    watch_parent(process.stop, process.release)


if __name__ == "__main__":
    sys.exit(main())
