"""The queries of a job put together: SQL, views, sinks, checkpoints.

What it is: from `sql` and `tables` of a job file to one loop for each INSERT.
What it promises: every table without a topic has one INSERT, and every INSERT such a table; what
Spark refuses is told before the first query starts.
What it must not know: processes, signals.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pyspark.sql import SparkSession

from ashore.base.clock import Clock
from ashore.base.unique import unique
from ashore.checkpoints.roots import open_roots
from ashore.config import Job, Table, match_topics, select_sources
from ashore.config.model import FedTopic
from ashore.config.sql_checks import view_name
from ashore.config.tables import Seal
from ashore.config.values import nearest
from ashore.errors import JobFileInvalid, QueryRefused, check
from ashore.landing.committer import Progress
from ashore.landing.effects import EffectParts, Effects
from ashore.landing.fed import Fed, fed_by_sql, fed_output, fed_slice
from ashore.landing.job import first_offset_of, landing_spec
from ashore.landing.job_loop import Rhythm
from ashore.landing.log import LandingLog, LogContext
from ashore.landing.owner import claim_tables
from ashore.landing.query_sink import QuerySink, QuerySlice, SinkParts
from ashore.landing.registrar import Registrar
from ashore.protocol.fold import EMPTY
from ashore.sources.base import Source
from ashore.sources.columns import KafkaAddress
from ashore.spark.internals import list_topics
from ashore.spark.sql.frames import QueryPlan, open_frame, output_ddl
from ashore.spark.sql.query import QueryParts, SqlQuery
from ashore.spark.sql.query_loop import QueryLoop
from ashore.spark.sql.script import Insert, Script, parse_script
from ashore.spark.sql.topics import plan_topic
from ashore.spark.sql.tuned import query_settings
from ashore.spark.sql.views import View
from ashore.storage.base import Storage
from ashore.storage.open import LakeAddress

_NEITHER = "add an item without a topic for it to `tables`, or a topic to `sql.topics`"


@dataclass(frozen=True, slots=True)
class Shared:
    """What the queries of a job share with the slice that lands its topics."""

    spark: SparkSession
    kafka: KafkaAddress
    lake: LakeAddress
    storage: Storage
    source: Source
    registrar: Registrar
    clock: Clock
    progress: Progress


def open_queries(job: Job, shared: Shared, rhythm: Rhythm) -> list[QueryLoop]:
    """Return the loops of a job's queries. Nothing is read, and no query runs yet.

    Raises QueryRefused, JobFileInvalid, TableOwned, SourceError.
    """
    plans = plan_queries(job, shared, rhythm.grace_s / 2)
    loops = [_loop(job, shared, rhythm, item, plan) for item, plan in plans]
    outputs = [each.query.parts.sink.plan.output for each in loops]
    tables = [output for output in outputs if output is not None]
    claim_tables(shared.storage, [each.table for each in tables], job.job, shared.clock.now_ms())
    shared.registrar.ensure(tables)
    return loops


def plan_queries(job: Job, shared: Shared, patience_s: float) -> list[tuple[Fed, QueryPlan]]:
    """Return the tables and topics that SQL feeds, each with its query.

    Raises QueryRefused, JobFileInvalid, SourceError.
    """
    if job.sql is None:
        return []
    script = parse_script(shared.spark, read_sql(job))
    fed = fed_by_sql(job)
    views = read_views(job, shared.source)
    planned: list[tuple[Fed, QueryPlan]] = []
    for name, insert in _match(script, fed).items():
        item = fed[name]
        slice_name = fed_slice(job.job, item)
        roots = open_roots(job, slice_name, shared.lake, shared.storage, shared.clock)
        plan = QueryPlan(
            script=script,
            insert=insert,
            views=views,
            roots=roots,
            interval_ms=job.batch.interval_ms,
            refresh_ms=job.sql.refresh_ms,
            patience_s=patience_s,
            settings=query_settings(job, _cores(shared), roots.newest()),
            first_of=first_offset_of(job),
            topic=plan_topic(item, job.sql.producer) if isinstance(item, FedTopic) else None,
        )
        planned.append((item, plan))
    return planned


def read_sql(job: Job) -> str:
    """Return the job's statements. Raises JobFileInvalid."""
    check(job.sql is not None, "the job has SQL")
    if job.sql is None or job.sql.file is None:
        return (job.sql.text if job.sql else None) or ""
    path = Path(job.path).parent / job.sql.file
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        line = job.line_of("sql", "file")
        raise JobFileInvalid(
            f"{job.path}:{line}: sql.file: {path} cannot be read: {error}",
            hint="name a file beside the job file, or write an absolute path",
            file=job.path,
            line=line,
            key="sql.file",
        ) from None


def _match(script: Script, fed: Mapping[str, Fed]) -> dict[str, Insert]:
    """Return the INSERT of each table and topic. Raises QueryRefused."""
    inserts: dict[str, Insert] = {}
    for insert in script.inserts:
        if insert.table not in fed:
            near = nearest(insert.table, list(fed))
            hint = f"write {near}" if near else _NEITHER
            text = f"no table {insert.table} is fed by SQL, nor a topic of this name"
            raise QueryRefused(text, hint=hint)
        if insert.table in inserts:
            raise QueryRefused(
                f"{insert.table} is filled by two statements",
                hint="write one INSERT, with `UNION ALL` between the two parts",
            )
        inserts[insert.table] = insert
    idle = sorted(fed.keys() - inserts.keys())
    if idle:
        raise QueryRefused(
            f"no INSERT fills {', '.join(idle)}", hint=f"write `INSERT INTO {idle[0]} SELECT ...;`"
        )
    return inserts


def read_views(job: Job, source: Source) -> tuple[View, ...]:
    """Return what SQL can read. Raises JobFileInvalid, SourceError."""
    has_patterns = any(item.is_pattern for item in job.tables)
    existing = source.list_streams() if has_patterns else []
    found: dict[str, View] = {}
    for topic, resolved in sorted(match_topics(job, select_sources(job, existing)).items()):
        spec = landing_spec(resolved)
        view = View(view_name(spec.table), (topic,), spec, resolved.spec.event_time is not None)
        before = found.get(spec.table)
        if before is not None and before.spec != spec:
            raise JobFileInvalid(
                f"the topics {before.topics[0]} and {topic} fill {spec.table} in different ways, "
                "so that SQL cannot read them as one",
                hint="give one of them a table of its own",
            )
        topics = (*before.topics, topic) if before is not None else (topic,)
        found[spec.table] = replace(view, topics=topics)
    return tuple(found.values())


def _cores(shared: Shared) -> int:
    return int(shared.spark.sparkContext.defaultParallelism)


def _loop(job: Job, shared: Shared, rhythm: Rhythm, item: Fed, plan: QueryPlan) -> QueryLoop:
    name = fed_slice(job.job, item)
    frame = open_frame(shared.spark, shared.kafka, plan, name, EMPTY)
    output, remember_ms = None, Seal().remember_ms
    if isinstance(item, Table):
        output = fed_output(item, output_ddl(frame))
        shared.registrar.check(output)
        remember_ms = item.seal.remember_ms
    storage, progress = shared.storage, shared.progress

    def on_wait(why: str) -> None:
        progress.trouble(name.slice, why)

    context = LogContext(storage, shared.clock, unique, on_wait=on_wait)
    register = shared.registrar.register
    effects = EffectParts(job.job, storage, shared.clock, progress, register=register)
    sink = QuerySink(
        QuerySlice(shared.lake, name, output, remember_ms),
        SinkParts(
            storage,
            LandingLog(context, name),
            shared.clock,
            progress,
            registers=job.catalog.hive is not None,
            effects=Effects(effects, name.slice),
        ),
    )

    parts = QueryParts(shared.spark, shared.kafka, shared.source, sink)
    return QueryLoop(SqlQuery(plan, parts, list_topics(frame)), rhythm)
