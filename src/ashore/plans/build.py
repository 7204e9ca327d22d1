"""From a physical plan to the graph of what it does.

What it promises: pure. A stateful aggregate, which Spark runs in phases, is one node, with the
functions as the first phase has them: only there do they have their filters. An operator that is
not known is a node like any other.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from ashore.errors import check
from ashore.plans.graph import (
    DELAY,
    FUNCTIONS,
    INPUT,
    KEYS,
    SESSION_PLACE,
    UNION_NUMBER,
    JoinSide,
    KeptColumn,
    OperatorState,
    PlanColumn,
    PlanGraph,
    PlanNode,
    Terms,
)
from ashore.plans.lineage import Lineage, learn_lineage
from ashore.plans.physical import (
    HANDED_ON,
    Node,
    Planned,
    PlannedJoin,
    PlannedNode,
    PlannedSide,
    StateInfo,
    expressions_in,
    separate_branches,
    separate_unions,
    type_name,
    write_option,
)

# They move rows or rename columns, and compute nothing that lineage does not follow.
MOVES = {
    *("BroadcastExchangeExec", "ColumnarToRowExec", "InputAdapter", "ProjectExec"),
    *("RowToColumnarExec", "ShuffleExchangeExec", "WholeStageCodegenExec"),
}
SAVES = {"StateStoreSaveExec", "SessionWindowStateStoreSaveExec"}
RESTORES = {"StateStoreRestoreExec", "SessionWindowStateStoreRestoreExec"}
# They find the columns that they take by their ids, as lineage does.
_BY_ID = {
    *MOVES,
    *SAVES,
    *RESTORES,
    *("BroadcastHashJoinExec", "BroadcastNestedLoopJoinExec", "CartesianProductExec"),
    *("ShuffledHashJoinExec", "SortMergeJoinExec", "StreamingSymmetricHashJoinExec"),
    *("HashAggregateExec", "MergingSessionsExec", "ObjectHashAggregateExec", "SortAggregateExec"),
    *("StreamingDeduplicateExec", "StreamingDeduplicateWithinWatermarkExec"),
    *("GlobalLimitExec", "LocalLimitExec", "StreamingGlobalLimitExec", "StreamingLocalLimitExec"),
    *("CollectMetricsExec", "EventTimeWatermarkExec", "ExpandExec", "FilterExec", "GenerateExec"),
    "SortExec",
}
# The name of a struct that holds an event time: what compares it leaves out times that are too far
# ahead. How far, and which time it is now, is no part of what the SQL means.
BELIEVED = "_ashore_believed"
# Of a leaf's expressions, those that leave rows out.
_OF_LEAVES = {"dataFilters", "partitionFilters"}
# Of fields with expressions: those that say what others say, or what lineage follows.
_NO_EXPRESSIONS = {
    *("aggregateAttributes", "generatorOutput", "output", "outputPartitioning", "projectList"),
    HANDED_ON,
    *("requiredChildDistributionExpressions", "requiredChildOutput", "resultExpressions"),
}
COPY = "copy"  # the option of a leaf that reads what another leaf reads too
_OPTIONS = {
    UNION_NUMBER,
    "global",
    "isNullAwareAntiJoin",
    "joinType",
    "limit",
    "name",
    "outer",
    "streamLimit",
}


def build_graph(planned: Planned) -> PlanGraph:
    """Return what a plan does."""
    planned, unions = separate_unions(separate_branches(planned))
    builder = _Builder(learn_lineage(planned, unions))
    builder.visit(planned.root)
    columns = tuple(
        PlanColumn(each.text("name"), type_name(each.fields.get("dataType")), builder.term(each))
        for each in planned.root.columns
    )
    nodes = tuple(each for each in builder.nodes if each is not None)
    return PlanGraph(planned.sources, tuple(builder.terms.table), nodes, columns)


@dataclass(slots=True)
class _Builder:
    """A graph that grows from the sink to the sources."""

    lineage: Lineage
    nodes: list[PlanNode | None] = field(default_factory=list)
    terms: Terms = field(default_factory=Terms)  # of the lineage's, those that are used
    _used: dict[int, int] = field(default_factory=dict)

    def term(self, expression: Node) -> int:
        """Return the place of an expression's term."""
        return self._use(self.lineage.term(expression))

    def all(self, expressions: Iterable[Node]) -> tuple[int, ...]:
        """Return the places of the terms of expressions."""
        return tuple(self.term(each) for each in expressions)

    def _use(self, place: int) -> int:
        if place not in self._used:
            term = self.lineage.terms.table[place]
            arguments = tuple(self._use(each) for each in term.arguments)
            filters = tuple(self._use(each) for each in term.filters)
            made = replace(term, arguments=arguments, filters=filters)
            self._used[place] = self.terms.add(made)
        return self._used[place]

    def visit(self, planned: PlannedNode) -> int:
        """Return the place of a node of the plan, or of the one that does its work."""
        found = _skip_moves(planned)
        if _is_phase(found):
            below = _skip_moves(found.children[0])
            found = below if below.kind in SAVES else found
        place = len(self.nodes)
        self.nodes.append(None)
        self.nodes[place] = self._aggregate(found) if found.kind in SAVES else self._node(found)
        return place

    def _node(self, planned: PlannedNode) -> PlanNode:
        node = planned.node
        source, copy = (None, 0) if planned.children else self._source(node)
        counted = ((COPY, str(copy)),) if copy else ()
        made = PlanNode(
            kind=node.kind,
            expressions=self._expressions(planned),
            options=(*_options(node), *_delay(planned), *counted),
            source=source,
            state=self._state(planned, planned.state) if planned.state else None,
            taken=self._taken(planned.children),
        )
        return replace(made, inputs=tuple(self.visit(each) for each in planned.children))

    def _aggregate(self, planned: PlannedNode) -> PlanNode:
        """The node that writes the state of an aggregate, over what its first phase takes in."""
        first = _first_phase(planned)
        functions = first.node.nodes(FUNCTIONS)
        check(planned.state is not None, "an aggregate without state")
        state = self._state(planned, planned.state) if planned.state else None
        kept = tuple(self._kept(*each) for each in zip(functions, first.buffers, strict=True))
        made = PlanNode(
            kind=planned.kind,
            expressions=(*self._expressions(planned), (FUNCTIONS, self.all(functions))),
            options=tuple(_session_place(planned)),
            state=replace(state, columns=tuple(each for some in kept for each in some))
            if state
            else None,
            taken=self._taken(first.children[:1]),
        )
        return replace(made, inputs=(self.visit(first.children[0]),))

    def _kept(self, function: Node, buffers: Iterable[Node]) -> list[KeptColumn]:
        term, found = self.term(function), list(buffers)
        named = ((each, each.text("name") if len(found) > 1 else "") for each in found)
        return [_kept_as(each, term, part) for each, part in named]

    def _taken(self, inputs: Iterable[PlannedNode]) -> tuple[tuple[int, ...], ...]:
        """Return the columns that each input hands on; none where the plan does not say."""
        found = tuple(self.all(each.columns) for each in inputs)
        return found if any(found) else ()

    def _expressions(self, planned: PlannedNode) -> tuple[tuple[str, tuple[int, ...]], ...]:
        found = [
            (name, list(_without_limits(expressions_in(row))))
            for name, value in planned.node.fields.items()
            if (name in _OF_LEAVES if not planned.children else name not in _NO_EXPRESSIONS)
            for row in _rows(value)
        ]
        if planned.join is not None and planned.join.condition is not None:
            found.append(("condition", [planned.join.condition]))
        if is_positional(planned.kind):
            found += [(INPUT, list(each.columns)) for each in planned.children]
        return tuple((name, self.all(each)) for name, each in found if each)

    def _state(self, planned: PlannedNode, info: StateInfo) -> OperatorState:
        keys = [key for name in KEYS for key in planned.node.nodes(name)]
        times = planned.children[0].watermarked
        made = OperatorState(
            info.operator_id,
            info.partitions,
            any(key.number_of("exprId") in times for key in keys),
            keys=tuple(_kept_as(each, self.term(each)) for each in keys if _is_typed(each)),
        )
        if planned.join is None:
            return made
        columns = [
            _kept_as(each, self.term(each), side=side)
            for side, child in zip(("left", "right"), planned.children, strict=True)
            for each in child.columns
        ]
        return replace(made, columns=tuple(columns), sides=self._sides(planned, planned.join))

    def _sides(self, planned: PlannedNode, join: PlannedJoin) -> tuple[JoinSide, JoinSide]:
        left, right = planned.children
        return self._side(join.left, left), self._side(join.right, right)

    def _side(self, side: PlannedSide, rows: PlannedNode) -> JoinSide:
        early = self.term(side.early) if side.early else None
        times = (each for each in rows.columns if each.number_of("exprId") in rows.watermarked)
        return JoinSide(side.is_bounded, early, tuple(dict.fromkeys(self.all(times))))

    def _source(self, leaf: Node) -> tuple[int | None, int]:
        """Return the source that a leaf reads, and which copy of it the leaf is."""
        columns, copies = self.lineage.planned.columns, self.lineage.planned.copies
        attributes = (each for value in leaf.fields.values() for each in expressions_in(value))
        numbers = (each.number_of("exprId") for some in attributes for each in some.walk())
        found = (each for each in numbers if each is not None and each in columns)
        number = next(found, None)
        return (None, 0) if number is None else (columns[number], copies.get(number, 0))


def _kept_as(column: Node, term: int, part: str = "", side: str = "") -> KeptColumn:
    is_nullable = column.fields.get("nullable") is not False
    return KeptColumn(type_name(column.fields.get("dataType")), term, part, side, is_nullable)


def _is_typed(key: Node) -> bool:
    """Return whether Spark writes the type of a key: an aggregate's are columns, always."""
    return "dataType" in key.fields


def _delay(planned: PlannedNode) -> tuple[tuple[str, str], ...]:
    return () if planned.delay_ms is None else ((DELAY, str(planned.delay_ms)),)


def is_positional(kind: str) -> bool:
    """Return whether nodes of a class take the columns of their inputs by their places."""
    return kind not in _BY_ID


def _rows(value: object) -> tuple[object, ...]:
    """Return the lists that a field holds; itself, where it is one or holds no lists."""
    is_rows = isinstance(value, tuple) and any(isinstance(each, tuple) for each in value)
    return value if isinstance(value, tuple) and is_rows else (value,)


def _skip_moves(planned: PlannedNode) -> PlannedNode:
    while planned.kind in MOVES or _is_local_sort(planned.node) or _is_limit(planned.node):
        planned = planned.children[0]
    return planned


def _is_limit(node: Node) -> bool:
    """Return whether a filter does nothing but leave out times that are too far ahead."""
    conditions = node.nodes("condition") if node.kind == "FilterExec" else ()
    return bool(conditions) and not list(_without_limits(conditions))


def _without_limits(expressions: Iterable[Node]) -> Iterator[Node]:
    """Yield expressions without the parts that leave out times that are too far ahead."""
    for each in expressions:
        if each.kind == "And":
            parts = list(_without_limits(each.children))
            if len(parts) == 2:
                yield replace(each, children=tuple(parts))
            else:
                yield from parts
        elif each.kind != "LessThanOrEqual" or not _holds_believed(each.children[0]):
            yield each


def _holds_believed(node: Node) -> bool:
    names = [each.fields.get("value") for each in node.children[0::2]]
    return node.kind in {"CreateNamedStruct", "NamedStruct"} and names == [BELIEVED]


def _is_local_sort(node: Node) -> bool:
    return node.kind == "SortExec" and node.fields.get("global") is False


def _is_phase(planned: PlannedNode) -> bool:
    return FUNCTIONS in planned.node.fields


def _phases(planned: PlannedNode) -> Iterator[PlannedNode]:
    """Yield phases of aggregates, one below the other, as long as nothing else is between them."""
    while True:
        planned = _skip_moves(planned)
        if _is_phase(planned):
            yield planned
        elif planned.kind not in RESTORES:
            return
        planned = planned.children[0]


def _first_phase(save: PlannedNode) -> PlannedNode:
    """Return the phase of an aggregate that takes rows in."""
    phases = list(_phases(save.children[0]))
    partial = [each for each in phases if _is_partial(each)]
    if partial:
        return partial[0]
    # Without functions phases look alike. Sessions are merged once or twice before they are kept;
    # others are merged before and after state is read.
    if save.kind == "StateStoreSaveExec":
        check(len(phases) > 2, "an aggregate without its first phase")
        return phases[2]
    others = [each for each in phases if each.kind != "MergingSessionsExec"]
    check(bool(others), "a session window without its first phase")
    return others[0]


def _session_place(save: PlannedNode) -> Iterator[tuple[str, str]]:
    """Yield where a session window stands in GROUP BY: its state has the same order, from 0."""
    sessions = {each.number_of("exprId") for each in save.node.nodes("sessionExpression")}
    merged = next(_phases(save.children[0]))
    for place, each in enumerate(merged.node.nodes("groupingExpressions")):
        if place and each.number_of("exprId") in sessions:
            yield SESSION_PLACE, str(place)


def _is_partial(phase: PlannedNode) -> bool:
    modes = {write_option(each.fields.get("mode")) for each in phase.node.nodes(FUNCTIONS)}
    return modes == {"Partial"}


def _options(node: Node) -> tuple[tuple[str, str], ...]:
    found = ((name, write_option(node.fields.get(name))) for name in sorted(_OPTIONS))
    return tuple((name, value) for name, value in found if value is not None)
