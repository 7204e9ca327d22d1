"""The statements of a job's SQL, taken apart by Spark's own parser.

What it is: `parse_script`; views to be made, and what each INSERT selects.
What it promises: semicolons in strings and comments cut nothing; a statement that is neither a view
nor an INSERT is refused, with file, line and column. What Spark says of a statement is found in it.
"""

import re
from dataclasses import dataclass
from functools import partial

from py4j.java_gateway import JavaObject
from pyspark.errors import ParseException
from pyspark.sql import DataFrame, SparkSession

from ashore.errors import QueryRefused, fail
from ashore.jobs.file.source_text import Place, WrittenText
from ashore.jobs.file.sql_tables import NotDeclared, blank_tables
from ashore.plans.text import cut, find_outside_literals, name_made, normalise_sql
from ashore.queries.spark.internals.refusals import find_position
from ashore.queries.spark.internals.statements import (
    ParsedInsert,
    Statement,
    parse_query,
    parse_statements,
    plan_select,
)
from ashore.queries.spark.sql.refusals import do_all, refuse_together, refused_at

_BEGIN, _END = "BEGIN\n", "\nEND"  # what makes one script of many statements
_WINDOWS = {
    "TUMBLE": "write `GROUP BY window(ts, '1 minute')`; its ends are `window.start` and `.end`",
    "HOP": "write `GROUP BY window(ts, '10 minutes', '5 minutes')`: the length, then the slide",
    "CUMULATE": "write `GROUP BY window(ts, '1 minute')`, and add up the windows in your queries",
}
_PARSED_TO = re.compile(r"\(line (\d+), (?:pos (\d+)|position (\d+))\)")  # from 0, from 1
# A query is parsed as that of an INSERT: so it is a query, and nothing that would be run at once.
_SELECT_HEAD = f"{_BEGIN}INSERT INTO query\n"
_QUERIES = frozenset({"SELECT", "WITH", "VALUES", "FROM", "TABLE"})
_ONLY_SELECT = "write one `SELECT ...`"
_ONLY = "write `CREATE TEMPORARY VIEW name AS SELECT ...;` or `INSERT INTO table SELECT ...;`"


@dataclass(frozen=True, slots=True)
class ViewText:
    """One `CREATE TEMPORARY VIEW`, or `FUNCTION`, and where it stands in the SQL."""

    text: str
    start: int
    query_start: int  # of what it selects


@dataclass(frozen=True, slots=True)
class Insert:
    """One INSERT: the table that it fills, as it is written, and what it selects."""

    table: str
    text: str
    query: JavaObject  # Spark's plan of the SELECT, before names are looked up
    start: int  # where it stands in the SQL


@dataclass(frozen=True, slots=True)
class Script:
    """All statements of a job."""

    sql: WrittenText
    views: tuple[ViewText, ...]  # and functions, in their order
    inserts: tuple[Insert, ...]
    head: str = _BEGIN  # that Spark was given before the text

    def in_its_place(self, statement: ViewText | Insert) -> str:
        """Return a statement behind so much white space that Spark counts as in the whole script.

        (The queries of INSERTs are parsed as parts of it.)
        """
        before = self.head + self.sql.text[: statement.start]
        return re.sub(r"[^\n]", " ", before) + statement.text

    def find(self, error: Exception, statement: ViewText | Insert) -> Place:
        """Return what Spark complains of; the beginning of `statement` where it does not say."""
        found = find_position(error)
        index = self._index(found.view, found.index) if found else None
        return self.sql.place(statement.start if index is None else index)

    def locate(self, view: str, line: int, column: int, statement: Insert) -> Place:
        """Return what Spark has computed when a row failed, by its own line and column, from 1.

        `view`: whose SELECT they are of; empty for the script. Line 0: Spark does not say.
        """
        text = f"{self.head}{self.sql.text}"
        if view:
            found = self._view(view)
            text = found.text[found.query_start - found.start :] if found else ""
        index = self._index(view, _index_in(text, line, column)) if line else None
        return self.sql.place(statement.start if index is None else index)

    def _index(self, view: str, index: int) -> int | None:
        """Return where a character stands in the SQL that Spark has counted."""
        if not view:
            return max(index - len(self.head), 0)
        found = self._view(view)
        return found.query_start + index if found else None

    def _view(self, name: str) -> ViewText | None:
        key = name.strip("`").casefold()
        return next((each for each in self.views if name_made(each.text) == key), None)


def parse_script(spark: SparkSession, sql: WrittenText) -> Script:
    """Return the statements of the SQL. Raises QueryRefused, for all that are refused."""
    try:
        own = blank_tables(sql.text)
    except NotDeclared as error:
        place = sql.place(error.start)
        raise refused_at(place, error.message, hint=error.instead) from None
    _refuse_foreign(sql, own)
    found = do_all(_parse(spark, sql, own, _BEGIN), partial(_read, sql))
    views = tuple(each for each in found if isinstance(each, ViewText))
    return Script(sql, views, tuple(each for each in found if isinstance(each, Insert)))


def _read(sql: WrittenText, statement: Statement) -> ViewText | Insert:
    """Return a statement of the SQL. Raises QueryRefused for what is neither."""
    if not statement.is_single:
        words = f"{_program(statement.kind)} is not supported in the SQL of a job"
        raise refused_at(sql.place(0), words, hint=_ONLY)
    start = statement.start - len(_BEGIN)
    _check(sql, start, statement)
    if statement.insert is not None:
        return Insert(statement.insert.table, statement.text, statement.insert.query, start)
    return ViewText(statement.text, start, statement.query_start - len(_BEGIN))


def parse_select(spark: SparkSession, sql: WrittenText) -> Script:
    """Return one query, a SELECT, as the only INSERT of a script. Raises QueryRefused.

    What changes something, or is more than one statement, is no query.
    """
    _refuse_foreign(sql, sql.text, _ONLY_SELECT)
    found = find_outside_literals(r"^\W*\w+", sql.text)
    if found is not None and found[1].strip("( \t\r\n;").upper() not in _QUERIES:
        index = found[0] + len(found[1]) - len(found[1].lstrip())
        words = f"this is not a query: {_short(sql.text)}"
        raise refused_at(sql.place(index), words, hint=_ONLY_SELECT)
    statements = _parse(spark, sql, sql.text, _SELECT_HEAD)
    for each in statements[1:]:
        index = each.start - len(_SELECT_HEAD)
        words = f"this is a second statement: {_short(each.text)}"
        raise refused_at(sql.place(index), words, hint=_ONLY_SELECT)
    parsed = statements[0].insert or fail("a query was parsed as an INSERT")
    insert = Insert(parsed.table, sql.text, parsed.query, 0)
    return Script(sql, (), (insert,), _SELECT_HEAD)


def _parse(spark: SparkSession, sql: WrittenText, text: str, head: str) -> list[Statement]:
    """Return the statements of `text`, each with its place behind `head`.

    Raises QueryRefused, for all statements that cannot be parsed.

    `sql`: as it is written; `text` has the same places.
    """
    refused: dict[int, QueryRefused] = {}
    statements: list[Statement] = []
    while text.strip("; \t\r\n"):
        body = text.rstrip()
        closed = body if body.endswith(";") else f"{body}\n;"
        script = f"{head}{closed}{_END}"
        try:
            statements = parse_statements(spark, script)
            break
        except ParseException as error:
            line, column, words = _read_refusal(error)
            index = max(_index_in(script, line, column) - len(head), 0) if line else 0
            if index <= max(refused, default=-1):
                break  # what is left cannot be separated from the statement before
            refused[index] = refused_at(sql.place(index), words, hint="correct the SQL")
            text = _blank_statement(text, index)
    if refused:
        raise refuse_together(list(refused.values()))
    return statements


def _blank_statement(text: str, index: int) -> str:
    """Return SQL with white space for the statement at `index`, so that the others are parsed."""
    ends = [start for start, kind, part in cut(text) if (kind, part) == ("other", ";")]
    start = max((each + 1 for each in ends if each < index), default=0)
    end = min((each + 1 for each in ends if each >= index), default=len(text))
    return text[:start] + re.sub(r"[^\r\n]", " ", text[start:end]) + text[end:]


def _refuse_foreign(sql: WrittenText, text: str, only: str = _ONLY) -> None:
    """Refuse what Spark's parser would report in words that lead nowhere. `only`: a hint."""
    normal = normalise_sql(text)
    if not normal.strip("; "):
        words = "the SQL has no statement"
        raise refused_at(sql.place(0), words, hint=only)
    if re.match(r"BEGIN\b", normal, re.IGNORECASE):
        words = "`BEGIN ... END` is not supported in the SQL of a job"
        raise refused_at(sql.place(0), words, hint=_ONLY)
    found = find_outside_literals(
        r"\bCREATE (?:TEMPORARY )?TABLE\b|\b(?:TUMBLE|HOP|CUMULATE) ?\(", text
    )
    if found is None:
        return
    index, what = found
    if what.upper().startswith("CREATE"):
        raise refused_at(
            sql.place(index),
            "`CREATE TABLE` must be a statement of its own",
            hint="a topic is an item of `tables` in the job file, and a view in SQL; a table that "
            "SQL writes is an item without `topic`; for a database: `CREATE TEMPORARY VIEW ... "
            "USING jdbc`",
        )
    name = what.rstrip(" (").upper()
    words = f"`{name}` is Flink SQL; in Spark SQL use `window`"
    raise refused_at(sql.place(index), words, hint=_WINDOWS[name])


def _program(kind: str) -> str:
    """Return what the author has written, for a class of Spark's."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", kind.removesuffix("Statement")).lower()
    return {"compound body": "`BEGIN ... END`"}.get(words, f"a program ({words})")


def _check(sql: WrittenText, start: int, statement: Statement) -> None:
    """Refuse a statement that is neither a view, a function nor an INSERT into a table."""
    text, hint = statement.text, _ONLY
    if statement.insert is not None:
        _check_insert(sql, start, statement.insert, text)
        return
    match statement.kind:
        case "CreateViewCommand" if "temporary" in text.lower().split("view")[0]:
            return
        case "CreateTempViewUsing":  # a file or a table elsewhere: CREATE TEMPORARY VIEW ... USING
            return
        case "CreateSQLFunctionCommand":  # temporary, or Spark calls it otherwise
            return
        case "CreateViewCommand":
            words = "not a temporary view"
        case "CreateUserDefinedFunction":
            words = "not a temporary function"
            hint = "write `CREATE TEMPORARY FUNCTION name(x INT) RETURNS INT RETURN x + 1;`"
        case "CreateFunctionCommand":
            words = "a Java function"
            hint = "write it as `RETURN expression`, or in Python: `functions` of `sql`"
        case "UnresolvedWith":
            hint = "write `INSERT INTO table WITH ... SELECT ...`, the `WITH` after the INSERT"
            words = "a `WITH` before its INSERT"
        case _:
            words = "neither a view nor an INSERT"
    raise refused_at(sql.place(start), f"{words}: {_short(text)}", hint=hint)


def _check_insert(sql: WrittenText, start: int, parsed: ParsedInsert, text: str) -> None:
    if parsed.is_overwriting:
        words = f"INSERT OVERWRITE is not supported: {_short(text)}"
        raise refused_at(sql.place(start), words, hint="write `INSERT INTO`")
    if parsed.names_columns:
        raise refused_at(
            sql.place(start),
            f"a column list is not supported: {_short(text)}",
            hint="remove what is between the table and SELECT, and name the columns with `AS`",
        )


def select(session: SparkSession, _: Script, insert: Insert) -> DataFrame:
    """Return what an INSERT selects, over the views of `session`. Raises AnalysisException."""
    return plan_select(session, insert.query)


def select_by_settings(session: SparkSession, script: Script, insert: Insert) -> DataFrame:
    """Return what `select` does; its casts are those of the settings of `session`."""
    return plan_select(session, parse_query(session, script.in_its_place(insert)))


def _read_refusal(error: ParseException) -> tuple[int, int, str]:
    """Return line and column of the script, from 1, that the parser names, and what it says.

    Line 0 where it names none.
    """
    message = str(error).strip()
    found = _PARSED_TO.search(message)
    head = message[: found.start()] if found else message
    text = head.partition("SQLSTATE")[0].partition("] ")[2].strip() or head
    text = text.partition("\n\n")[0].partition("\n==")[0].strip()
    if found is None:
        return 0, 0, text
    return int(found[1]), int(found[2]) + 1 if found[2] else int(found[3]), text


def _index_in(text: str, line: int, column: int) -> int:
    """Return where a character stands, by its line and column from 1."""
    at = 0
    for _ in range(line - 1):
        at = text.find("\n", at) + 1
    return at + column - 1


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= 80 else f"{flat[:77]}..."
