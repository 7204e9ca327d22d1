"""What Spark says of a query, in words that help.

What it is: errors of Spark before the start, and of a query that has failed, as errors of Ashore.
What it promises: never a stack trace as the message; Spark's own text stays in `detail`.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from typing import Any, TypeVar

from pyspark.errors import AnalysisException, PySparkException

from ashore import errors
from ashore.errors import (
    AshoreError,
    BadRecord,
    BatchFailed,
    OffsetsGone,
    QueryRefused,
    RecordsTooLarge,
    RowNotComputed,
    StreamReplaced,
)
from ashore.jobs.file.source_text import Place
from ashore.queries.spark.internals.refusals import explain_refusal
from ashore.queries.spark.sql.row_errors import RowError, find_row_error
from ashore.queries.spark.sql.topics import NO_KEY
from ashore.queries.spark.sql.views import BAD_RECORD
from ashore.topics.run.spark.causes import (
    DETAIL_LENGTH_MAX,
    innermost_cause,
    outermost_cause,
    text_of,
)

Item = TypeVar("Item")
Done = TypeVar("Done")

_STATE = re.compile(
    r"STATE_STORE_(?:KEY|VALUE)_SCHEMA_NOT_COMPATIBLE|STREAMING_STATEFUL_OPERATOR_\w+"
    r"|StateSchemaNotCompatible"
)
_SOURCES = re.compile(r"STREAMING_QUERY_EVOLUTION_ERROR[.\w]*|There are \[\d+\] sources in the")
_OTHER_SQL = "restore the SQL that the query was started with, or write to another table or topic"
_AWAY = "FAILED_JDBC"  # a condition, with others below it
# What the source of topics raises, in Spark's text of what Python has raised.
_OF_SOURCE = re.compile(r"ashore\.errors\.(\w+): ([^\n]+)")
_HINTS: dict[type[AshoreError], str] = {
    OffsetsGone: "a query cannot skip offsets: write to another table, from what Kafka still has",
    RecordsTooLarge: "raise `limits` in the job file: a query cannot skip records; or write to "
    "another table, from later offsets",
    StreamReplaced: "the state belongs to the old topic: write to another table or topic",
}


def refused_at(place: Place, message: str, *, hint: str, **more: Any) -> QueryRefused:
    """Return the refusal of what stands at `place`; `more` is for those who read it as JSON."""
    return QueryRefused(f"{place}: {message}", hint=hint, **more, **asdict(place))


def refuse(error: PySparkException, table: str, place: Place) -> QueryRefused:
    """Return why Spark does not run the INSERT into `table`, which may be a topic.

    `place`: what it complains of.
    """
    refusal = explain_refusal(error)
    hint = _name_hint(error) or refusal.hint or "correct the SQL, which is Spark SQL"
    detail = str(error)[:DETAIL_LENGTH_MAX]
    message = f"{table}: {refusal.sentence}"
    return refused_at(place, message, hint=hint, table=table, detail=detail)


def do_all(items: Iterable[Item], do: Callable[[Item], Done]) -> list[Done]:
    """Return what `do` returns for each of `items`, of which each is refused or not on its own.

    Raises what `do` raises; a QueryRefused only after the last item: it names all that are refused,
    and has them in `refusals`. What several items are refused for, a view that they read, is in it
    once.
    """
    done: list[Done] = []
    refused: dict[object, QueryRefused] = {}
    for each in items:
        try:
            done.append(do(each))
        except QueryRefused as error:
            place = tuple(error.fields.get(name) for name in ("file", "line", "column"))
            refused.setdefault(place if any(place) else error.message, error)
    if refused:
        raise refuse_together(list(refused.values()))
    return done


def refuse_together(errors: Sequence[QueryRefused]) -> QueryRefused:
    """Return an error that names all of `errors`; its place is that of the first."""
    if len(errors) == 1:
        return errors[0]
    texts = [f"{error.message}\n    {error.hint}" for error in errors]
    return QueryRefused(
        "\n".join([f"the SQL has {len(errors)} problems:", *texts]),
        hint="correct them, and validate again: ashore validate JOB.yaml",
        **{**errors[0].fields, "refusals": [error.to_dict() for error in errors]},
    )


def _name_hint(error: PySparkException) -> str:
    found = re.search(r"The table or view `(\w+)`\.`(\w+)` cannot be found", str(error))
    return f"in SQL the table {found[1]}.{found[2]} is named {found[2]}" if found else ""


def explain_failure(
    name: str,
    error: PySparkException,
    cause: BaseException | None,
    locate: Callable[[RowError], Place],
) -> AshoreError:
    """Return why a query that was running has ended.

    `cause`: what its batch has raised. `locate`: returns where a part of the SQL stands.
    """
    text = f"{text_of(error)}\n{text_of(cause) if cause else ''}"
    detail = text[:DETAIL_LENGTH_MAX]
    if BAD_RECORD in text:
        place = re.search(re.escape(BAD_RECORD) + r"([\w./-]+)", text)
        return BadRecord(
            f"{name}: {place[1] if place else 'a record'} cannot be decoded",
            hint="fix the record's schema, or write `on_invalid: drop` for its table",
        )
    if NO_KEY in text:
        found = re.search(re.escape(NO_KEY) + r"(\w+)", text)
        column = found[1] if found else "key"
        return QueryRefused(
            f"{name}: a row has no key, its {column} is null",
            hint=f"leave such rows out: `WHERE {column} IS NOT NULL`; or select and group by "
            f"`coalesce({column}, '')`",
        )
    row_error = find_row_error(text)
    if row_error is not None:
        return not_computed(row_error, locate(row_error), name)
    if _STATE.search(text):
        return QueryRefused(
            f"{name}: the state in the checkpoint was made by different SQL",
            hint=_OTHER_SQL,
            detail=detail,
        )
    if _SOURCES.search(text):
        return other_sources(name, detail)
    of_source = _explain_source(name, text)
    if of_source is not None:
        return of_source
    return BatchFailed(
        f"{name} failed in Spark: {innermost_cause(text)}",
        hint="nothing was prepared; the batch is retried",
        detail=detail,
    )


def _explain_source(name: str, text: str) -> AshoreError | None:
    """Return the error of the source of topics that a query has ended with, if it was one."""
    found = list(_OF_SOURCE.finditer(text))
    kind = getattr(errors, found[-1][1], None) if found else None
    if not (isinstance(kind, type) and issubclass(kind, AshoreError)):
        return None
    hint = _HINTS.get(kind, "nothing was prepared; the batch is retried")
    return kind(f"{name}: {found[-1][2]}", hint=hint, detail=text[:DETAIL_LENGTH_MAX])


def not_computed(found: RowError, place: Place, name: str = "") -> RowNotComputed:
    """Return the error of what meets a row that SQL cannot compute.

    `name`: of the query, or the table, which may leave such rows out; empty: there is none.
    """
    part = f" in `{found.part}`" if found.part else ""
    whose, other = "", ""
    if name:
        whose, other = f"{name}: ", '; or write `on_error: "null"` for the table or topic'
    return RowNotComputed(
        f"{place}: {whose}SQL cannot compute a row{part}: {found.sentence} ({found.condition})",
        hint=f"{found.advice}{other}",
        condition=found.condition,
        part=found.part,
        **asdict(place),
    )


def other_sources(name: str, detail: str) -> QueryRefused:
    """Return why a query does not start whose sources are not those of its checkpoint."""
    return QueryRefused(
        f"{name}: the checkpoint was written with different sources", hint=_OTHER_SQL, detail=detail
    )


def explain_plan(error: Exception, table: str, place: Place) -> AshoreError:
    """Return why the INSERT into `table`, or a topic, cannot be planned: what is at `place`.

    It is refused for what Spark says of the SQL. A database or files that it reads beside topics
    may be away for a while: then another try is worth it.
    """
    row_error = find_row_error(text_of(error))
    if row_error is not None:  # Spark computes constants while it plans
        return not_computed(row_error, place, table)
    if isinstance(error, AnalysisException) and _AWAY not in (error.getCondition() or ""):
        return refuse(error, table, place)
    return BatchFailed(
        f"{table}: a source of the SQL does not answer: {outermost_cause(error)}",
        hint="check that the database or file system is reachable and that its driver is in "
        "`spark.jars`",
        detail=text_of(error)[:DETAIL_LENGTH_MAX],
    )
