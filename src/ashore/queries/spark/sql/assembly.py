"""A job over a Spark session, and its queries put together: SQL, views, sinks, checkpoints.

What it is: `SparkJob`, for the job process, and for tests and benchmarks that share a session; from
`sql` and `tables` of a job file to one worker for each INSERT.
What it promises: connections are closed at the end; the session is left to its owner. Every table
without a topic has one INSERT, and every INSERT such a table; what Spark refuses is reported before
the first query starts.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from statistics import median

from pyspark.sql import SparkSession

from ashore.base.clock import Clock, SystemClock
from ashore.errors import CheckpointUnfit, JobFileInvalid, check, fail
from ashore.jobs.file import Job, Table, check_views, match_topics, select_sources
from ashore.jobs.file.all_tables import refuse_target
from ashore.jobs.file.masking import show_settings
from ashore.jobs.file.model import SinkTopic
from ashore.jobs.file.source_text import WrittenText, written_file
from ashore.jobs.file.sql_checks import view_name
from ashore.jobs.file.tables import SealSection
from ashore.log.fold import EMPTY
from ashore.log.names import SliceName
from ashore.log.progress import Progress
from ashore.plans.graph import list_topics
from ashore.queries.spark.internals.event_times import TimeMark
from ashore.queries.spark.internals.reading import read_sources
from ashore.queries.spark.internals.refusals import explain_refusal
from ashore.queries.spark.sql.batch_limits import BatchLimits
from ashore.queries.spark.sql.batches import QueryParts
from ashore.queries.spark.sql.frames import QueryPlan, open_frame, output_ddl
from ashore.queries.spark.sql.functions import load_functions
from ashore.queries.spark.sql.refusals import do_all, refused_at
from ashore.queries.spark.sql.script import Insert, Script, parse_script
from ashore.queries.spark.sql.settings import (
    NULL_FOR_ERRORS,
    Batches,
    TuningGoals,
    state_settings,
    tune,
)
from ashore.queries.spark.sql.sql_query import SqlQuery
from ashore.queries.spark.sql.topics import plan_topic
from ashore.queries.spark.sql.views import View
from ashore.queries.state.attempts import open_attempts
from ashore.queries.state.checkpoint import Checkpoint
from ashore.queries.state.files import CheckpointFile
from ashore.queries.state.layout import PARTITIONS, BatchLog, StateKind, StatePath, TablePath
from ashore.topics.loop.assembly import JobAssembly, kafka_address, opened_environment
from ashore.topics.loop.job import MAIN, first_offset_of, landing_spec
from ashore.topics.loop.job_loop import JobLoop, Rhythm
from ashore.topics.loop.sinks import Sink, sink_slice, sinks_of
from ashore.topics.loop.slice_loop import SliceLoop
from ashore.topics.loop.table_checks import sink_output
from ashore.topics.read.reading import KafkaAddress
from ashore.topics.read.source import Source
from ashore.topics.run.spark.reader import ExpressionRefusedError, output_schema
from ashore.topics.run.spark.runner import SparkRunner
from ashore.topics.write.batch import BatchRunner, LandingSpec, OutputSpec

_CLOCK = SystemClock()


@dataclass(frozen=True, slots=True)
class SparkJob:
    """A job over a Spark session, with everything that it works with."""

    assembly: JobAssembly
    spark: SparkSession
    kafka: KafkaAddress
    runner: BatchRunner  # of the slice of its topics

    @property
    def job(self) -> Job:
        """The job file."""
        return self.assembly.job

    @property
    def cores(self) -> int:
        """How many tasks can run side by side."""
        return int(self.spark.sparkContext.defaultParallelism)

    def slice(self) -> SliceLoop:
        """Return the worker that lands the job's topics."""
        return self.assembly.slice(self.runner, self.cores)

    def loop(self, *, until_drained: bool) -> JobLoop:
        """Return what runs all that the job does: its topics, and its queries.

        Raises as `open_queries`. Its probe is `runner`.
        """
        queries = open_queries(self, until_drained=until_drained)
        slices = [self.slice()] if self.assembly.has_topics else []
        return self.assembly.loop(slices, queries, until_drained=until_drained)


@contextmanager
def assembled(
    job: Job,
    spark: SparkSession,
    progress: Progress,
    clock: Clock = _CLOCK,
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
    if not spec.is_selected:
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


def open_queries(parts: SparkJob, *, until_drained: bool) -> list[SqlQuery]:
    """Return the workers of a job's queries. Nothing is read, and no query runs yet.

    Raises QueryRefused, JobFileInvalid, TableOwned, SourceError.
    """
    rhythm = parts.assembly.rhythm(until_drained=until_drained)
    queries = do_all(plan_queries(parts, rhythm), lambda each: _query(parts, rhythm, *each))
    outputs = [each.parts.sink.plan.output for each in queries]
    tables = [output for output in outputs if output is not None]
    parts.assembly.claim(table for each in tables for table in each.tables)
    parts.assembly.ensure(tables)
    return queries


def plan_queries(
    parts: SparkJob, rhythm: Rhythm, loaded: tuple[View, ...] | None = None
) -> list[tuple[Sink, QueryPlan]]:
    """Return the tables and topics that SQL writes, each with its query.

    `loaded`: the views of topics; without, those of the topics that the source has.

    Raises QueryRefused, JobFileInvalid, SourceError.
    """
    job, around = parts.job, parts.assembly.environment
    if job.sql is None:
        return []
    script = parse_script(parts.spark, read_sql(job))
    sinks = sinks_of(job)
    views = read_views(job, around.source) if loaded is None else loaded
    functions = load_functions(job)
    planned: list[tuple[Sink, QueryPlan]] = []
    for name, insert in _match(script, sinks).items():
        item = sinks[name]
        slice_name = sink_slice(job.job, item)
        attempts = open_attempts(job, slice_name, around.lake, around.storage, around.clock)
        plan = QueryPlan(
            script=script,
            insert=insert,
            views=views,
            attempts=attempts,
            interval_ms=job.batch.interval_ms,
            until_drained=rhythm.until_drained,
            refresh_ms=job.sql.refresh_ms,
            patience_s=rhythm.grace_s / 2,
            settings={
                **query_settings(job, parts.cores, attempts.newest()),
                **(NULL_FOR_ERRORS if item.on_error == "null" else {}),
            },
            limits=BatchLimits(job.batch.max_records, job.batch.max_bytes),
            first_of=first_offset_of(job),
            mark=TimeMark(parts.spark),
            topic=plan_topic(item, job.sql.producer) if isinstance(item, SinkTopic) else None,
            functions=functions,
            closes_at_once=job.sql.close_windows == "at_once",
            leaves_aside=item.on_error == "dead_letter",
            job_settings=show_settings(job),
        )
        planned.append((item, plan))
    return planned


def read_sql(job: Job) -> WrittenText:
    """Return the job's statements. Raises JobFileInvalid."""
    if job.written_sql is not None:
        return job.written_sql
    file = (job.sql.file if job.sql else None) or fail("the job has SQL")
    path = Path(job.path).parent / file
    try:
        return written_file(path.read_text("utf-8-sig"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        line = job.line_of("sql", "file")
        raise JobFileInvalid(
            f"{job.path}:{line}: sql.file: {path} cannot be read: {error}",
            hint="name a file beside the job file, or write an absolute path",
            file=job.path,
            line=line,
            key="sql.file",
        ) from None


def _match(script: Script, sinks: Mapping[str, Sink]) -> dict[str, Insert]:
    """Return the INSERT of each table and topic. Raises QueryRefused."""
    inserts: dict[str, Insert] = {}

    def take(insert: Insert) -> None:
        if insert.table not in sinks:
            text, hint = refuse_target(insert.table, sinks)
            raise refused_at(script.sql.place(insert.start), text, hint=hint)
        if insert.table in inserts:
            raise refused_at(
                script.sql.place(insert.start),
                f"{insert.table} is written by two statements",
                hint="write one INSERT, with `UNION ALL` between the two parts",
            )
        inserts[insert.table] = insert

    do_all(script.inserts, take)
    idle = sorted(sinks.keys() - inserts.keys())
    if idle:
        raise refused_at(
            script.sql.place(0),
            f"no INSERT writes {', '.join(idle)}",
            hint=f"write `INSERT INTO {idle[0]} SELECT ...;`",
        )
    return inserts


def read_views(job: Job, source: Source) -> tuple[View, ...]:
    """Return what SQL can read. Raises JobFileInvalid, SourceError."""
    has_patterns = any(item.is_pattern for item in job.tables)
    return read_views_of(job, source.list_streams() if has_patterns else [])


def read_views_of(job: Job, existing: Sequence[str]) -> tuple[View, ...]:
    """Return what SQL can read, where these topics exist. Raises JobFileInvalid."""
    found: dict[str, View] = {}
    matched = match_topics(job, select_sources(job, existing))
    check_views(job, matched.values())
    for topic, resolved in sorted(matched.items()):
        spec = landing_spec(resolved)
        view = View(view_name(spec.table), (topic,), spec, resolved.spec.event_time is not None)
        before = found.get(spec.table)
        if before is not None and before.spec != spec:
            raise JobFileInvalid(
                f"the topics {before.topics[0]} and {topic} land in {spec.table} with different "
                "settings, so SQL cannot read them as one view",
                hint="give one of them a table of its own",
            )
        topics = (*before.topics, topic) if before is not None else (topic,)
        found[spec.table] = replace(view, topics=topics)
    return tuple(found.values())


def query_output(item: Table, plan: QueryPlan, ddl: str) -> OutputSpec:
    """Return how the rows of an INSERT, whose columns are `ddl`, become files.

    Raises QueryRefused.
    """
    has_headers = any(view.spec.headers for view in plan.read_views)
    output = sink_output(item, ddl)
    return replace(output, headers_aside=output.leaves_aside and has_headers)


def _query(parts: SparkJob, rhythm: Rhythm, item: Sink, plan: QueryPlan) -> SqlQuery:
    name = sink_slice(parts.job.job, item)
    frame, graph = open_frame(parts.spark, parts.kafka, plan, name, EMPTY)
    plan = replace(plan, views=tuple(view.narrow(graph) for view in plan.views))
    output, remember_ms = None, SealSection().remember_ms
    if isinstance(item, Table):
        output = query_output(item, plan, output_ddl(frame))
        parts.assembly.check(output)
        remember_ms = item.seal.remember_ms
    topic = plan.topic.topic if plan.topic else ""
    sink = parts.assembly.sink(name, output, remember_ms, topic)
    around = parts.assembly.environment
    query_parts = QueryParts(parts.spark, parts.kafka, around, sink, rhythm.clean)
    return SqlQuery(plan, query_parts, list_topics(read_sources(frame)))


def query_settings(job: Job, cores: int, checkpoint: Checkpoint | None = None) -> dict[str, str]:
    """Return the settings of an INSERT; without a checkpoint those of a first start.

    Reads only. State that is there keeps the number of partitions that it was begun with, unless
    the job file names one.

    Raises JobFileInvalid, StorageError; CheckpointUnfit where the job file names another number
    of partitions than the state has.
    """
    check(job.sql is not None, "the job has SQL")
    partitions = job.sql.state_partitions if job.sql else None
    keep_ms = job.sql.keep_ms if job.sql else 0
    there = read_partitions(checkpoint) if checkpoint is not None else None
    interval_s, keep_s = job.batch.interval_ms / 1000, keep_ms / 1000
    place = job.place_of_checkpoints
    goals = TuningGoals(interval_s, keep_s, cores, partitions or there, place.startswith("file:"))
    batches = measure_batches(checkpoint) if checkpoint is not None else None
    is_hdfs = place.startswith("hdfs:")
    settings = state_settings(tune(goals, batches), job.spark_application.conf, is_hdfs=is_hdfs)
    if checkpoint is not None and there is not None and settings[PARTITIONS] != str(there):
        _refuse_other_partitions(checkpoint, there, settings[PARTITIONS])
    return settings


def _refuse_other_partitions(checkpoint: Checkpoint, there: int, expected: str) -> None:
    """Refuse another number for state that is there: Spark would continue with the old one."""
    if checkpoint.has_state():
        raise CheckpointUnfit(
            f"{checkpoint.uri}: the state has {there} partitions, but the job file has {expected}",
            hint=f"write `state_partitions: {there}`, or remove the key; to change the number, "
            f"stop the job and run `ashore checkpoint rescale JOB.yaml --partitions {expected}`",
            why="other_partitions",
        )


SAMPLED = 4
NEWEST = 20  # gaps between batches: what follows a backlog, or a new interval, soon counts


def measure_batches(checkpoint: Checkpoint) -> Batches | None:
    """Return measures of the last batches; None if files do not show them. Raises StorageError.

    At most SAMPLED partitions of each operator are read, so that a start does not take longer for a
    large state.
    """
    begun = checkpoint.list_batches(BatchLog.OFFSETS).values()
    begun_ms = sorted(each.modified_ms for each in begun)[-NEWEST - 1 :]
    gaps_ms = [after - before for before, after in pairwise(begun_ms)]
    found = list(_read_stores(checkpoint))
    if not found or not gaps_ms or median(gaps_ms) <= 0:
        return None
    return Batches(
        interval_s=median(gaps_ms) / 1000,
        changelog_bytes=sum(changelog * count for changelog, _, count in found),
        snapshot_bytes=sum(snapshot * count for _, snapshot, count in found),
        stores=round(sum(count for *_, count in found)),
    )


def read_partitions(checkpoint: Checkpoint) -> int | None:
    """Return into how many partitions the state is cut. Raises StorageError.

    None where nothing was begun, and where the file is not as Spark writes it: what is wrong with
    the checkpoint its query reports when it starts.
    """
    begun = checkpoint.list_batches(BatchLog.OFFSETS)
    if not begun:
        return None
    try:
        settings = checkpoint.read_offsets(max(begun)).settings
    except CheckpointUnfit:
        return None
    return settings.partitions if settings else None


def _read_stores(checkpoint: Checkpoint) -> Iterator[tuple[float, float, float]]:
    """Yield bytes of changelogs and snapshots of stores, and how many stores each stands for."""
    for operator, partitions in checkpoint.list_partitions().items():
        sampled = partitions[:: max(1, len(partitions) // SAMPLED)]
        for partition in sampled:
            for files in checkpoint.list_stores(operator, partition).values():
                yield *_measure(files), len(partitions) / len(sampled)


def _measure(files: Sequence[CheckpointFile]) -> tuple[float, float]:
    """Return the bytes of a changelog, and what a snapshot adds."""
    changelogs = [each.size_bytes for each in files if _is(each, StateKind.CHANGELOG)]
    snapshots_ms = sorted(
        each.modified_ms for each in files if _is(each, StateKind.ROCKSDB_SNAPSHOT)
    )
    tables = [each for each in files if isinstance(each.of, TablePath)]
    rounds = len(snapshots_ms) - 1
    if rounds > 0:
        # Tables that came with the oldest snapshot hold what was there before it.
        tables = [each for each in tables if each.modified_ms > snapshots_ms[0]]
    added = sum(each.size_bytes for each in tables)
    # The median: a first batch is often unlike the others.
    return median(changelogs or [0]), added / max(rounds, 1)


def _is(file: CheckpointFile, kind: StateKind) -> bool:
    return isinstance(file.of, StatePath) and file.of.kind is kind
