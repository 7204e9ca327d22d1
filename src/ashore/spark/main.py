"""The job process: `python -m ashore.spark.main run JOB.yaml`.

What it is: the place where a job file, Kafka, a lake and Spark come together. Started by the
control plane, which never loads a JVM itself.
What it promises: events on stdout, talk on stderr, the exit codes of `ashore.errors`. SIGTERM,
SIGINT and the end of the parent are an orderly stop; SIGKILL is always safe.
What it must not know: terminals.
"""

import argparse
import logging
import signal
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ashore.base.clock import Clock, SystemClock
from ashore.base.unique import unique
from ashore.catalogs import Catalog, open_catalog
from ashore.config import Job
from ashore.errors import AshoreError, JobFileInvalid
from ashore.landing.batch import TableSpec
from ashore.landing.effects import EffectParts, Effects
from ashore.landing.job import (
    MAIN,
    JobStreams,
    load_job_file,
    seal_actions,
    seal_rules,
    slice_plan,
)
from ashore.landing.job_loop import JobLoop, JobParts, Rhythm
from ashore.landing.log import LandingLog, LogContext
from ashore.landing.owner import claim_tables
from ashore.landing.recovery import open_and_find_lost, reland
from ashore.landing.registrar import Registrar
from ashore.landing.sealer import Sealer
from ashore.landing.slice_loop import SliceLoop, SliceParts, SlicePlan
from ashore.sources.kafka import KafkaSource
from ashore.spark.events import EventWriter, watch_parent
from ashore.spark.reader import KafkaAddress, output_schema
from ashore.spark.runner import SparkRunner
from ashore.spark.session import start_session
from ashore.storage.base import Storage
from ashore.storage.open import open_storage

DEADLINE_S = 60.0
SOURCE_TIMEOUT_S = 20.0
CATALOG_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class Assembly:
    """A job's slice with everything that it works with."""

    plan: SlicePlan
    parts: SliceParts
    streams: JobStreams


class JobProcess:
    """One job in this process."""

    def __init__(self, job: Job, jars: list[Path]) -> None:
        self.job = job
        self.events = EventWriter()
        self._jars = jars
        self._clock: Clock = SystemClock()
        kafka = job.source.kafka
        self._kafka = KafkaAddress(kafka.bootstrap_servers, dict(kafka.options))
        self._loop: JobLoop | None = None
        self._is_stopped = False

    def run(self, *, until_drained: bool) -> None:
        """Land until stopped, or until everything that was there has landed."""
        with self._assembled() as assembly:
            self._loop = JobLoop(
                [SliceLoop(assembly.plan, assembly.parts)],
                self._rhythm(until_drained),
                JobParts(assembly.parts.storage, self._clock, self.events, assembly.streams.tables),
            )
            if self._is_stopped:
                return
            self.events.send("started", job=self.job.job)
            self._loop.run(probe=assembly.parts.runner)

    def reland(self) -> None:
        """Read lost files again. Sends how many rows; none where nothing is lost."""
        with self._assembled() as assembly:
            parts = assembly.parts
            lost = open_and_find_lost(parts.log, parts.storage, self._clock)
            rows = reland(assembly.plan, parts, lost) if lost else 0
            self.events.send("relanded", rows=rows, files=len(lost.files) if lost else 0)

    def stop(self) -> None:
        """Stop in order; the second time as well."""
        self._is_stopped = True
        if self._loop is not None:
            self._loop.stop()

    @contextmanager
    def _assembled(self) -> Iterator[Assembly]:
        """Bring job, lake, Kafka and Spark together, and let go of them at the end."""
        job, lake, kafka = self.job, self.job.lake.reveal(), self._kafka
        storage = open_storage(lake, deadline_s=DEADLINE_S, clock=self._clock)
        source = KafkaSource(kafka.bootstrap_servers, kafka.options, timeout_s=SOURCE_TIMEOUT_S)
        hive = job.catalog.hive
        catalog = open_catalog(hive.uri.reveal() if hive else None, timeout_s=CATALOG_TIMEOUT_S)
        self.events.send("starting", job=job.job, lake=str(job.lake))
        spark = start_session(job.job, job.spark.master, job.spark.conf, self._jars)
        try:
            registrar = self._registrar(catalog, lake)
            streams = JobStreams(
                job,
                source,
                lambda tables: claim_tables(storage, tables, job.job, self._clock.now_ms()),
                lambda spec: self._refine(spark, spec),
                registrar.ensure,
            )
            plan = slice_plan(job, streams, spark.sparkContext.defaultParallelism, DEADLINE_S)
            runner = SparkRunner(spark, kafka, lake, DEADLINE_S, str(plan.name))
            log = LandingLog(self._log_context(storage, plan.name.slice), plan.name)
            parts = SliceParts(
                storage,
                source,
                runner,
                log,
                self._clock,
                self.events,
                registers=job.catalog.hive is not None and job.catalog.hive.strategy == "near",
                effects=self._effects(storage, registrar, plan.name.slice),
                sealer=self._sealer(storage, streams),
            )
            yield Assembly(plan, parts, streams)
        finally:
            source.close()
            catalog.close()
            spark.stop()

    def _registrar(self, catalog: Catalog, lake: str) -> Registrar:
        return Registrar(
            catalog, lake, self.job.job, lambda message: self.events.trouble(MAIN, message)
        )

    def _effects(self, storage: Storage, registrar: Registrar, slice_name: str) -> Effects:
        parts = EffectParts(
            job=self.job.job,
            storage=storage,
            clock=self._clock,
            progress=self.events,
            register=registrar.register,
            mark_sealed=registrar.mark_sealed,
        )
        return Effects(parts, slice_name)

    def _sealer(self, storage: Storage, streams: JobStreams) -> Sealer | None:
        actions = seal_actions(self.job)
        if not actions:
            return None
        return Sealer(storage, lambda: seal_rules(self.job, streams()), actions)

    def _log_context(self, storage: Storage, slice_name: str) -> LogContext:
        return LogContext(
            storage,
            self._clock,
            unique,
            on_wait=lambda why: self.events.trouble(slice_name, why),
        )

    def _rhythm(self, until_drained: bool) -> Rhythm:
        job = self.job
        return Rhythm(
            interval_s=job.batch.interval_ms / 1000,
            clean_every_s=job.clean.every_ms / 1000,
            clean_ttl_ms=job.clean.ttl_ms,
            grace_s=job.grace_ms / 1000,
            until_drained=until_drained,
        )

    def _refine(self, spark: SparkSession, spec: TableSpec) -> TableSpec:
        """Complete a table with the columns that its `select` makes."""
        if not spec.is_decoded_by_spark:
            return spec
        try:
            return replace(spec, schema=output_schema(spark, spec))
        except PySparkException as error:
            raise JobFileInvalid(
                f"table {spec.table}: `select` or `where` cannot be run: {str(error)[:300]}",
                hint="the expressions are Spark SQL over the columns of `schema`",
            ) from error


def main(arguments: list[str] | None = None) -> int:
    """Run the job process and return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m ashore.spark.main")
    parser.add_argument("command", choices=["run", "reland"])
    parser.add_argument("job_file")
    parser.add_argument("--available-now", action="store_true")
    parser.add_argument("--jar", action="append", default=[], type=Path)
    parser.add_argument("--debug", action="store_true")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    events = EventWriter()
    try:
        job = load_job_file(options.job_file)
        process = JobProcess(job, options.jar)
        _listen(process)
        if options.command == "reland":
            process.reland()
        else:
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
    watch_parent(process.stop)


if __name__ == "__main__":
    sys.exit(main())
