"""What the queries of a job would be, without starting one.

What it promises: the plans that a start would make, and what a start would refuse: by Spark, by
the query's log, by its checkpoint. No topic is read, nothing is written.
"""

import tempfile
from collections.abc import Collection, Mapping
from types import MappingProxyType

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ashore.base.clock import SystemClock
from ashore.errors import AshoreError, QueryRefused
from ashore.jobs.file.tables import Table
from ashore.log.fold import EMPTY
from ashore.log.names import SliceName
from ashore.log.store.reader import read_log
from ashore.plans.checks import warn_of_late_rows, warn_of_replays
from ashore.plans.graph import PlanGraph, list_topics
from ashore.plans.operators import describe_operators
from ashore.plans.query import (
    DescribedQuery,
    PlannedQuery,
    RefusedState,
    StateCheck,
    TableQuery,
    TopicQuery,
)
from ashore.queries.spark.internals.planning import check_state
from ashore.queries.spark.sql.assembly import SparkJob, plan_queries, query_output
from ashore.queries.spark.sql.frames import PlannedFrame, QueryPlan, open_frame, output_ddl
from ashore.queries.spark.sql.refusals import do_all
from ashore.queries.spark.sql.start_checks import check_query
from ashore.queries.spark.sql.views import name_event_time
from ashore.queries.state.checkpoint import Checkpoint, open_directory
from ashore.queries.state.layout import STATE, OffsetsFile, Settings
from ashore.queries.state.outline import copy_outline
from ashore.topics.loop.definitions import definition_of
from ashore.topics.loop.sinks import Sink, sink_slice
from ashore.topics.loop.table_checks import sink_output
from ashore.topics.run.spark.causes import innermost_cause, text_of

ONCE = "exactly once"
APPEND = "at least once: rows of an interrupted batch are sent again"
NO_OUTLINES: Mapping[str, Checkpoint] = MappingProxyType({})
UPSERT = (
    "at least once: a repeat ends with the same newest row per key; deleted keys have no tombstone"
)


def describe_queries(parts: SparkJob) -> tuple[DescribedQuery, ...]:
    """Return what each query of the job would be, compared with its log and its checkpoint.

    Raises QueryRefused, CheckpointUnfit, JobFileInvalid, LogDamaged, StorageError.
    """
    plans = plan_queries(parts, parts.assembly.rhythm(until_drained=True))
    return tuple(do_all(plans, lambda each: _describe(parts, *each)))


def plan_stored(
    parts: SparkJob, outlines: Mapping[str, Checkpoint] = NO_OUTLINES
) -> tuple[PlannedQuery, ...]:
    """Return what each query of the job would do, whatever state is there.

    `outlines`: of checkpoints, by slice, which Spark is to compare with the query; on this machine,
    see `copy_outline`.

    Raises QueryRefused, JobFileInvalid, SparkUnknown.
    """
    plans = plan_queries(parts, parts.assembly.rhythm(until_drained=True))
    return tuple(do_all(plans, lambda each: _plan(parts, *each, outlines)))


def open_query(
    parts: SparkJob, query: str, log: SliceName | None = None
) -> tuple[QueryPlan, PlannedFrame]:
    """Return what fills a table or a topic, and its frame, whatever state is there.

    `log`: the slice that says where its topics begin; None: nothing is read of them.

    Raises QueryRefused, JobFileInvalid, SparkUnknown.
    """
    for item, plan in plan_queries(parts, parts.assembly.rhythm(until_drained=True)):
        if query == (item.table if isinstance(item, Table) else item.topic):
            name = log or sink_slice(parts.job.job, item)
            fold = read_log(parts.assembly.environment.storage, name) if log else EMPTY
            return plan, open_frame(parts.spark, parts.kafka, plan, name, fold)
    raise QueryRefused(f"no INSERT of {parts.job.path} fills {query}", hint="name one that does")


def _plan(
    parts: SparkJob, item: Sink, plan: QueryPlan, outlines: Mapping[str, Checkpoint]
) -> PlannedQuery:
    name = sink_slice(parts.job.job, item)
    planned = open_frame(parts.spark, parts.kafka, plan, name, EMPTY)
    filled = item.table if isinstance(item, Table) else item.topic
    stored = plan.describe(planned.graph, planned.frame.sparkSession.version)
    outline = outlines.get(name.slice)
    says = compare_state(planned, plan.mode, outline) if outline else None
    table = None
    if isinstance(item, Table):
        table = definition_of(query_output(item, plan, output_ddl(planned.frame)))
    return PlannedQuery(filled, name.slice, stored, plan.digest, says, table)


def _describe(parts: SparkJob, item: Sink, plan: QueryPlan) -> DescribedQuery:
    name = sink_slice(parts.job.job, item)
    planned = open_frame(parts.spark, parts.kafka, plan, name, EMPTY)
    columns, graph = output_ddl(planned.frame), planned.graph
    operators = tuple(describe_operators(graph))
    storage = parts.assembly.environment.storage
    check_query(plan, name, read_log(storage, name), planned, storage)
    late = warn_of_late_rows(graph, _event_times(plan, planned.frame.sparkSession))
    warnings = (*warn_of_replays(graph, plan.texts), *late)
    common = (name.slice, columns, plan.attempts.uri, graph.sources, operators, warnings)
    # What is promised of a table is not promised of a topic.
    if isinstance(item, Table):
        output = sink_output(item, columns)
        return TableQuery(output.table, tuple(output.partition_by), ONCE, *common)
    guarantee = UPSERT if item.mode == "upsert" else APPEND
    return TopicQuery(item.topic, item.mode, tuple(item.key), guarantee, *common)


def _event_times(plan: QueryPlan, session: SparkSession) -> dict[str, str]:
    """Return the event time of each view, by its topics; none of topics that two views read."""
    views = [each for each in plan.read_views if each.has_watermark]
    reads = [",".join(each.topics) for each in views]
    return {
        topics: f"{view.name}.{name_event_time(session.table(view.name), view)}"
        for topics, view in zip(reads, views, strict=True)
        if reads.count(topics) == 1
    }


# Of these Spark compares all operators at once; any other is of the first one that it meets.
_OF_ALL = "STREAMING_STATEFUL_OPERATOR_"


def compare_state(planned: PlannedFrame, mode: str, outline: Checkpoint) -> StateCheck:
    """Return what Spark alone says of a query and the state that is there.

    An answer, or why there is none; never an error. Spark works on copies of the outline.

    `mode`: see OutputMode. `outline`: see `copy_outline`; on this machine.
    """
    try:
        offsets = outline.read_offsets(outline.read_position().planned)
        return _compare_sources(planned.graph, offsets) or _compare(planned, mode, outline, offsets)
    except AshoreError as error:
        return StateCheck(unknown=error.message)
    except (PySparkException, Py4JError) as error:
        return StateCheck(unknown=innermost_cause(text_of(error)))


def _compare_sources(graph: PlanGraph, offsets: OffsetsFile) -> StateCheck | None:
    """Return how Spark refuses another number of streams: it knows them by their order."""
    was, now = len(offsets.sources), len(list_topics(graph.sources))
    if was == now:
        return None
    return StateCheck(
        f"There are [{was}] sources in the checkpoint offsets and now there are [{now}]"
    )


def _compare(
    planned: PlannedFrame, mode: str, outline: Checkpoint, offsets: OffsetsFile
) -> StateCheck:
    settings = offsets.settings or Settings()
    error = _ask(planned, mode, outline, settings, None)
    if not error or error.startswith(_OF_ALL):
        return StateCheck(error)
    numbers = [node.state.operator_id for node in planned.graph.nodes if node.state]
    if len(numbers) == 1:
        return StateCheck(error, (RefusedState(numbers[0], error),))
    says = [RefusedState(each, _ask(planned, mode, outline, settings, [each])) for each in numbers]
    return StateCheck(error, tuple(each for each in says if each.error))


def _ask(
    planned: PlannedFrame,
    mode: str,
    outline: Checkpoint,
    settings: Settings,
    operators: Collection[int] | None,
) -> str:
    """Return the error of the first operator that Spark refuses: see `copy_outline`."""
    with tempfile.TemporaryDirectory(prefix="ashore-check-") as directory:
        copy = open_directory(f"{directory}/checkpoint", SystemClock())
        done = copy_outline(outline, copy, operators)
        if copy.read_position().planned == done:
            # As at a start: of a join Spark reads what the operator said before a planned batch.
            copy.plan(done + 1, copy.read_offsets(done))
        return check_state(planned.frame, mode, f"{copy.uri}/{STATE}", done + 1, settings)
