"""What a query does, as a graph: nodes that read, filter, join and keep state, over terms.

What it is: `PlanGraph`, a value, and its form as JSON.
What it promises: pure. A graph holds nothing that differs between two sessions, nor what a query
calls things, but for the columns that it hands on. Steps that only move or rename rows are no
nodes: projections, exchanges, sorts for a merge; and a stateful aggregate is one, for all phases.
Not in a graph, so that two queries which differ in it alone look alike: what Spark does not write
of expressions (`terms`), and conditions that a database is handed.

    {"sources": [{"name": "bid", "format": "kafka", "reads": "bid", "is_streaming": true}],
     "terms":   [{"kind": "column", "name": "price", "type": "bigint", "source": 0}, ...],
     "nodes":   [{"kind": "StateStoreSaveExec", "inputs": [1], "expressions": [["keys", [3]], ...],
                  "state": {...}, "taken": [[0, 3]]}, ...],
     "columns": [{"name": "price", "type": "bigint", "term": 0}, ...]}

Numbers are places: of a source, of a term, of a node. The first node is the one whose rows the sink
takes; a node comes before its inputs, a term after those that it is made of.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from ashore.base.codec import added
from ashore.plans.sources import PlanSource
from ashore.plans.terms import Term, TermKind

# How plans are read: another number where the same plan of Spark's would give another graph.
GRAPH_FORM = 6

# Names of expressions: what an operator groups by, and what it computes of each group.
KEYS = ("keyExpressions", "keyWithoutSessionExpressions", "sessionExpression", "groupingAttributes")
FUNCTIONS = "aggregateExpressions"
SESSION_PLACE = "sessionPlace"  # the option of a session window that is not the first in GROUP BY
DELAY = "delayMs"  # the option of a watermark: how late it is
INPUT = "input"  # expressions: the columns of an input, of nodes that name them by their places
UNION = "UnionExec"  # the kind of a node that hands on the rows of all its inputs


@dataclass(frozen=True, slots=True)
class PlanColumn:
    """A column that a query hands on."""

    name: str
    type: str
    term: int


@dataclass(frozen=True, slots=True)
class KeptColumn:
    """A value that an operator keeps for each key."""

    type: str  # as SQL writes it
    term: int  # the column that is kept, or the function that the value is for
    part: str = added("")  # which value of a function that needs several
    side: str = added("")  # of a join, `left` or `right`
    is_nullable: bool = added(True)


@dataclass(frozen=True, slots=True)
class JoinSide:
    """The state of the rows of one side of a join of two streams."""

    is_bounded: bool  # whether Spark forgets them
    # the event time by which it forgets them while they can still match
    early: int | None = added(None)


@dataclass(frozen=True, slots=True)
class OperatorState:
    """The state of an operator."""

    operator_id: int  # which its directory in a checkpoint has, on a first start
    partitions: int  # into how many it is cut, on a first start
    # whether one of the keys is event time, so that a watermark passes it
    has_event_time: bool = added(False)
    columns: tuple[KeptColumn, ...] = added(())
    sides: tuple[JoinSide, ...] = added(())  # of a join, left and right
    keys: tuple[KeptColumn, ...] = added(())


@dataclass(frozen=True, slots=True)
class PlanNode:
    """A node."""

    kind: str  # Spark's class
    inputs: tuple[int, ...] = added(())  # the nodes whose rows it takes
    # what it computes with, by the name that Spark gives it; of a node whose inputs are named by
    # the places of their columns, these too
    expressions: tuple[tuple[str, tuple[int, ...]], ...] = added(())
    options: tuple[tuple[str, str], ...] = added(())  # how, where that is no expression
    source: int | None = added(None)
    state: OperatorState | None = added(None)  # noqa: RUF009 - it makes a field
    # the columns that each of its inputs hands to it
    taken: tuple[tuple[int, ...], ...] = added(())
    given: str = added("")  # the id that the query gives it

    def terms(self, name: str) -> tuple[int, ...]:
        """Return the expressions of a name; none where it has none."""
        return next((places for found, places in self.expressions if found == name), ())

    def option(self, name: str) -> str:
        """Return an option; empty where it has none."""
        return next((value for found, value in self.options if found == name), "")


@dataclass(frozen=True, slots=True)
class PlanGraph:
    """A query: what it reads, what it computes, its nodes, and the columns that it hands on."""

    sources: tuple[PlanSource, ...]
    terms: tuple[Term, ...]
    nodes: tuple[PlanNode, ...]
    columns: tuple[PlanColumn, ...]


def split_condition(graph: PlanGraph, place: int) -> Iterator[int]:
    """Yield the conditions that a condition is made of: those that are all to hold."""
    term = graph.terms[place]
    if term.kind is TermKind.CALL and term.name == "And":
        for each in term.arguments:
            yield from split_condition(graph, each)
    else:
        yield place
