"""Queries of a job file as they would be started, as one process sends them to another.

What it is: `PlannedQuery`, with its plan; `DescribedQuery`, what `validate` reports of one, into a
table or a topic; their JSON.
What it promises: pure. `read_queries(write_queries(queries)) == queries`.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from ashore.base import codec
from ashore.base.codec import Json, Malformed, added
from ashore.log.tables import TableDefinition
from ashore.plans.graph import PlanSource, StoredPlan
from ashore.plans.operators import StatefulOperator


@dataclass(frozen=True, slots=True)
class RefusedState:
    """The state of an operator, by its number in the new plan, and the class of the error."""

    operator: int
    error: str


@dataclass(frozen=True, slots=True)
class StateCheck:
    """What Spark says of a plan that is to continue with a state.

    Spark compares the names of operators and the types of their state, and no more: that it accepts
    says nothing of what the numbers would mean.
    """

    # the class of the error with which it refuses the query, or its words; empty: it would start
    error: str = ""
    # operators whose state it refuses; none: the error is about all of them together
    refused: tuple[RefusedState, ...] = added(())
    unknown: str = added("")  # why it could not be asked; empty: it was

    def error_of(self, operator: int | None) -> str:
        """Return the error of an operator; empty where Spark accepts its state.

        `operator`: its number in the new plan; None: it is not in it.
        """
        if not self.refused:
            return self.error
        return next((each.error for each in self.refused if each.operator == operator), "")


@dataclass(frozen=True, slots=True)
class PlannedQuery:
    """A query."""

    query: str  # the table or topic that it fills
    slice: str  # whose log it would have
    plan: StoredPlan  # what it does, as its log would keep it
    digest: str  # of its statements and of the views that they read, as its log would keep it
    # what Spark says of the state that is there; None: it was not asked
    spark: StateCheck | None = None
    # the table that it fills, as its log would keep it; None: a topic, or it is not known
    table: TableDefinition | None = None


@dataclass(frozen=True, slots=True)
class TableQuery:
    """A query that fills a table."""

    table: str  # that is filled
    partition_by: tuple[str, ...]
    guarantee: str  # how often a row is there
    slice: str  # whose log and checkpoint the query has
    columns: str  # of the rows, as DDL
    checkpoint: str  # where its attempts are
    sources: tuple[PlanSource, ...]
    operators: tuple[StatefulOperator, ...]  # what keeps state
    # what it computes and makes otherwise where it is run again
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
