"""What the state of a query is made of, in a form that can be compared.

What it is: for each operator that keeps state its *region*: the operator, and all below it down to
the sources or to the next such operator. `narrow` gives a graph without what only some of its
sources hand to unions, so that a query before and after a union has got another input can be
compared in what both do.
What it promises: pure. Two regions are equal where the same input gives the same state, in the same
bytes. How Spark joins or aggregates without state plays no part, nor into how many partitions state
is cut, nor what stands above. In a narrowed graph every node and every term keeps its place; a
union of which one input is left is a node that hands on its rows, and its columns are those of that
input; a union keeps its inputs where none would be left.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ashore.base.codec import Json
from ashore.plans.digests import TermDigests, hash_form
from ashore.plans.graph import (
    DELAY,
    INPUT,
    UNION,
    UNION_NUMBER,
    UNION_READS,
    UNITED,
    WATERMARK,
    OperatorState,
    PlanGraph,
    PlanNode,
    PlanSource,
    Term,
    TermKind,
    split_condition,
)

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
    """An operator with state, and what is below it."""

    operator_id: int
    digest: str  # of all that its state depends on, but for the operators below
    own: str  # digest of what the operator itself computes and keeps
    # digest of what stands below the operator, but for the conditions of filters, and for operators
    # that are passed
    inputs: str
    # the conditions of filters below, each after a digest of it and of what its filter stands on:
    # rows of one input of a union or a join meet it, and those of others need not
    filters: tuple[tuple[str, int], ...]
    # places in the graph, the operator's first; without those that only count rows
    nodes: tuple[int, ...]
    below: tuple[int, ...]  # the ids of the operators that it stands on
    is_seen: bool  # whether Spark writes all that is computed in it


def find_regions(
    graph: PlanGraph,
    renumbered: Mapping[int, int] | None = None,
    sources: Sequence[Json] | None = None,
    passed: frozenset[int] = frozenset(),
) -> dict[int, Region]:
    """Return the regions of a query, by the ids of their operators.

    `renumbered`: the ids that operators have in another graph, so that digests can be compared with
    its digests; an operator that is not in it is like none there. None: they have the same.
    `sources`: how each source is distinguished; None: by `number_sources`. `passed`: the ids of
    operators that hand on some of their rows as they are, and that are taken for filters: what
    stands on them stands on what is below them.
    """
    numbers = number_sources(graph.sources) if sources is None else [*sources]
    digests = _Digests(graph, renumbered, numbers, passed)
    found: dict[int, Region] = {}
    for place, node in enumerate(graph.nodes):
        if node.state is not None:
            region = _region(digests, place, node.state)
            found[region.operator_id] = region
    return found


def _region(digests: "_Digests", place: int, state: OperatorState) -> Region:
    walked = tuple(walk_region(digests.graph, place, digests.passed))
    below = tuple(
        inner.operator_id
        for each in walked
        for at in digests.graph.nodes[each].inputs
        if (inner := digests.graph.nodes[at].state) is not None
    )
    nodes = tuple(each for each in walked if not hands_on(digests.graph.nodes[each]))
    is_seen = all(digests.is_seen(digests.graph.nodes[each]) for each in nodes)
    return Region(
        state.operator_id,
        hash_form(digests.node(place)),
        hash_form([*digests.own(digests.graph.nodes[place])]),
        hash_form(digests.inputs_of(place)),
        tuple(each for at in nodes[1:] for each in digests.filters_of(at)),
        nodes,
        below,
        is_seen,
    )


def walk_region(
    graph: PlanGraph, place: int, passed: frozenset[int] = frozenset()
) -> Iterator[int]:
    """Yield a node and those below it, down to the next that keep state and are not `passed`."""
    yield place
    for each in graph.nodes[place].inputs:
        state = graph.nodes[each].state
        if state is None or state.operator_id in passed:
            yield from walk_region(graph, each, passed)


@dataclass(slots=True)
class _Digests:
    graph: PlanGraph
    renumbered: Mapping[int, int] | None
    sources: Sequence[Json]
    passed: frozenset[int]
    _terms: TermDigests = field(init=False)
    _unseen: set[int] = field(default_factory=set)
    _below_of: list[frozenset[int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._below_of = find_below(self.graph)
        self._terms = TermDigests(self.graph, self.sources)
        for place, term in enumerate(self.graph.terms):
            if term.name in _UNSEEN or not self._unseen.isdisjoint(term.parts):
                self._unseen.add(place)

    def node(self, place: int) -> Json:
        """Return the form of a node and all below it, down to the next that keep state."""
        node = self.graph.nodes[place]
        if hands_on(node):
            return self._input(node.inputs[0])
        return [*self.own(node), self._joined(node, [self._input(each) for each in node.inputs])]

    def own(self, node: PlanNode) -> list[Json]:
        """Return the form of a node without its inputs."""
        return [
            ALIKE.get(node.kind, node.kind),
            [
                [name, [*self._terms.all(terms)]]
                for name, terms in node.expressions
                if (node.kind, name) != (UNION, INPUT)
            ],
            [[*each] for each in options_of(node)],
            None if node.source is None else self.sources[node.source],
            None if node.state is None else self._state(node.state),
        ]

    def inputs_of(self, place: int) -> Json:
        """Return the form of what stands below a node, without filters."""
        node = self.graph.nodes[place]
        inputs = [self._unfiltered(each) for each in node.inputs]
        if node.kind == UNION and self._reads_apart(node):
            # What the columns are of that it hands on say the terms above it.
            return sorted(inputs, key=hash_form)
        return self._joined(node, inputs)

    def filters_of(self, place: int) -> Iterator[tuple[str, int]]:
        """Yield the conditions of a filter, each with the digest of what the filter stands on."""
        node = self.graph.nodes[place]
        if node.kind != FILTER:
            return
        while node.kind in {FILTER, WATERMARK}:
            (below,) = node.inputs
            node = self.graph.nodes[below]
        stands_on = hash_form(self._unfiltered(below))
        for term in self.graph.nodes[place].terms("condition"):
            for part in split_condition(self.graph, term):
                yield hash_form([self._terms[part], stands_on]), part

    def _reads_apart(self, union: PlanNode) -> bool:
        """Return whether each input of a union reads other sources, which distinguish terms."""
        firsts = {min(self._below_of[each], default=None) for each in union.inputs}
        return len(firsts) == len(union.inputs)

    def _joined(self, node: PlanNode, inputs: list[Json]) -> Json:
        """Return the forms of a node's inputs; of a union's their order means nothing."""
        if node.kind != UNION:
            return inputs
        taken = [self._terms.all(terms) for name, terms in node.expressions if name == INPUT]
        columns: list[Json] = [[*each] for each in taken or [[] for _ in inputs]]
        pairs: list[Json] = [[*each] for each in zip(columns, inputs, strict=True)]
        return sorted(pairs, key=hash_form)

    def _unfiltered(self, place: int) -> Json:
        node = self.graph.nodes[place]
        is_passed = node.state is not None and node.state.operator_id in self.passed
        if node.state is not None and not is_passed:
            return self._below(node.state)
        if is_passed or hands_on(node) or node.kind == FILTER:
            return self._unfiltered(node.inputs[0])
        return [*self.own(node), self.inputs_of(place)]

    def is_seen(self, node: PlanNode) -> bool:
        """Return whether Spark writes all that a node computes."""
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
        if each != ("isNullAwareAntiJoin", "false") and each[0] not in {DELAY, UNION_NUMBER}
    ]


def hands_on(node: PlanNode) -> bool:
    """Return whether a node does nothing but hand on the rows of its one input."""
    return node.kind in COUNTS or (node.kind == UNION and len(node.inputs) == 1)


def number_sources(sources: Sequence[PlanSource]) -> list[Json]:
    """Return what distinguishes each source: topics may come; its place says which stream it is."""
    found: list[Json] = []
    counts = Counter[str]()
    for source in sources:
        read = "kafka" if source.is_kafka else f"{source.format}:{source.reads}"
        found.append([read, counts[read]])
        counts[read] += 1
    return found


# ---- graphs without some inputs of unions


def narrow(graph: PlanGraph, without: frozenset[int]) -> PlanGraph:
    """Return a graph without the inputs of unions that read nothing but some sources.

    `without`: places of these sources.
    """
    kept = _find_kept(graph, without)
    if not kept:
        return graph
    of_unions = {graph.nodes[place].option(UNION_NUMBER): inputs for place, inputs in kept.items()}
    nodes = tuple(
        _narrow_node(node, kept[place]) if place in kept else node
        for place, node in enumerate(graph.nodes)
    )
    terms: list[Term] = []
    for term in graph.terms:
        terms.append(_narrow_term(term, of_unions, terms))
    return replace(graph, nodes=nodes, terms=tuple(terms))


def find_below(graph: PlanGraph) -> list[frozenset[int]]:
    """Return the sources that each node and those below it read."""
    found = [frozenset[int]()] * len(graph.nodes)
    for place, node in reversed(list(enumerate(graph.nodes))):
        own = () if node.source is None else (node.source,)
        found[place] = frozenset(own).union(*(found[each] for each in node.inputs))
    return found


def _find_kept(graph: PlanGraph, without: frozenset[int]) -> dict[int, list[int]]:
    """Return which inputs are left of each union that loses some."""
    below = find_below(graph)
    found = {}
    for place, node in enumerate(graph.nodes):
        if node.kind == UNION:
            left = [
                at
                for at, each in enumerate(node.inputs)
                if not below[each] or not below[each] <= without
            ]
            if left and len(left) < len(node.inputs):
                found[place] = left
    return found


def _narrow_node(node: PlanNode, kept: Sequence[int]) -> PlanNode:
    taken = [terms for name, terms in node.expressions if name == INPUT]
    others = [each for each in node.expressions if each[0] != INPUT]
    return replace(
        node,
        inputs=tuple(node.inputs[each] for each in kept),
        taken=tuple(node.taken[each] for each in kept) if node.taken else (),
        expressions=(*others, *((INPUT, taken[each]) for each in kept if taken)),
    )


def _narrow_term(term: Term, kept: dict[str, list[int]], before: Sequence[Term]) -> Term:
    """Return a term over what is left. `before`: the terms that stand before it, narrowed."""
    if term.kind is not TermKind.CALL or term.name != UNITED:
        return term
    left = kept.get(dict(term.options).get(UNION_NUMBER, ""))
    if left is None:
        return term
    arguments = tuple(term.arguments[each] for each in left)
    if len(arguments) == 1:
        return before[arguments[0]]
    reads = dict(term.options)[UNION_READS].split(",")
    options = (*term.options[:-1], (UNION_READS, ",".join(reads[each] for each in left)))
    return replace(term, arguments=arguments, options=options)
