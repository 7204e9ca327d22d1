"""What a query does, as a graph: nodes that read, filter, join and keep state, over terms.

What it is: `PlanGraph`, a value, of `PlanSource`, what it reads, of `Term`, an expression over
others down to the columns of sources, or a `Window` of time, and of `PlanNode`. `StoredPlan` is the
graph of a query with what the graph does not say, as its log keeps it, and its JSON:
`read_stored(write_stored(plan)) == plan`.
What it promises: pure. A graph holds nothing that differs between two sessions, nor what a query
calls things, but for the columns that it hands on. Steps that only move or rename rows are no
nodes: projections, exchanges, sorts for a merge; and a stateful aggregate is one, for all phases.
A term is there once, however often views build upon each other, and comes after those that it is
made of: one pass from the start can compute anything from the leaves up.
Not in a graph, so that two queries which differ in it alone look alike: what Spark does not write
of an expression, as the body of a function in Python or Scala, or the plan of a subquery; what a
view makes of a record, whose columns are those of its source; and conditions that a database is
handed.

    {"sources": [{"name": "bid", "format": "kafka", "reads": "bid", "is_streaming": true}],
     "terms":   [{"kind": "column", "name": "price", "type": "bigint", "source": 0}, ...],
     "nodes":   [{"kind": "StateStoreSaveExec", "inputs": [1], "expressions": [["keys", [3]], ...],
                  "state": {...}, "taken": [[0, 3]]}, ...],
     "columns": [{"name": "price", "type": "bigint", "term": 0}, ...]}

Numbers are places: of a source, of a term, of a node. The first node is the one whose rows the sink
takes; a node comes before its inputs, a term after those that it is made of.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from ashore.base import codec
from ashore.base.codec import Malformed, added

UNITS = (
    (86_400_000_000, "day"),
    (3_600_000_000, "hour"),
    (60_000_000, "minute"),
    (1_000_000, "second"),
    (1_000, "millisecond"),
    (1, "microsecond"),
)
# The record as a whole, decoded. Its term has no type: a query is the same query over a source that
# decodes more columns, or hands over fewer.
DECODED = "decoded"
UNITED = "Union"  # the name of a call: a column of a union, over those of its inputs
NULL_CHECKS = {"IsNull", "IsNotNull"}  # calls
NULLABLE = "NullExtended"  # of a call: a column of an outer join, NULL where no row matches
OF_BRANCH = "OfBranch"  # of a call: what one input of a join computes of no column of a source
BY_GROUP = "ByGroup"  # of a call: what an aggregate over another one computes, and its keys
# Functions that are another value at each run.
RANDOM = {"MonotonicallyIncreasingID", "RandStr", "Rand", "Randn", "Shuffle", "Uniform", "Uuid"}


# ---- windows of time


class WindowKind(StrEnum):
    """How time is cut."""

    REGULAR = "regular"  # windows of one length, one after the other or overlapping
    SESSION = "session"  # as long as events follow each other
    PROCESSING = "processing"  # by the clock, not by event time


@dataclass(frozen=True, slots=True)
class Window:
    """A window of time. What is not known, or has no meaning for its kind, is None."""

    kind: WindowKind
    length_us: int | None = added(None)
    slide_us: int | None = added(None)  # from the start of one to the start of the next
    offset_us: int = added(0)  # where windows begin, from the epoch on
    gap: str | None = added(None)  # of a session, as Spark writes it; None: it varies

    @property
    def text(self) -> str:
        """Return `window 1 minute`, `session window 5 minutes`."""
        if self.kind is WindowKind.SESSION:
            return f"session window {self.gap or 'of varying length'}"
        if self.length_us is None:
            return "window"
        length = f"window {describe_duration(self.length_us)}"
        if self.kind is WindowKind.PROCESSING:
            return f"{length} of processing time"
        if self.slide_us is None:
            return "window"
        if self.slide_us != self.length_us:
            length += f" every {describe_duration(self.slide_us)}"
        return length + (f" from {describe_duration(self.offset_us)}" if self.offset_us else "")


def describe_duration(length_us: int) -> str:
    """Return `1 minute`, `1 hour 30 minutes`, `0 seconds`."""
    return " ".join(_parts(length_us)) or "0 seconds"


def _parts(rest_us: int) -> Iterable[str]:
    for size_us, unit in UNITS:
        count, rest_us = divmod(rest_us, size_us)
        if count:
            yield f"{count} {unit}{'' if count == 1 else 's'}"


# ---- expressions


class TermKind(StrEnum):
    """What an expression is."""

    COLUMN = "column"  # of a source; of Kafka's: of the record that its value holds
    RECORD = "record"  # of Kafka, as the source has it: its value, key, topic ...; DECODED
    MADE = (
        "made"  # a column that an operator makes: of a generator, or of what Spark does not write
    )
    LITERAL = "literal"
    NULL = "null"
    FIELD = "field"  # of a struct
    CALL = "call"  # of a function, as Spark's class of it is called
    AGGREGATE = "aggregate"  # the same over the rows of a group
    WINDOW = "window"


@dataclass(frozen=True, slots=True)
class Term:
    """An expression. Numbers are places in the table."""

    kind: TermKind
    name: str = added("")  # of the column, the field or the function; of a literal its value
    type: str = added("")  # as SQL writes it, where Spark writes it of the expression
    # what it is over: a struct, a function's arguments, a window's time
    arguments: tuple[int, ...] = added(())
    source: int | None = added(None)  # that the column is of: its place in the plan's sources
    options: tuple[tuple[str, str], ...] = added(())  # of the function, name and value
    filters: tuple[int, ...] = added(())  # conditions on the rows that an aggregate takes
    is_distinct: bool = added(False)  # of an aggregate
    # that it makes
    window: Window | None = added(None)  # noqa: RUF009 - it makes a field
    copy: int = added(0)  # which copy of the source, where a plan has several of one

    @property
    def parts(self) -> tuple[int, ...]:
        """All terms that this one is made of."""
        return (*self.arguments, *self.filters)


@dataclass(slots=True)
class Terms:
    """A table of terms that grows."""

    table: list[Term] = field(default_factory=list)
    _places: dict[Term, int] = field(default_factory=dict)

    def add(self, term: Term) -> int:
        """Return the place of a term; where it is not there yet, at the end."""
        place = self._places.setdefault(term, len(self.table))
        if place == len(self.table):
            self.table.append(term)
        return place


_NAMED_ROWS = "CTERelationRef"  # what a WITH calls its rows: what these read is in the plan too


# ---- sources


@dataclass(frozen=True, slots=True)
class PlanSource:
    """A source, as often as a plan reads it. No option of it that may hold a secret."""

    name: str  # that the query gave it, or what it reads
    format: str
    reads: str
    is_streaming: bool

    @property
    def is_kafka(self) -> bool:
        """Whether records come from topics, one by one."""
        return self.is_streaming and self.format == "kafka"


def list_topics(sources: tuple[PlanSource, ...]) -> list[list[str]]:
    """Return the topics of each stream of Kafka.

    They are in the order of the plan, which is that of the offsets in a checkpoint.
    """
    return [each.reads.split(",") for each in sources if each.is_kafka]


def list_fixed(sources: tuple[PlanSource, ...]) -> dict[int, str]:
    """Return what each stream reads that is not Kafka's, by its place among all streams.

    Its offsets are known by the place alone: nothing says which stream they are of.
    """
    streams = (each for each in sources if each.is_streaming and each.format != _NAMED_ROWS)
    return {
        place: f"{each.format} {each.reads}"
        for place, each in enumerate(streams)
        if not each.is_kafka
    }


# How plans are read: another number where the same plan of Spark's would give another graph. A new
# field that no comparison of two plans reads, such as `JoinSide.times`, needs none.
GRAPH_FORM = 8

# Names of expressions: what an operator groups by, and what it computes of each group.
KEYS = ("keyExpressions", "keyWithoutSessionExpressions", "sessionExpression", "groupingAttributes")
FUNCTIONS = "aggregateExpressions"
SESSION_PLACE = "sessionPlace"  # the option of a session window that is not the first in GROUP BY
WATERMARK = "EventTimeWatermarkExec"  # the kind of a node that makes a column event time
EVENT_TIME = "eventTime"  # expressions: that column
DELAY = "delayMs"  # the option of a watermark: how late it is
INPUT = "input"  # expressions: the columns of an input, of nodes that name them by their places
UNION = "UnionExec"  # the kind of a node that hands on the rows of all its inputs
UNION_NUMBER = "union"  # the option by which a node and the terms of its columns belong together
UNION_READS = "reads"  # the option that says what the inputs read: it distinguishes them


# ---- nodes


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
    # its columns that are event time: Spark drops rows that are late by the first of them
    times: tuple[int, ...] = added(())


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


def columns_read(graph: PlanGraph, topics: Iterable[str]) -> frozenset[str] | None:
    """Return the columns of topics that a query computes with or hands on.

    None where it may be all: something takes the record as a whole, not only whether there is one.
    """
    reads = ",".join(topics)
    places = {place for place, each in enumerate(graph.sources) if each.reads == reads}
    whole, names = set[int](), set[str]()
    for place, term in enumerate(graph.terms):
        if term.source in places and term.kind is TermKind.COLUMN:
            names.add(term.name)
        if term.source in places and term.kind is TermKind.RECORD and term.name == DECODED:
            whole.add(place)
    taken = {part for term in graph.terms if term.name not in NULL_CHECKS for part in term.parts}
    taken |= {column.term for column in graph.columns}
    for node in graph.nodes:
        taken |= {place for _, places in node.expressions for place in places}
        taken |= {column.term for column in node.state.columns} if node.state else set()
    return None if whole & taken else frozenset(names)


def split_condition(graph: PlanGraph, place: int) -> Iterator[int]:
    """Yield the conditions that a condition is made of: those that are all to hold."""
    term = graph.terms[place]
    if term.kind is TermKind.CALL and term.name == "And":
        for each in term.arguments:
            yield from split_condition(graph, each)
    else:
        yield place


# ---- as a log keeps it


@dataclass(frozen=True, slots=True)
class ViewRule:
    """How the records of topics become the rows of a view: a graph sees the rows alone."""

    topics: tuple[str, ...]  # that the view reads
    decode: str  # how
    select: tuple[str, ...]  # expressions that make its columns; none: all that were decoded
    where: str  # which rows it has; empty: all
    mask: str = codec.added("")  # its columns that are masked, with the form of each


@dataclass(frozen=True, slots=True)
class StoredPlan:
    """What a query does."""

    planner: str  # who made the graph: graphs of two planners cannot be compared
    # the statements, with one space for white space: the views that are read, the INSERT
    texts: tuple[str, ...]
    views: tuple[ViewRule, ...]  # the topics that are read
    graph: PlanGraph
    functions: str = codec.added("")  # digest of the Python functions, where it calls any


def released_plan(planner: str) -> StoredPlan:
    """Return the plan of a query whose INSERT was dropped: it does nothing, and keeps no state."""
    return StoredPlan(planner, (), (), PlanGraph((), (), (), ()))


def is_released(plan: StoredPlan) -> bool:
    """Return whether a plan is that of a query whose INSERT was dropped."""
    return not plan.texts


def write_stored(plan: StoredPlan) -> str:
    """Return the JSON of a plan, on one line."""
    return json.dumps(codec.encode(plan), separators=(",", ":"), ensure_ascii=False)


def read_stored(text: str) -> StoredPlan:
    """Return the plan that was written. Raises Malformed."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise Malformed("", "it is not JSON") from None
    return codec.decode(StoredPlan, value)
