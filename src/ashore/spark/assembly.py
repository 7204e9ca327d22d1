"""A job over a Spark session: what `ashore.landing.assembly` needs of Spark, and the job's queries.

What it is: `SparkJob`, for the job process, and for tests and benchmarks that share a session.
What it promises: connections are let go of at the end; the session is left to who started it.
What it must not know: processes, signals, where events go.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from ashore.base.clock import Clock, SystemClock
from ashore.config import Job
from ashore.errors import JobFileInvalid
from ashore.jobs.progress import Progress
from ashore.landing.assembly import JobAssembly, kafka_address, opened_environment
from ashore.landing.batch import BatchRunner
from ashore.landing.job import MAIN
from ashore.landing.job_loop import JobLoop
from ashore.landing.slice_loop import SliceLoop
from ashore.landing.specs import LandingSpec
from ashore.protocol.names import SliceName
from ashore.sources.columns import KafkaAddress
from ashore.spark.internals import explain_refusal
from ashore.spark.reader import ExpressionRefusedError, output_schema
from ashore.spark.runner import SparkRunner
from ashore.spark.sql.assembly import SqlParts, open_queries

CLOCK = SystemClock()


@dataclass(frozen=True, slots=True)
class SparkJob:
    """A job with everything that it works with."""

    assembly: JobAssembly
    spark: SparkSession
    kafka: KafkaAddress
    runner: BatchRunner  # of the slice of its topics

    @property
    def sql(self) -> SqlParts:
        """What its queries are put together from."""
        return SqlParts(self.assembly, self.spark, self.kafka)

    @property
    def parallelism(self) -> int:
        """How many tasks can run side by side."""
        return int(self.spark.sparkContext.defaultParallelism)

    def slice(self) -> SliceLoop:
        """Return the worker that lands the job's topics."""
        return self.assembly.slice(self.runner, self.parallelism)

    def loop(self, *, until_drained: bool) -> JobLoop:
        """Return what runs all that the job does: its topics, and its queries.

        Raises as `open_queries`. Its probe is `runner`.
        """
        queries = open_queries(self.sql, until_drained=until_drained)
        slices = [self.slice()] if self.assembly.has_topics else []
        return self.assembly.loop(slices, queries, until_drained=until_drained)


@contextmanager
def assembled(
    job: Job,
    spark: SparkSession,
    progress: Progress,
    clock: Clock = CLOCK,
    accepted_by: str = "",
) -> Iterator[SparkJob]:
    """Bring job, lake, Kafka, catalog and Spark together. Nothing is read or written yet.

    `accepted_by`: see Environment.
    """
    with opened_environment(job, progress, clock, accepted_by) as environment:
        address = kafka_address(job)
        assembly = JobAssembly(job, environment, lambda spec: refine(spark, spec))
        runner = SparkRunner(spark, address, environment.lake, str(SliceName(job.job, MAIN)))
        yield SparkJob(assembly, spark, address, runner)


def refine(spark: SparkSession, spec: LandingSpec) -> LandingSpec:
    """Complete a table with the columns that its `select` makes. Raises JobFileInvalid."""
    if not spec.is_decoded_by_spark:
        return spec
    try:
        return replace(spec, output=replace(spec.output, schema=output_schema(spark, spec)))
    except ExpressionRefusedError as refused:
        refusal = explain_refusal(refused.error)
        message = f"`{refused.key[0]}` of table {spec.table} is not valid: {refusal.sentence}"
        if refusal.hint:
            raise JobFileInvalid(message, hint=refusal.hint, part=refused.key) from refused
        raise JobFileInvalid(
            message,
            hint="Spark evaluates these expressions for each record, over the columns of `schema`: "
            "aggregates, window functions and generators such as `explode` are not supported",
            part=refused.key,
        ) from refused
