"""Test cases of a job's SQL, run by Structured Streaming: what `ashore test` runs.

What it is: `run_cases`. Each table or topic that a case expects rows of is written by its INSERT,
as a streaming query over the records that the case gives, from an empty checkpoint.
What it promises: the job's own views, watermarks, output modes and state; only the records come
from files. The rows are compared by the types that the query gives them.
What it must not know: terminals; Kafka, logs, lakes.
"""

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from ashore.base.suggest import suggest
from ashore.config.cases import Case, Expected, GivenView, named_columns
from ashore.config.tables import Table
from ashore.config.written import Place
from ashore.errors import JobFileInvalid
from ashore.jobs.events import CaseEnded
from ashore.landing.sink_output import sink_output
from ashore.landing.sinks import Sink
from ashore.plans.text import name_made
from ashore.spark.sql.assembly import SqlParts, plan_queries, read_views_of
from ashore.spark.sql.compared import RowsUnfit, differences, read_rows, rows_as_text, typed
from ashore.spark.sql.frames import QueryPlan, make_frame, output_ddl
from ashore.spark.sql.given import open_records, write_batches
from ashore.spark.sql.refusals import explain_failure
from ashore.spark.sql.row_errors import RowError
from ashore.spark.sql.views import make_view


@dataclass(frozen=True, slots=True)
class _Query:
    """One INSERT in one case."""

    item: Sink
    plan: QueryPlan
    expected: Expected
    directory: Path  # for its records and its checkpoint


def run_cases(parts: SqlParts, cases: Iterable[Case], directory: Path) -> Iterator[CaseEnded]:
    """Run cases one after the other, and yield how each ended.

    Arguments:
        parts: of the job.
        cases: to be run.
        directory: an empty one, for records and checkpoints.

    Raises JobFileInvalid where a case is not about this job; QueryRefused where Spark does not run
    the SQL.

    """
    for number, case in enumerate(cases):
        began_s = time.monotonic()
        topics = sorted({batch.topic for batch in case.given})
        views = read_views_of(parts.job, topics)
        rhythm = parts.assembly.rhythm(until_drained=True)
        planned = {_name(item): (item, plan) for item, plan in plan_queries(parts, rhythm, views)}
        problems: list[str] = []
        read = set[str]()
        for index, expected in enumerate(case.expect):
            item, plan = _find(case, expected, planned)
            own = directory / f"{number}-{index}"
            query = _Query(item, plan, expected, own)
            read |= {topic for view in plan.read_views for topic in view.topics}
            problems += _run(parts.spark, case, query)
        _refuse_unread(case, topics, read)
        took_ms = round(1000 * (time.monotonic() - began_s))
        yield CaseEnded(case.name, case.place, took_ms, tuple(problems))


def _name(item: Sink) -> str:
    return item.table if isinstance(item, Table) else item.topic


def _find(
    case: Case, expected: Expected, planned: Mapping[str, tuple[Sink, QueryPlan]]
) -> tuple[Sink, QueryPlan]:
    if expected.table in planned:
        return planned[expected.table]
    raise JobFileInvalid(
        f"{case.place}: {case.name}: no INSERT of the job writes {expected.table}",
        hint=suggest(expected.table, planned, f"its INSERTs write {', '.join(sorted(planned))}"),
    )


def _refuse_unread(case: Case, topics: Sequence[str], read: set[str]) -> None:
    unread = sorted(set(topics) - read)
    if unread:
        raise JobFileInvalid(
            f"{case.place}: {case.name}: the case has records of {unread[0]}, but no INSERT with "
            "expected rows reads it",
            hint=f"write records of {', '.join(sorted(read))}",
        )


def _refuse_unmade(case: Case, made: Mapping[str, str]) -> None:
    for each in case.views:
        if each.view.casefold() not in made:
            raise JobFileInvalid(
                f"{case.place}: {case.name}: the SQL defines no view {each.view}",
                hint=f"it defines {', '.join(sorted(made))}" if made else "remove `views`",
            )


def _run(spark: SparkSession, case: Case, query: _Query) -> list[str]:
    """Run one INSERT over the records of a case, and return how its rows are not as expected."""
    plan, given = query.plan, {each.view.casefold(): each for each in case.views}

    def make_views(session: SparkSession) -> None:
        made = {name_made(each.text): each.text for each in plan.script.views}
        _refuse_unmade(case, made)
        for view in plan.views:
            own = query.directory / view.name
            write_batches(own, view, case.given)
            make_view(view, open_records(session, own), plan.mark)
        for each in given.values():
            _create_given(session, each)

    frame = make_frame(spark, plan, make_views, given.keys())
    if isinstance(query.item, Table):
        sink_output(query.item, output_ddl(frame))
    shown = tuple(named_columns(query.expected.rows)) or tuple(frame.columns)
    missing = [name for name in shown if name not in frame.columns]
    if missing:
        return [f"{query.expected.table} has no column {missing[0]}: {', '.join(frame.columns)}"]
    rows = _Rows(shown, plan.topic.key if plan.topic and plan.topic.is_upsert else ())
    failure = _stream(query, frame, rows)
    if failure:
        return [failure]
    return list(_compare(spark, query.expected, frame, rows))


class _Rows:
    """The rows that a query has written; of an upsert topic the newest of each key."""

    def __init__(self, shown: tuple[str, ...], key: tuple[str, ...]) -> None:
        self._shown = shown
        self._key = key
        self._kept: list[str] = []
        self._newest: dict[str, str] = {}
        self.failure: BaseException | None = None

    def take(self, batch: DataFrame, _number: int) -> None:
        """Take the rows of a batch. Called by Spark, in a thread of its own."""
        try:
            texts = [rows_as_text(self._shown), rows_as_text(self._key)]
            for text, key in batch.select(*texts).collect():
                if self._key:
                    self._newest[key] = text
                else:
                    self._kept.append(text)
        except BaseException as error:
            self.failure = error
            raise

    @property
    def all(self) -> list[str]:
        """The rows as text."""
        return [*self._kept, *self._newest.values()]


def _stream(query: _Query, frame: DataFrame, rows: _Rows) -> str:
    """Run the query until it has read all batches. Returns why it failed, or nothing."""
    plan = query.plan

    def locate(found: RowError) -> Place:
        return plan.script.locate(found.view, found.line, found.column, plan.insert)

    writer = frame.writeStream.option("checkpointLocation", f"{query.directory}/checkpoint")
    writer = writer.outputMode(plan.mode).trigger(availableNow=True)
    try:
        running = writer.foreachBatch(rows.take).start()
        running.awaitTermination()
    except PySparkException as error:
        return explain_failure(query.expected.table, error, rows.failure, locate).message
    return ""


def _compare(
    spark: SparkSession, expected: Expected, frame: DataFrame, rows: _Rows
) -> Iterator[str]:
    names = named_columns(expected.rows)
    schema = StructType([frame.schema[name] for name in names])
    try:
        wanted = typed(spark, schema, expected.rows)
    except RowsUnfit as error:
        yield f"{expected.table}: an expected row does not fit the query's columns: {error}"
        return
    for each in differences(Counter(wanted), Counter(rows.all)):
        yield f"{expected.table}: {each}"


def _create_given(session: SparkSession, given: GivenView) -> None:
    """Make a view of the rows that a case gives. Raises JobFileInvalid."""
    try:
        schema = StructType.fromDDL(given.schema_ddl)
        rows = session.createDataFrame(read_rows(session, schema, given.rows), schema)
    except (RowsUnfit, PySparkException) as error:
        first = str(error).strip().partition("\n")[0]
        raise JobFileInvalid(
            f"view {given.view}: its rows do not match its schema: {first}",
            hint="correct `schema` or `rows`",
        ) from error
    rows.createOrReplaceTempView(given.view)
