"""A plan graph as people and other tools read it: operators, what they compute, what flows.

What it is: `OperatorGraph`, from the sources to the sink, and its JSON; `identify`, for each node
of a graph an id and three digests: of what it computes itself, of that over its inputs, and of that
on its way to the sink.
What it promises: pure. The same bytes for the same graph. Nothing of Spark is in it but the names
of its classes and the ids that its checkpoints have; what only counts rows is left out.
Identities are the same in any session. What a query calls its columns, in which order it selects,
groups, aggregates and filters, and how Spark moves rows or joins a table, plays no part; nor do
numbers of operators and partitions, the columns that an operator merely carries along, how late a
watermark is, what only counts rows, nor an id that the author gave. What counts is in the terms,
which are over the columns of sources.

    {"operators": [{"id": "3f2a9c1b", "kind": "source", "name": "read clicks", ...}, ...],
     "columns":   [{"name": "country", "type": "string", "of": "clicks.country"}, ...]}

An operator comes after those that it takes rows of: the last one's are the sink's.
"""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum

from ashore.base import codec
from ashore.base.codec import Json, added
from ashore.errors import SparkUnknown
from ashore.plans.digests import TermDigests, hash_form
from ashore.plans.graph import (
    DELAY,
    FUNCTIONS,
    INPUT,
    KEYS,
    UNION,
    UNION_NUMBER,
    KeptColumn,
    OperatorState,
    PlanGraph,
    PlanNode,
    TermKind,
    describe_duration,
    split_condition,
)
from ashore.plans.operators import JOIN, describe_operators, join_type
from ashore.plans.regions import ALIKE, COUNTS, hands_on, options_of
from ashore.plans.words import Words

ID_LENGTH = 8
_LEFT, _RIGHT = "leftKeys", "rightKeys"
_NO_OPTIONS = {DELAY, UNION_NUMBER, "isNullAwareAntiJoin"}
_ORDERED = {"sortOrder", "projections"}  # of these the order is what they mean


@dataclass(frozen=True, slots=True)
class Identity:
    """What a node is known by."""

    # the one that the author gave; else the first digits of `own`, and the number of the node among
    # those alike, from the sink on: `3f2a9c1b`, `3f2a9c1b-2`
    id: str
    own: str  # digest of what the node computes
    with_inputs: str  # digest of that and of all below it
    with_outputs: str  # digest of what it computes and of all above it, up to the sink


def identify(graph: PlanGraph) -> tuple[Identity, ...]:
    """Return the identity of each node, in the order of the graph."""
    digests = _NodeDigests(graph)
    counts = Counter[str]()
    found = []
    for place, node in enumerate(graph.nodes):
        own = digests.own[place]
        counts[own] += 1
        number = f"-{counts[own]}" if counts[own] > 1 else ""
        derived = f"{own[:ID_LENGTH]}{number}"
        found.append(
            Identity(
                node.given or derived, own, digests.with_inputs[place], digests.with_outputs[place]
            )
        )
    return tuple(found)


def find_above(graph: PlanGraph) -> dict[int, str]:
    """Return the digest of what stands above each source, by its place; none where several do.

    Readings of one topic are not distinguished in it.
    """
    digests = _NodeDigests(graph, counts_readings=False)
    found: dict[int, list[str]] = {}
    for place, node in enumerate(graph.nodes):
        if node.source is not None:
            found.setdefault(node.source, []).append(digests.with_outputs[place])
    return {place: each[0] for place, each in found.items() if len(each) == 1}


@dataclass(slots=True)
class _NodeDigests:
    graph: PlanGraph
    counts_readings: bool = True
    own: list[str] = field(default_factory=list)
    with_inputs: dict[int, str] = field(default_factory=dict)
    with_outputs: dict[int, str] = field(default_factory=dict)
    _sources: list[Json] = field(default_factory=list)
    _terms: TermDigests = field(init=False)

    def __post_init__(self) -> None:
        counts = Counter[tuple[str, str]]()
        for source in self.graph.sources:
            read = (source.format, source.reads)
            self._sources.append([*read, counts[read] if self.counts_readings else 0])
            counts[read] += 1
        self._terms = TermDigests(self.graph, self._sources, has_seeds=False, is_canonical=False)
        self.own = [hash_form(self._form(node)) for node in self.graph.nodes]
        for place, node in reversed(list(enumerate(self.graph.nodes))):
            below = [self.with_inputs[each] for each in node.inputs]
            inputs: Json = [*(sorted(below) if node.kind == UNION else below)]
            known = below[0] if hands_on(node) else hash_form([self.own[place], inputs])
            self.with_inputs[place] = known
        above: dict[int, tuple[str, Json]] = {}
        for place, node in enumerate(self.graph.nodes):
            # The first node, or one whose rows no other takes as its union was narrowed.
            taker = above.get(place, ("sink", 0))
            self.with_outputs[place] = hash_form([self.own[place], *taker])
            for number, each in enumerate(node.inputs):
                side: Json = self._handed(node, number) if node.kind == UNION else number
                above[each] = taker if node.kind in COUNTS else (self.with_outputs[place], side)

    def _handed(self, union: PlanNode, number: int) -> Json:
        """Return the columns that an input hands to a union, in an order of their own."""
        columns = [terms for name, terms in union.expressions if name == INPUT]
        return [*sorted(self._terms.all(columns[number]))] if columns else []

    def _form(self, node: PlanNode) -> Json:
        return [
            ALIKE.get(node.kind, node.kind),
            [*self._expressions(node)],
            [[*each] for each in node.options if each[0] not in _NO_OPTIONS],
            None if node.source is None else self._sources[node.source],
        ]

    def _expressions(self, node: PlanNode) -> Iterator[Json]:
        """Yield what a node computes with, in an order of its own where order means nothing."""
        keys = [[*self._terms.all(node.terms(name))] for name in (_LEFT, _RIGHT)]
        if all(keys):
            yield ["keys", _sorted([*pair] for pair in zip(*keys, strict=True))]
        columns = [self._terms.all(terms) for name, terms in node.expressions if name == INPUT]
        if columns and len({len(each) for each in columns}) == 1 and node.kind == UNION:
            # Which input a column is of say those below it, by `_handed`.
            yield [INPUT, _sorted(sorted(row) for row in zip(*columns, strict=True))]
        for name, terms in sorted(node.expressions):
            is_distinguished = (all(keys) and name in {_LEFT, _RIGHT}) or (
                name == INPUT and node.kind == UNION
            )
            if is_distinguished:
                continue
            parts = [each for term in terms for each in split_condition(self.graph, term)]
            digests = self._terms.all(parts)
            is_ordered = name in _ORDERED or name == INPUT
            yield [name, [*(digests if is_ordered else sorted(digests))]]


def _sorted(rows: Iterator[list[str]]) -> Json:
    return [[*row] for row in sorted(rows, key=json.dumps)]


class FactRole(StrEnum):
    """What an expression is to its operator."""

    KEY = "key"
    WINDOW = "window"  # a key that is one
    AGGREGATE = "aggregate"
    LEFT_KEY = "left key"
    RIGHT_KEY = "right key"
    JOIN = "join"  # which rows come without a match
    CONDITION = "joined where"
    FILTER = "where"
    WATERMARK = "watermark"
    LATE = "late after"
    READS = "reads"
    ROWS = "rows of"
    OPTION = "option"
    OTHER = "with"


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing that an operator computes with, in words over the columns of sources."""

    role: FactRole
    text: str


@dataclass(frozen=True, slots=True)
class StateField:
    """A column of a state."""

    name: str
    type: str
    is_nullable: bool
    side: str = added("")  # of a join


@dataclass(frozen=True, slots=True)
class State:
    """What an operator keeps, with the id that its directory in a checkpoint has."""

    operator_id: int
    partitions: int
    keys: tuple[StateField, ...]
    columns: tuple[StateField, ...]


@dataclass(frozen=True, slots=True)
class Edge:
    """Rows that flow from one operator into another: from which, and their columns."""

    source: str
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator."""

    id: str  # see `Identity`
    kind: str  # `source`, `filter`, `aggregate` and so on: what it is in any engine
    name: str
    engine_class: str  # Spark's
    own: str
    with_inputs: str
    with_outputs: str
    inputs: tuple[Edge, ...] = added(())  # that it takes rows of
    facts: tuple[Fact, ...] = added(())  # what it computes with
    state: State | None = added(None)  # noqa: RUF009 - it makes a field
    is_given: bool = added(False)  # whether the author gave the id


@dataclass(frozen=True, slots=True)
class OutputColumn:
    """A column that the sink takes."""

    name: str
    type: str
    of: str  # what it is computed from, in words


@dataclass(frozen=True, slots=True)
class OperatorGraph:
    """What a query does."""

    operators: tuple[Operator, ...]
    columns: tuple[OutputColumn, ...]


def describe_graph(graph: PlanGraph, known_as: PlanGraph | None = None) -> OperatorGraph:
    """Return the operators of a graph, each after those that it takes rows of.

    `known_as`: a graph with the same nodes, whose ids they have; None: this one.
    """
    describer = _Describer(graph, graph if known_as is None else known_as)
    places = [at for at, node in enumerate(graph.nodes) if node.kind not in COUNTS]
    columns = (
        OutputColumn(each.name, each.type, describer.exact.of(each.term)) for each in graph.columns
    )
    return OperatorGraph(tuple(describer.operator(at) for at in reversed(places)), tuple(columns))


def write_operators(graph: OperatorGraph) -> str:
    """Return the JSON of operators, a line for each: the same bytes for the same graph."""
    parts = {"operators": graph.operators, "columns": graph.columns}
    written = [
        f'"{name}": [\n' + ",\n".join(json.dumps(codec.encode(each)) for each in part) + "\n]"
        for name, part in parts.items()
    ]
    return "{\n" + ",\n".join(written) + "\n}\n"


class _Describer:
    def __init__(self, graph: PlanGraph, known_as: PlanGraph) -> None:
        self.graph = graph
        self.exact = Words(graph.terms, graph.sources, is_qualified=True, is_exact=True)
        self._short = Words(graph.terms, graph.sources)
        self._identities: tuple[Identity, ...] = tuple(
            replace(found, id=known.id)
            for found, known in zip(identify(graph), identify(known_as), strict=True)
        )
        try:
            self._stateful = {each.operator_id: each for each in describe_operators(graph)}
        except SparkUnknown:
            self._stateful = {}

    def operator(self, place: int) -> Operator:
        node, identity = self.graph.nodes[place], self._identities[place]
        return Operator(
            id=identity.id,
            kind=self._kind(node),
            name=self._name(node),
            engine_class=node.kind,
            own=identity.own,
            with_inputs=identity.with_inputs,
            with_outputs=identity.with_outputs,
            inputs=tuple(self._edges(node)),
            facts=tuple(dict.fromkeys(self._facts(node))),
            state=self._state(node, node.state) if node.state else None,
            is_given=bool(node.given),
        )

    def _kind(self, node: PlanNode) -> str:
        known = self._stateful.get(node.state.operator_id) if node.state else None
        if known is not None:
            return known.kind.value
        return "source" if not node.inputs else _KINDS.get(ALIKE.get(node.kind, node.kind), "other")

    def _name(self, node: PlanNode) -> str:
        known = self._stateful.get(node.state.operator_id) if node.state else None
        if known is not None:
            return known.name
        match self._kind(node):
            case "source":
                return f"read {self._source(node)}"
            case "filter":
                return f"where {' and '.join(self._short.all(node.terms('condition')))}"
            case "watermark":
                return f"watermark by {', '.join(self._short.all(node.terms('eventTime')))}"
            case "table join":
                return f"{join_type(node) or 'inner'} join with a table"
            case "rows of":
                return f"rows of {', '.join(self._short.all(node.terms('generator')))}"
            case "other":
                return node.kind.removesuffix("Exec")
            case kind:
                return kind

    def _source(self, node: PlanNode) -> str:
        return node.kind if node.source is None else self.graph.sources[node.source].name

    def _edges(self, node: PlanNode) -> Iterator[Edge]:
        for number, place in enumerate(node.inputs):
            taken = node.taken[number] if number < len(node.taken) else ()
            below = place
            while self.graph.nodes[below].kind in COUNTS:
                (below,) = self.graph.nodes[below].inputs
            yield Edge(self._identities[below].id, self.exact.all(taken))

    def _state(self, node: PlanNode, state: OperatorState) -> State:
        known = self._stateful.get(state.operator_id)
        partitions = known.state_partitions if known else state.partitions
        keys = (
            tuple(self._column(each) for each in state.keys)
            if state.keys
            else tuple(
                StateField(text, "", is_nullable=True)
                for text in self.exact.all(node.terms("leftKeys"))
            )
        )
        columns = tuple(self._column(each) for each in state.columns)
        return State(state.operator_id, partitions, keys, columns)

    def _column(self, kept: KeptColumn) -> StateField:
        name = ".".join(each for each in (self.exact.of(kept.term), kept.part) if each)
        return StateField(name, kept.type, kept.is_nullable, kept.side)

    def _facts(self, node: PlanNode) -> Iterator[Fact]:
        for name, terms in node.expressions:
            for term in (part for each in terms for part in split_condition(self.graph, each)):
                yield Fact(self._role(node, name, term), self.exact.of(term))
        for name, value in node.options:
            if name == DELAY:
                yield Fact(FactRole.LATE, describe_duration(int(value) * 1000))
        for name, value in options_of(node):
            if name == "joinType":
                yield Fact(FactRole.JOIN, join_type(node))
            else:
                yield Fact(FactRole.OPTION, f"{name} {value}")
        if node.source is not None:
            yield Fact(FactRole.READS, self.graph.sources[node.source].reads)

    def _role(self, node: PlanNode, name: str, term: int) -> FactRole:
        if name in KEYS:
            is_window = self.graph.terms[term].kind is TermKind.WINDOW
            return FactRole.WINDOW if is_window else FactRole.KEY
        if name == "condition" and ALIKE.get(node.kind, node.kind) in {"join", JOIN}:
            return FactRole.CONDITION
        return _ROLES.get(name, FactRole.OTHER)


_KINDS = {
    "EventTimeWatermarkExec": "watermark",
    "ExpandExec": "expand",
    "FilterExec": "filter",
    "GenerateExec": "rows of",
    "SortExec": "sort",
    "UnionExec": "union",
    "aggregate": "table aggregate",
    "join": "table join",
}
_ROLES = {
    FUNCTIONS: FactRole.AGGREGATE,
    "condition": FactRole.FILTER,
    "dataFilters": FactRole.FILTER,
    "partitionFilters": FactRole.FILTER,
    "eventTime": FactRole.WATERMARK,
    "generator": FactRole.ROWS,
    "keys": FactRole.KEY,
    "leftKeys": FactRole.LEFT_KEY,
    "rightKeys": FactRole.RIGHT_KEY,
}
