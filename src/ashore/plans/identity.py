"""Which operator of one plan is which of another: ids and digests of the nodes of a graph.

What it is: `identify`, for each node an id and three digests: of what it computes itself, of that
over its inputs, and of that on its way to the sink.
What it promises: pure, and the same in any session. What a query calls its columns, in which order
it selects, groups, aggregates and filters, and how Spark moves rows or joins a table, plays no
part; nor do numbers of operators and partitions, the columns that an operator merely carries along,
how late a watermark is, what only counts rows, nor an id that the author gave. What counts is in
the terms, which are over the columns of sources.
"""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from ashore.base.codec import Json
from ashore.plans.digests import TermDigests, hash_form
from ashore.plans.graph import DELAY, INPUT, UNION, PlanGraph, PlanNode, split_condition
from ashore.plans.regions import ALIKE, COUNTS, hands_on
from ashore.plans.unions import NUMBER

ID_LENGTH = 8
_LEFT, _RIGHT = "leftKeys", "rightKeys"
_NO_OPTIONS = {DELAY, NUMBER, "isNullAwareAntiJoin"}
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
