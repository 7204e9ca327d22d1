"""A job over a Spark session: what its assembly needs of Spark, and the job's queries.

What it is: `SparkJob`, for the job process, and for tests and benchmarks that share a session.
What it promises: connections are closed at the end; the session is left to its owner.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from ashore.base.clock import Clock, SystemClock
from ashore.errors import JobFileInvalid
from ashore.jobs.file import Job
from ashore.log.names import SliceName
from ashore.log.progress import Progress
from ashore.queries.spark.internals import explain_refusal
from ashore.queries.spark.sql.assembly import SqlParts, open_queries
from ashore.topics.loop.assembly import JobAssembly, kafka_address, opened_environment
from ashore.topics.loop.job import MAIN
from ashore.topics.loop.job_loop import JobLoop
from ashore.topics.loop.slice_loop import SliceLoop
from ashore.topics.read.columns import KafkaAddress
from ashore.topics.run.spark.reader import ExpressionRefusedError, output_schema
from ashore.topics.run.spark.runner import SparkRunner
from ashore.topics.write.batch import BatchRunner
from ashore.topics.write.specs import LandingSpec

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
