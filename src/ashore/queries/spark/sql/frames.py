"""What an INSERT selects, as a streaming frame.

What it is: `QueryPlan`, all that is known of a query before it starts, and its frame, in a session
of its own.
What it promises: what Spark refuses is refused here, in words, before anything is read.
"""

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from ashore.errors import QueryRefused
from ashore.jobs.file.values import MASK
from ashore.jobs.kafka_options import SECRET_NAME
from ashore.log.fold import Fold
from ashore.log.names import SliceName
from ashore.log.query import Letter
from ashore.plans.checks import check_leaving_aside
from ashore.plans.graph import GRAPH_FORM, PlanGraph, StoredPlan, list_topics
from ashore.plans.hints import check_all_placed, find_ids, strip_ids
from ashore.plans.text import find_read, mask_literals, name_made, normalise_sql
from ashore.queries.spark.internals.event_times import TimeMark
from ashore.queries.spark.internals.reading import check_streaming
from ashore.queries.spark.sql.batch_limits import BatchLimits
from ashore.queries.spark.sql.functions import NO_FUNCTIONS, Functions
from ashore.queries.spark.sql.refusals import explain_plan, refused_at
from ashore.queries.spark.sql.script import Insert, Script, ViewText, select, select_by_settings
from ashore.queries.spark.sql.settings import NULL_FOR_ERRORS, open_session
from ashore.queries.spark.sql.topics import COUNTED, TopicPlan, check_topic
from ashore.queries.spark.sql.views import (
    PartReading,
    View,
    leave_out,
    make_view,
    open_stream,
    open_unread,
    plan_reading,
)
from ashore.queries.state.attempts import Attempts
from ashore.topics.read.reading import KafkaAddress
from ashore.topics.read.source import FirstOffset

# What Spark writes as ${env:NAME} is replaced where a view is made: the way for a password of JDBC.
VARIABLES = {"spark.sql.variable.substitute": "true"}


class PlannedFrame(NamedTuple):
    """A streaming frame, and what it does: Spark takes a third of a second to plan one."""

    frame: DataFrame
    graph: PlanGraph


_LOOKS = 4  # in an interval, where windows are closed at once


@dataclass(frozen=True)
class QueryPlan:
    """What a query is: its INSERT, the views of its job, where its state is."""

    script: Script
    insert: Insert
    views: tuple[View, ...]
    attempts: Attempts
    interval_ms: int
    until_drained: bool  # it ends when everything that was there has been read
    refresh_ms: int  # from one listing to the next of files that are read as a table
    patience_s: float  # how long a stop waits for the batch under way
    settings: Mapping[str, str]
    limits: BatchLimits
    first_of: Callable[[str, bool], FirstOffset]
    mark: TimeMark  # the watermark that the next batch's records are late by
    topic: TopicPlan | None = None  # None: the rows go into a table
    functions: Functions = NO_FUNCTIONS
    leaves_aside: bool = False  # what SQL cannot compute becomes a dead letter
    offsets_max: Mapping[str, int] = field(default_factory=dict)  # of each view, a batch
    job_settings: tuple[tuple[str, str], ...] = ()  # what the job file says, without secrets
    left_out: tuple[Letter, ...] = ()  # records that the log says are left out
    closes_at_once: bool = False  # windows, by a batch of their own

    @property
    def mode(self) -> str:
        """What Spark hands over: rows that are final, or those that a batch has changed."""
        return "update" if self.topic and self.topic.is_upsert else "append"

    @property
    def trigger_ms(self) -> int:
        """How often Spark looks whether there is a batch to run.

        Records are read once an interval; what a batch has made final, Spark hands over in a batch
        without records, which it runs as soon as it looks again.
        """
        return max(1, self.interval_ms // _LOOKS) if self.closes_at_once else self.interval_ms

    @property
    def makes_nulls(self) -> bool:
        """Whether what SQL cannot compute is NULL."""
        return NULL_FOR_ERRORS.items() <= self.settings.items()

    @cached_property
    def digest(self) -> str:
        """Digest of what the query computes: its SQL, and the views that it reads."""
        views = sorted((view.describe() for view in self.read_views), key=json.dumps)
        into: list[object] = [self.topic.describe()] if self.topic else []
        if self.makes_nulls:
            into.append("on_error: null")
        if self._functions_called:
            into.append(["functions", self._functions_called])
        if self.leaves_aside:
            into.append("on_error: dead_letter")
        return hashlib.sha256(json.dumps([self.texts, views, *into]).encode()).hexdigest()

    @property
    def written(self) -> tuple[str, ...]:
        """The same statements as they are written, without the values of secret options."""
        return tuple(mask_literals(each, SECRET_NAME, MASK).strip() for each in self._statements)

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids that the statements give to operators."""
        return tuple(each for text in self.written for each in find_ids(text))

    @property
    def texts(self) -> tuple[str, ...]:
        """The statements of the views that are read, then the INSERT, without needless space."""
        return tuple(normalise_sql(strip_ids(text)) for text in self._statements)

    @property
    def _statements(self) -> tuple[str, ...]:
        read = self._names_read
        views = (each.text for each in self.script.views if name_made(each.text) in read)
        return (*views, self.insert.text)

    @cached_property
    def read_views(self) -> tuple[View, ...]:
        """The topics' views that the statements name."""
        read = self._names_read
        return tuple(view for view in self.views if view.name.casefold() in read)

    @property
    def idle_after_s(self) -> dict[str, float]:
        """How long each topic may be silent before others no longer wait for it."""
        return {
            topic: view.spec.idle_after_ms / 1000
            for view in self.read_views
            for topic in view.topics
        }

    @property
    def _functions_called(self) -> str:
        """Digest of the Python functions; empty where the statements name none of them."""
        is_called = not self._names_read.isdisjoint(self.functions.names)
        return self.functions.digest if is_called else ""

    @property
    def _names_read(self) -> frozenset[str]:
        views = {name_made(each.text): each.text for each in self.script.views}
        return find_read(self.insert.text, views)

    def open_session(self, spark: SparkSession) -> SparkSession:
        """Return a session with the settings of the query."""
        counted = COUNTED if self.topic else {}
        return open_session(spark, {**self.settings, **VARIABLES, **counted})

    def describe(self, graph: PlanGraph, spark_version: str) -> StoredPlan:
        """Return the plan as the query's log keeps it."""
        rules = tuple(view.rule() for view in self.read_views)
        planner = name_planner(spark_version)
        return StoredPlan(planner, self.texts, rules, graph, self._functions_called)


def name_planner(spark_version: str) -> str:
    """Return by what plans are made: those of another cannot be compared."""
    return f"Spark {spark_version}, graphs {GRAPH_FORM}"


def open_frame(
    spark: SparkSession, kafka: KafkaAddress, plan: QueryPlan, name: SliceName, fold: Fold
) -> PlannedFrame:
    """Return what the INSERT selects, over views that begin where the log of its slice says.

    Raises QueryRefused, JobFileInvalid; BatchFailed where something that it reads does not answer.
    """

    def make_views(session: SparkSession) -> None:
        for view in plan.views:
            if view not in plan.read_views:
                make_view(view, open_unread(session, view), plan.mark)
                continue
            most = plan.offsets_max.get(view.name)
            reading = plan_reading(view, name, fold, most, plan.interval_ms)
            records = open_stream(session, kafka, view, reading)
            make_view(view, leave_out(records, plan.left_out), plan.mark)

    planned = make_frame(spark, plan, make_views)
    if plan.leaves_aside:
        require_leaving_aside(plan, list_topics(planned.graph.sources))
    return planned


def open_part(
    spark: SparkSession, kafka: KafkaAddress, plan: QueryPlan, part: PartReading
) -> DataFrame:
    """Return what the INSERT selects from a part of one batch, beside its stream.

    Of a query that keeps state only what stands below it is what it would be in the whole batch.
    Raises as `open_frame`.
    """

    def make_views(session: SparkSession) -> None:
        for view in plan.views:
            make_view(view, part.load(session, kafka, view), part.mark, part.now)

    return make_part(spark, plan, make_views)


def make_frame(
    spark: SparkSession,
    plan: QueryPlan,
    make_views: Callable[[SparkSession], None],
    made: Collection[str] = (),
) -> PlannedFrame:
    """Return what the INSERT selects, as a stream. Arguments and errors: see `make_part`."""
    frame = make_part(spark, plan, make_views, made)
    with explained(plan.script, plan.insert.table, plan.insert):
        return PlannedFrame(frame, _check(frame, plan))


def make_part(
    spark: SparkSession,
    plan: QueryPlan,
    make_views: Callable[[SparkSession], None],
    made: Collection[str] = (),
) -> DataFrame:
    """Return what the INSERT selects.

    `make_views` makes the views of topics in a session, and those named in `made`, in lower case.
    Raises as `open_frame`.
    """
    session, script, table = plan.open_session(spark), plan.script, plan.insert.table
    with explained(script, table, plan.insert):
        make_views(session)
        plan.functions.register(session)
    for statement in script.views:
        if name_made(statement.text) not in made:
            with explained(script, table, statement):
                session.sql(script.in_its_place(statement))
    with explained(script, table, plan.insert):
        make = select_by_settings if plan.makes_nulls else select
        return make(session, script, plan.insert)


@contextmanager
def explained(script: Script, table: str, statement: ViewText | Insert) -> Iterator[None]:
    """Raise in words what Spark says of a statement. `table`: what messages call it."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise explain_plan(error, table, script.find(error, statement)) from error


def _check(frame: DataFrame, plan: QueryPlan) -> PlanGraph:
    """Return what a frame does. Refuse what is no stream, or none that can be run.

    Raises QueryRefused, PySparkException.
    """
    table, sql, start = plan.insert.table, plan.script.sql, plan.insert.start
    if not frame.isStreaming:
        raise refused_at(
            sql.place(start),
            f"the INSERT into {table} reads no topic",
            hint=f"read one of {', '.join(view.name for view in plan.views)}",
        )
    try:
        graph = check_streaming(frame, plan.mode)
        if plan.ids:
            check_all_placed(graph, plan.ids)
    except QueryRefused as refused:
        message = f"{table}: {refused.message}"
        raise refused_at(sql.place(start), message, hint=refused.hint) from None
    if plan.topic is not None:
        check_topic(frame, graph, plan.topic)
    return graph


def require_leaving_aside(plan: QueryPlan, streams: Iterable[Sequence[str]]) -> None:
    """Refuse a query that no record can be left out of. `streams`: topics. Raises QueryRefused."""
    try:
        check_leaving_aside(streams)
    except QueryRefused as refused:
        message = f"{plan.insert.table}: {refused.message}"
        place = plan.script.sql.place(plan.insert.start)
        raise refused_at(place, message, hint=refused.hint) from None


def output_ddl(frame: DataFrame) -> str:
    """Return the columns of a frame as DDL."""
    return ", ".join(
        f"`{field.name}` {field.dataType.simpleString()}" for field in frame.schema.fields
    )
