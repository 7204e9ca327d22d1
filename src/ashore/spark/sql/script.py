"""The statements of a job's SQL, taken apart by Spark's own parser.

What it is: `parse_script`; views to be made, and what each INSERT selects.
What it promises: semicolons in strings and comments cut nothing; a statement that is neither a view
nor an INSERT is refused, with its line.
What it must not know: the tables of the job.
"""

import re
from dataclasses import dataclass

from py4j.java_gateway import JavaObject
from pyspark.errors import ParseException
from pyspark.sql import DataFrame, SparkSession

from ashore.errors import QueryRefused
from ashore.plans.text import find_outside_literals, normalise_sql
from ashore.spark.internals import (
    ParsedInsert,
    Statement,
    parse_query,
    parse_statements,
    plan_select,
)

_BEGIN, _END = "BEGIN\n", "\nEND"  # what makes one script of many statements
_WINDOWS = {
    "TUMBLE": "write `GROUP BY window(ts, '1 minute')`; its ends are `window.start` and `.end`",
    "HOP": "write `GROUP BY window(ts, '10 minutes', '5 minutes')`: the length, then the slide",
    "CUMULATE": "write `GROUP BY window(ts, '1 minute')`, and sum up where the table is read",
}
_ONLY = "write `CREATE TEMPORARY VIEW name AS SELECT ...;` or `INSERT INTO table SELECT ...;`"


@dataclass(frozen=True, slots=True)
class Insert:
    """One INSERT: the table that it fills, as it is written, and what it selects."""

    table: str
    text: str
    query: JavaObject  # Spark's plan of the SELECT, before names are looked up


@dataclass(frozen=True, slots=True)
class Script:
    """All statements of a job."""

    views: tuple[str, ...]  # in their order
    inserts: tuple[Insert, ...]


def parse_script(spark: SparkSession, text: str) -> Script:
    """Return the statements in `text`. Raises QueryRefused."""
    _refuse_foreign(text)
    body = text.rstrip()
    closed = body if not body or body.endswith(";") else f"{body}\n;"
    try:
        statements = parse_statements(spark, f"{_BEGIN}{closed}{_END}")
    except ParseException as error:
        raise QueryRefused(_words(error), hint="correct the SQL") from None
    views: list[str] = []
    inserts: list[Insert] = []
    for statement in statements:
        if not statement.is_single:
            raise QueryRefused(f"{_program(statement.kind)} is no part of a job's SQL", hint=_ONLY)
        _take(statement, views, inserts)
    return Script(tuple(views), tuple(inserts))


def _refuse_foreign(text: str) -> None:
    """Refuse what Spark's parser would tell of in words that lead nowhere."""
    normal = normalise_sql(text)
    if not normal.strip("; "):
        raise QueryRefused("the SQL holds no statement, only comments or nothing", hint=_ONLY)
    if re.match(r"BEGIN\b", normal, re.IGNORECASE):
        raise QueryRefused("`BEGIN ... END` is no part of a job's SQL", hint=_ONLY)
    found = find_outside_literals(
        r"\bCREATE (?:TEMPORARY )?TABLE\b|\b(?:TUMBLE|HOP|CUMULATE) ?\(", text
    )
    if found is None:
        return
    line, column, what = found
    place = f"SQL, line {line}, column {column}"
    if what.upper().startswith("CREATE"):
        raise QueryRefused(
            f"{place}: `CREATE TABLE` makes no table here, as it does in Flink",
            hint="a topic is an item of `tables` in the job file, a view in SQL; a table that "
            "SQL fills is an item without a topic; a database: `CREATE TEMPORARY VIEW ... USING "
            "jdbc`",
        )
    raise QueryRefused(
        f"{place}: `{what.rstrip(' (').upper()}` is Flink's; Spark cuts time with `window`",
        hint=_WINDOWS[what.rstrip(" (").upper()],
    )


def _program(kind: str) -> str:
    """Return what the author has written, for a class of Spark's."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", kind.removesuffix("Statement")).lower()
    return {"compound body": "`BEGIN ... END`"}.get(words, f"a program ({words})")


def _take(statement: Statement, views: list[str], inserts: list[Insert]) -> None:
    text = statement.text
    if statement.insert is not None:
        inserts.append(_insert(statement.insert, text))
        return
    match statement.kind:
        case "CreateViewCommand" if "temporary" in text.lower().split("view")[0]:
            views.append(text)
        case "CreateTempViewUsing":  # a file or a table elsewhere: CREATE TEMPORARY VIEW ... USING
            views.append(text)
        case "CreateViewCommand":
            raise QueryRefused(f"not a temporary view: {_short(text)}", hint=_ONLY)
        case "UnresolvedWith":
            hint = "write `INSERT INTO table WITH ... SELECT ...`, the `WITH` after the INSERT"
            raise QueryRefused(f"a `WITH` before its INSERT: {_short(text)}", hint=hint)
        case _:
            raise QueryRefused(f"neither a view nor an INSERT: {_short(text)}", hint=_ONLY)


def _insert(parsed: ParsedInsert, text: str) -> Insert:
    if parsed.is_overwriting:
        raise QueryRefused(
            f"a stream overwrites nothing: {_short(text)}", hint="write `INSERT INTO`"
        )
    if parsed.names_columns:
        raise QueryRefused(
            f"the columns of a table are those of its SELECT: {_short(text)}",
            hint="leave out what stands between the table and SELECT, and name columns with `AS`",
        )
    return Insert(parsed.table, text, parsed.query)


def select(session: SparkSession, insert: Insert) -> DataFrame:
    """Return what an INSERT selects, over the views of `session`. Raises AnalysisException."""
    return plan_select(session, insert.query)


def select_by_settings(session: SparkSession, insert: Insert) -> DataFrame:
    """Return what `select` does; its casts are those of the settings of `session`."""
    return plan_select(session, parse_query(session, insert.text))


def _words(error: ParseException) -> str:
    """Return what the parser says, with the line of the job's SQL, which BEGIN moves by one."""
    message = str(error).strip()
    head, _, place = message.partition("(line ")
    line, _, _ = place.partition(",")
    text = head.partition("SQLSTATE")[0].partition("] ")[2].strip() or head
    return f"SQL, line {int(line) - 1}: {text}" if line.isdigit() else f"SQL: {text}"


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= 80 else f"{flat[:77]}..."
