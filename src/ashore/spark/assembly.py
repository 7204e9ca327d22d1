"""A job's slice put together: log, source, runner, catalog and lake, over a Spark session.

What it is: the one place where the parts of a job meet; the job process and tests use it alike.
What it promises: connections are let go of at the end; the session is left to who started it.
What it must not know: processes, signals, where events go.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ashore.base.clock import Clock, SystemClock
from ashore.base.unique import unique
from ashore.catalogs import open_catalog
from ashore.config import Job
from ashore.errors import JobFileInvalid
from ashore.landing.committer import Progress
from ashore.landing.effects import EffectParts, Effects
from ashore.landing.job import MAIN, JobStreams, lake_of, slice_plan
from ashore.landing.job_loop import JobLoop, JobParts, Rhythm
from ashore.landing.log import LandingLog, LogContext
from ashore.landing.owner import claim_tables
from ashore.landing.registrar import Registrar
from ashore.landing.sealer import Sealer
from ashore.landing.slice_loop import SliceLoop, SliceParts, SlicePlan
from ashore.landing.specs import LandingSpec
from ashore.sources.columns import KafkaAddress
from ashore.sources.kafka import KafkaSource
from ashore.spark.job_run import JobRun
from ashore.spark.reader import output_schema
from ashore.spark.runner import SparkRunner
from ashore.spark.sql.assembly import Shared, open_queries

SOURCE_TIMEOUT_S = 20.0
CATALOG_TIMEOUT_S = 10.0
CLOCK = SystemClock()


@dataclass(frozen=True, slots=True)
class Assembly:
    """A job's slice with everything that it works with."""

    job: Job
    plan: SlicePlan
    parts: SliceParts
    streams: JobStreams
    shared: Shared

    def loop(self, *, until_drained: bool) -> JobLoop:
        """Return the loop that lands the job's topics, in the job file's rhythm."""
        parts = self.parts
        is_landing = any(item.is_landed for item in self.job.tables)
        slices = [SliceLoop(self.plan, parts)] if is_landing else []
        shared = JobParts(parts.storage, parts.clock, parts.progress, self.streams.tables)
        return JobLoop(slices, self._rhythm(until_drained=until_drained), shared)

    def run(self, *, until_drained: bool) -> JobRun:
        """Return all that the job does: its topics, and its queries. Raises as `open_queries`."""
        queries = open_queries(self.job, self.shared, self._rhythm(until_drained=until_drained))
        return JobRun(self.loop(until_drained=until_drained), queries, self.parts.progress)

    def _rhythm(self, *, until_drained: bool) -> Rhythm:
        job = self.job
        return Rhythm(
            interval_s=job.batch.interval_ms / 1000,
            clean_every_s=job.clean.every_ms / 1000,
            clean_ttl_ms=job.clean.ttl_ms,
            grace_s=job.grace_ms / 1000,
            until_drained=until_drained,
        )


@contextmanager
def assembled(
    job: Job, spark: SparkSession, progress: Progress, clock: Clock = CLOCK
) -> Iterator[Assembly]:
    """Bring job, lake, Kafka, catalog and Spark together. Nothing is read or written yet."""
    lake, kafka, hive = lake_of(job), job.source.kafka, job.catalog.hive
    storage = lake.open(clock)
    address = KafkaAddress(kafka.bootstrap_servers, dict(kafka.options))
    source = KafkaSource(address.bootstrap_servers, address.options, timeout_s=SOURCE_TIMEOUT_S)
    catalog = open_catalog(hive.uri.reveal() if hive else None, timeout_s=CATALOG_TIMEOUT_S)
    try:
        registrar = Registrar(
            catalog, lake.uri, job.job, lambda message: progress.trouble(MAIN, message)
        )

        def refine(spec: LandingSpec) -> LandingSpec:
            refined = _refine(spark, spec)
            registrar.check(refined)
            return refined

        streams = JobStreams(
            job,
            source,
            lambda tables: claim_tables(storage, tables, job.job, clock.now_ms()),
            refine,
            registrar.ensure,
        )
        context = LogContext(
            storage, clock, unique, on_wait=lambda why: progress.trouble(MAIN, why)
        )
        plan = slice_plan(job, lake, streams, spark.sparkContext.defaultParallelism)
        parts = SliceParts(
            storage,
            source,
            SparkRunner(spark, address, lake, str(plan.name)),
            LandingLog(context, plan.name),
            clock,
            progress,
            registers=hive is not None,
            waits=streams.waits_for_seal,
            effects=Effects(
                EffectParts(
                    job=job.job,
                    storage=storage,
                    clock=clock,
                    progress=progress,
                    register=registrar.register,
                    mark_sealed=registrar.mark_sealed,
                    address_of=streams.seal_address,
                ),
                MAIN,
            ),
            sealer=Sealer(storage, streams.seal_rules),
        )
        shared = Shared(spark, address, lake, storage, source, registrar, clock, progress)
        yield Assembly(job, plan, parts, streams, shared)
    finally:
        source.close()
        catalog.close()


def _refine(spark: SparkSession, spec: LandingSpec) -> LandingSpec:
    """Complete a table with the columns that its `select` makes."""
    if not spec.is_decoded_by_spark:
        return spec
    try:
        return replace(spec, output=replace(spec.output, schema=output_schema(spark, spec)))
    except PySparkException as error:
        raise JobFileInvalid(
            f"table {spec.table}: `select` or `where` cannot be run: {str(error)[:300]}",
            hint="the expressions are Spark SQL over the columns of `schema`",
        ) from error
