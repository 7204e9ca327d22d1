"""Test cases of a job's SQL, run by Structured Streaming: what `ashore test` runs.

What it is: `run_cases`. Each table or topic that a case expects rows of is written by its INSERT,
as a streaming query over the records that the case gives, from an empty checkpoint.
What it promises: the job's own views, watermarks, output modes and state; only the records come
from files. The rows are compared by the types that the query gives them. Dead letters that are
not expected fail a case.
"""

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from ashore.base.suggest import suggest
from ashore.errors import JobFileInvalid
from ashore.jobs.events import CaseEnded
from ashore.jobs.file.cases import Case, Expected, named_columns
from ashore.jobs.file.tables import Table
from ashore.queries.spark.sql.assembly import SparkJob, plan_queries, read_views_of
from ashore.queries.spark.sql.case_comparison import (
    RowsUnfit,
    differences,
    letter_problems,
    read_case_letters,
    typed,
)
from ashore.queries.spark.sql.case_query import CaseQuery
from ashore.queries.spark.sql.frames import QueryPlan, output_ddl
from ashore.queries.spark.sql.views import View
from ashore.topics.loop.sinks import Sink, sink_slice
from ashore.topics.loop.table_checks import sink_output


def run_cases(parts: SparkJob, cases: Iterable[Case], directory: Path) -> Iterator[CaseEnded]:
    """Run cases one after the other, and yield how each ended.

    `directory`: an empty one, for records and checkpoints.
    Raises JobFileInvalid where a case is not about this job; QueryRefused where Spark does not run
    the SQL.
    """
    for number, case in enumerate(cases):
        began_s = time.monotonic()
        topics = sorted({batch.topic for batch in case.batches})
        views = read_views_of(parts.job, topics)
        rhythm = parts.assembly.rhythm(until_drained=True)
        planned = {_name(item): (item, plan) for item, plan in plan_queries(parts, rhythm, views)}
        problems: list[str] = []
        read = set[str]()
        for index, expected in enumerate(case.expect):
            own = directory / f"{number}-{index}"
            if expected.table in planned:
                item, plan = planned[expected.table]
                read |= {topic for view in plan.read_views for topic in view.topics}
                problems += _run(parts, case, expected, (item, plan), own)
            else:
                view = _find_landed(case, expected, views, planned)
                read |= set(view.topics)
                problems += _land(parts, case, expected, view, own)
        _refuse_unread(case, topics, read)
        took_ms = round(1000 * (time.monotonic() - began_s))
        yield CaseEnded(case.name, case.place, took_ms, tuple(problems))


def _name(item: Sink) -> str:
    return item.table if isinstance(item, Table) else item.topic


def _find_landed(
    case: Case,
    expected: Expected,
    views: Sequence[View],
    planned: Mapping[str, object],
) -> View:
    """Return the topics that land in a table whose dead letters are expected."""
    where = f"{case.place}: {case.name}:"
    found = next((view for view in views if view.spec.table == expected.table), None)
    if found is None or expected.rows is not None:
        raise JobFileInvalid(
            f"{where} no INSERT of the job writes {expected.table}",
            hint=suggest(expected.table, planned, f"its INSERTs write {', '.join(sorted(planned))}")
            if found is None
            else f"{expected.table} has a topic: only its `dead_letters` can be compared",
        )
    if found.spec.on_invalid != "dead_letter":
        raise JobFileInvalid(
            f"{where} {expected.table} has no dead letters: on_invalid is {found.spec.on_invalid}",
            hint="remove `dead_letters`, or land the topic with on_invalid: dead_letter",
        )
    return found


def _refuse_unread(case: Case, topics: Sequence[str], read: set[str]) -> None:
    unread = sorted(set(topics) - read)
    if unread:
        raise JobFileInvalid(
            f"{case.place}: {case.name}: the case has records of {unread[0]}, but no INSERT with "
            "expected rows reads it",
            hint=f"write records of {', '.join(sorted(read))}",
        )


def _run(
    parts: SparkJob, case: Case, expected: Expected, planned: tuple[Sink, QueryPlan], own: Path
) -> list[str]:
    """Run one INSERT over the records of a case, and return what is not as expected."""
    item, plan = planned
    if expected.dead_letters and not plan.leaves_aside:
        raise JobFileInvalid(
            f"{case.place}: {case.name}: {expected.table} has no dead letters",
            hint="remove `dead_letters`, or write on_error: dead_letter for the table",
        )
    slice_name = sink_slice(parts.job.job, item)
    query = CaseQuery(parts.spark, case, expected.table, slice_name.slice, plan, own)
    query = query.write_records()
    selected = query.open()
    frame = selected.frame
    if isinstance(item, Table):
        sink_output(item, output_ddl(frame))
    shown = named_columns(expected.rows or ()) or tuple(frame.columns)
    missing = [name for name in shown if name not in frame.columns]
    if missing:
        return [f"{expected.table} has no column {missing[0]}: {', '.join(frame.columns)}"]
    ran = query.run(selected, shown)
    if ran.failure:
        return [ran.failure]
    rows = _compare(parts.spark, expected, frame, ran.rows)
    return [*rows, *letter_problems(expected, ran.letters)]


def _land(parts: SparkJob, case: Case, expected: Expected, view: View, own: Path) -> list[str]:
    """Return how the dead letters of a topic's table are not as expected."""
    letters = read_case_letters(parts.spark, parts.assembly, view, case.batches, own)
    return list(letter_problems(expected, letters))


def _compare(
    spark: SparkSession, expected: Expected, frame: DataFrame, rows: Sequence[str]
) -> Iterator[str]:
    if expected.rows is None:
        return
    names = named_columns(expected.rows)
    schema = StructType([frame.schema[name] for name in names])
    try:
        expected_rows = typed(spark, schema, expected.rows)
    except RowsUnfit as error:
        yield f"{expected.table}: an expected row does not fit the query's columns: {error}"
        return
    for each in differences(Counter(expected_rows), Counter(rows)):
        yield f"{expected.table}: {each}"
