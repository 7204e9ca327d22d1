"""What the state of a query is made of, in a form that can be compared.

What it is: for each operator that keeps state its *region*: the operator, and all below it down to
the sources or to the next such operator.
What it promises: pure. Two regions are equal where the same input gives the same state, in the same
bytes. How Spark joins or aggregates without state plays no part, nor into how many partitions state
is cut, nor what stands above.
What it must not know: what is done where regions differ.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ashore.plans.digests import TermDigests, hash_form
from ashore.plans.graph import DELAY, OperatorState, PlanGraph, PlanNode
from ashore.plans.sources import PlanSource
from ashore.protocol.codec import Json

# Spark chooses one by how large it takes a table for; all compute the same.
ALIKE = {
    **dict.fromkeys(
        ("BroadcastHashJoinExec", "BroadcastNestedLoopJoinExec", "CartesianProductExec"), "join"
    ),
    **dict.fromkeys(("ShuffledHashJoinExec", "SortMergeJoinExec"), "join"),
    **dict.fromkeys(
        ("HashAggregateExec", "ObjectHashAggregateExec", "SortAggregateExec"), "aggregate"
    ),
}
COUNTS = {"CollectMetricsExec"}  # they count rows, and change none
FILTER = "FilterExec"
# Of these Spark does not write what they compute.
_UNSEEN = {
    *("ScalarSubquery", "InSubqueryExec", "Exists", "InSubquery", "DynamicPruningExpression"),
    *("PythonUDF", "PythonUDAF", "ScalaUDF", "ScalaUDAF", "ScalaAggregator"),
    *("HiveSimpleUDF", "HiveGenericUDF", "HiveUDAFFunction", "HiveGenericUDTF", "InSet"),
}
_DATABASE = "relation"  # it is handed conditions that no plan shows


@dataclass(frozen=True, slots=True)
class Region:
    """An operator with state, and what is below it.

    Arguments:
        operator_id: of the operator.
        digest: of all that its state depends on, but for the operators below.
        own: digest of what the operator itself computes and keeps.
        inputs: digest of what stands below the operator, but for the conditions of filters.
        nodes: places in the graph, the operator's first; without those that only count rows.
        below: the ids of the operators that it stands on.
        is_seen: whether Spark writes all that is computed in it.

    """

    operator_id: int
    digest: str
    own: str
    inputs: str
    nodes: tuple[int, ...]
    below: tuple[int, ...]
    is_seen: bool


def find_regions(
    graph: PlanGraph, renumbered: Mapping[int, int] | None = None
) -> dict[int, Region]:
    """Return the regions of a query, by the ids of their operators.

    `renumbered`: the ids that operators have in another graph, so that digests can be compared with
    its digests; an operator that is not in it is like none there. None: they have the same.
    """
    digests = _Digests(graph, renumbered)
    found: dict[int, Region] = {}
    for place, node in enumerate(graph.nodes):
        if node.state is not None:
            region = _region(digests, place, node.state)
            found[region.operator_id] = region
    return found


def _region(digests: "_Digests", place: int, state: OperatorState) -> Region:
    walked = tuple(_walk(digests.graph, place))
    below = tuple(
        inner.operator_id
        for each in walked
        for at in digests.graph.nodes[each].inputs
        if (inner := digests.graph.nodes[at].state) is not None
    )
    nodes = tuple(each for each in walked if digests.graph.nodes[each].kind not in COUNTS)
    is_seen = all(digests.is_seen(digests.graph.nodes[each]) for each in nodes)
    return Region(
        state.operator_id,
        hash_form(digests.node(place)),
        hash_form(digests.own_of(place)),
        hash_form(digests.inputs_of(place)),
        nodes,
        below,
        is_seen,
    )


def _walk(graph: PlanGraph, place: int) -> Iterator[int]:
    """Yield a node and those below it, down to the next that keep state."""
    yield place
    for each in graph.nodes[place].inputs:
        if graph.nodes[each].state is None:
            yield from _walk(graph, each)


@dataclass(slots=True)
class _Digests:
    """The forms of a graph's nodes, without places."""

    graph: PlanGraph
    renumbered: Mapping[int, int] | None = None
    _sources: list[Json] = field(default_factory=list)
    _terms: TermDigests = field(init=False)
    _unseen: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._sources = number_sources(self.graph.sources)
        self._terms = TermDigests(self.graph, self._sources)
        for place, term in enumerate(self.graph.terms):
            if term.name in _UNSEEN or not self._unseen.isdisjoint(term.parts):
                self._unseen.add(place)

    def node(self, place: int) -> Json:
        """Return the form of a node and all below it, down to the next that keep state."""
        node = self.graph.nodes[place]
        if node.kind in COUNTS:
            return self._input(node.inputs[0])
        return [*self._own(node), [self._input(each) for each in node.inputs]]

    def _own(self, node: PlanNode) -> list[Json]:
        return [
            ALIKE.get(node.kind, node.kind),
            [[name, [*self._terms.all(terms)]] for name, terms in node.expressions],
            [[*each] for each in options_of(node)],
            None if node.source is None else self._sources[node.source],
            None if node.state is None else self._state(node.state),
        ]

    def own_of(self, place: int) -> Json:
        """Return the form of a node without its inputs."""
        return self._own(self.graph.nodes[place])

    def inputs_of(self, place: int) -> Json:
        """Return the form of what stands below a node, without filters."""
        return [self._unfiltered(each) for each in self.graph.nodes[place].inputs]

    def _unfiltered(self, place: int) -> Json:
        node = self.graph.nodes[place]
        if node.state is not None:
            return self._below(node.state)
        if node.kind in COUNTS or node.kind == FILTER:
            return self._unfiltered(node.inputs[0])
        return [*self._own(node), self.inputs_of(place)]

    def is_seen(self, node: PlanNode) -> bool:
        """Tell whether Spark writes all that a node computes."""
        if node.source is not None and self.graph.sources[node.source].format == _DATABASE:
            return False
        terms = {term for _, terms in node.expressions for term in terms}
        return self._unseen.isdisjoint(terms)

    def _input(self, place: int) -> Json:
        state = self.graph.nodes[place].state
        return self.node(place) if state is None else self._below(state)

    def _below(self, state: OperatorState) -> Json:
        number = state.operator_id
        if self.renumbered is None:
            return ["state", number]
        return ["state", self.renumbered[number]] if number in self.renumbered else ["gone", number]

    def _state(self, state: OperatorState) -> Json:
        return [
            state.has_event_time,
            [[each.type, self._terms[each.term], each.part, each.side] for each in state.columns],
            [
                [each.is_bounded, None if each.early is None else self._terms[each.early]]
                for each in state.sides
            ],
        ]


def options_of(node: PlanNode) -> list[tuple[str, str]]:
    """Return the options that a state depends on.

    Not every kind of a join has the one left out; how late a watermark is says when state is
    forgotten, not what it means.
    """
    return [
        each
        for each in node.options
        if each != ("isNullAwareAntiJoin", "false") and each[0] != DELAY
    ]


def number_sources(sources: Sequence[PlanSource]) -> list[Json]:
    """Return how each source is told apart: topics may come; which stream it is says its place."""
    found: list[Json] = []
    counts = Counter[str]()
    for source in sources:
        read = "kafka" if source.is_kafka else f"{source.format}:{source.reads}"
        found.append([read, counts[read]])
        counts[read] += 1
    return found
