"""The planned queries of a job, as one process sends them to another.

What it is: a value for a query into a table, and one for a query into a topic; their JSON.
What it promises: pure. `read_queries(write_queries(queries)) == queries`.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from ashore.base import codec
from ashore.base.codec import Json, Malformed, added
from ashore.plans.operators import StatefulOperator
from ashore.plans.sources import PlanSource


@dataclass(frozen=True, slots=True)
class TableQuery:
    """A query that fills a table.

    Arguments:
        table: that is filled.
        partition_by: its partition columns.
        guarantee: how often a row is there.
        slice: whose log and checkpoint the query has.
        columns: of the rows, as DDL.
        checkpoint: where its attempts are.
        sources: what it reads.
        operators: what keeps state.
        warnings: what it computes and makes otherwise where it is run again.

    """

    table: str
    partition_by: tuple[str, ...]
    guarantee: str
    slice: str
    columns: str
    checkpoint: str
    sources: tuple[PlanSource, ...]
    operators: tuple[StatefulOperator, ...]
    warnings: tuple[str, ...] = added(())


@dataclass(frozen=True, slots=True)
class TopicQuery:
    """A query that writes a topic: the same, with its mode and the columns of its key."""

    topic: str
    mode: str
    key: tuple[str, ...]
    guarantee: str
    slice: str
    columns: str
    checkpoint: str
    sources: tuple[PlanSource, ...]
    operators: tuple[StatefulOperator, ...]
    warnings: tuple[str, ...] = added(())


DescribedQuery = TableQuery | TopicQuery


def write_queries(queries: Iterable[DescribedQuery]) -> list[Json]:
    """Return the JSON of queries."""
    return [codec.encode(each) for each in queries]


def read_queries(value: object) -> tuple[DescribedQuery, ...]:
    """Return the queries that were written. Raises Malformed."""
    if not isinstance(value, list):
        raise Malformed("queries", "they are not an array")
    return tuple(_read(each, f"queries[{index}]") for index, each in enumerate(value))


def _read(value: Json, place: str) -> DescribedQuery:
    if isinstance(value, dict) and "topic" in value:
        return codec.decode(TopicQuery, value, place)
    return codec.decode(TableQuery, value, place)
