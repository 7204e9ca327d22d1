"""The statements of a job's SQL, taken apart by Spark's own parser.

What it is: `parse_script`; views to be made, and what each INSERT selects.
What it promises: semicolons in strings and comments cut nothing; a statement that is neither a view
nor an INSERT is refused, with its line.
What it must not know: the tables of the job.
"""

from dataclasses import dataclass

from py4j.java_gateway import JavaObject
from pyspark.errors import ParseException
from pyspark.sql import DataFrame, SparkSession

from ashore.errors import QueryRefused
from ashore.spark.internals import ParsedInsert, Statement, parse_statements, plan_select

_BEGIN, _END = "BEGIN\n", "\nEND"  # what makes one script of many statements
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
            raise QueryRefused(f"{statement.kind} is no statement of a streaming job", hint=_ONLY)
        _take(statement, views, inserts)
    return Script(tuple(views), tuple(inserts))


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
