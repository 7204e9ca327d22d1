"""Statements of SQL, taken apart by Spark's own parser.

What it is: `parse_statements` and `plan_select`, from text to a frame in two steps.
What it promises: nothing is run, and no name is looked up before `plan_select`. An unknown
version of Spark is refused first. Where a statement stands is counted in characters: Spark's
own way to its text counts characters too, and then cuts UTF-16, wrongly after an emoji.
"""

from dataclasses import dataclass

from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame, SparkSession

from ashore.topics.run.spark.internals import jvm
from ashore.topics.run.spark.internals.active_session import active_session
from ashore.topics.run.spark.internals.spark_version import require_known_spark

_SINGLE, _INSERT, _VIEW = "SingleStatement", "InsertIntoStatement", "CreateViewCommand"


@dataclass(frozen=True, slots=True)
class ParsedInsert:
    """An INSERT as it was parsed."""

    table: str  # as it is written
    query: JavaObject  # the plan of what it selects, before names are looked up
    is_overwriting: bool
    names_columns: bool  # or partitions, after its table


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement of a script."""

    kind: str  # the class of its plan; of the statement, where it has none: IfElseStatement ...
    text: str
    insert: ParsedInsert | None
    start: int = 0  # where it stands in the script
    query_start: int = 0  # where the SELECT of a view stands

    @property
    def is_single(self) -> bool:
        """Whether it is a statement as it may stand alone, and no part of a program."""
        return bool(self.text)


def parse_statements(spark: SparkSession, script: str) -> list[Statement]:
    """Return the statements of a script, `BEGIN ... END`. Raises ParseException, SparkUnknown."""
    require_known_spark(spark)
    parser = jvm.SQL_PARSER(jvm.SESSION_STATE(jvm.session_of(spark)))
    with active_session(spark):
        found = jvm.SCRIPT_STATEMENTS(jvm.PARSE_PLAN(parser, script))
    return [_read(each, script) for each in jvm.items(found)]


def parse_query(session: SparkSession, insert: str) -> JavaObject:
    """Return what an INSERT selects, parsed by the settings of `session`.

    A cast is one that fails or one that gives NULL from then on. Raises ParseException.
    """
    require_known_spark(session)
    parser = jvm.SQL_PARSER(jvm.SESSION_STATE(jvm.session_of(session)))
    with active_session(session):
        return jvm.INSERT_QUERY(jvm.PARSE_PLAN(parser, insert))


def plan_select(session: SparkSession, query: JavaObject) -> DataFrame:
    """Return what was parsed as a frame, over the views of `session`.

    Raises AnalysisException, SparkUnknown.
    """
    require_known_spark(session)
    return DataFrame(jvm.DATASET_OF(session, jvm.session_of(session), query), session)


def _read(statement: JavaObject, script: str) -> Statement:
    kind = jvm.class_name(statement)
    if kind != _SINGLE:
        return Statement(kind, "", None)
    plan, origin = jvm.STATEMENT_PLAN(statement), jvm.STATEMENT_ORIGIN(statement)
    kind = jvm.class_name(plan)
    start = int(jvm.OPTION_GET(jvm.ORIGIN_START(origin)))
    text = script[start : int(jvm.OPTION_GET(jvm.ORIGIN_STOP(origin))) + 1]
    insert = _read_insert(plan) if kind == _INSERT else None
    query_start = start + _find_query(plan, text) if kind == _VIEW else start
    return Statement(kind, text, insert, start, query_start)


def _find_query(plan: JavaObject, view: str) -> int:
    """Return where the SELECT of a view begins in its statement, which ends with it."""
    query = jvm.VIEW_QUERY_TEXT(plan)
    text = str(jvm.OPTION_GET(query)) if jvm.IS_DEFINED(query) else ""
    return len(view) - len(text) if text and view.endswith(text) else 0


def _read_insert(plan: JavaObject) -> ParsedInsert:
    columns, partition = jvm.INSERT_COLUMNS(plan), jvm.INSERT_PARTITION(plan)
    return ParsedInsert(
        table=".".join(str(each) for each in jvm.items(jvm.TABLE_NAME(jvm.INSERT_TABLE(plan)))),
        query=jvm.INSERT_QUERY(plan),
        is_overwriting=bool(jvm.INSERT_OVERWRITES(plan)),
        names_columns=bool(jvm.SEQ_SIZE(columns)) or not jvm.MAP_IS_EMPTY(partition),
    )
