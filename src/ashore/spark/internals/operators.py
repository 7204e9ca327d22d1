"""The stateful operators of a streaming frame, as people would name them.

What it is: for each operator its id, name, keys, what it keeps and in how many partitions.
What it promises: ids and partitions are those of a first start with the session's settings. Names
are the same for the same query, whatever its columns and views are called. An operator that is
not known is refused, never left out.
What it must not know: checkpoints.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from pyspark.sql import DataFrame

from ashore.errors import SparkUnknown, check
from ashore.spark.internals import jvm
from ashore.spark.internals.columns import parse_columns, type_of, watermarked
from ashore.spark.internals.joins import JOIN, is_bounded, join_type
from ashore.spark.internals.lineage import Lineage, learn_lineage
from ashore.spark.internals.planning import PlannedNode, plan_streaming
from ashore.spark.internals.sources import find_columns
from ashore.spark.internals.trees import Node, parse_tree

KEYS_SHOWN_MAX = 6


class OperatorKind(StrEnum):
    """What an operator does."""

    AGGREGATE = "aggregate"
    DISTINCT = "distinct"
    DEDUPLICATE = "deduplicate"
    JOIN = "join"
    LIMIT = "limit"
    CUSTOM = "custom"


GROUPED = {OperatorKind.AGGREGATE, OperatorKind.DISTINCT}


@dataclass(frozen=True, slots=True)
class StateColumn:
    """One value that an operator keeps for each key, with Spark's name of its type."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class StatefulOperator:
    """One operator that keeps state, with the id that its directory in a checkpoint has.

    Bounded: a watermark lets it forget, unless the query is in complete mode. None: its own code
    knows.
    """

    operator_id: int
    kind: OperatorKind
    name: str
    keys: tuple[str, ...]
    state_columns: tuple[StateColumn, ...]
    state_partitions: int
    is_bounded: bool | None


@dataclass(frozen=True, slots=True)
class _Found:
    """What is found of an operator besides id and partitions."""

    kind: OperatorKind
    name: str
    keys: tuple[str, ...]
    is_bounded: bool | None
    state_columns: tuple[StateColumn, ...] = ()
    partitions: int | None = None  # None: those of the shuffle


def describe_operators(frame: DataFrame) -> list[StatefulOperator]:
    """Return the stateful operators of a streaming frame, by id. Nothing is started.

    Raises SparkUnknown, and AnalysisException where Spark cannot plan the frame.
    """
    plan = plan_streaming(frame)
    return describe_planned(plan, learn_lineage(plan.node, find_columns(frame)))


def describe_planned(plan: PlannedNode, lineage: Lineage) -> list[StatefulOperator]:
    """Return the stateful operators of a plan, by id. Raises SparkUnknown."""
    return sorted(
        (_describe(planned, lineage) for planned in _stateful(plan)),
        key=lambda operator: operator.operator_id,
    )


def _stateful(planned: PlannedNode) -> Iterator[PlannedNode]:
    """Yield the nodes that write state."""
    if _writes_state(planned):
        yield planned
    for child in planned.children:
        yield from _stateful(child)


def _writes_state(planned: PlannedNode) -> bool:
    """Aggregates read their state in a node of its own, under the one that writes it."""
    kind, fields = planned.node.kind, planned.node.fields
    return "stateInfo" in fields and not kind.endswith("StateStoreRestoreExec")


def _describe(planned: PlannedNode, lineage: Lineage) -> StatefulOperator:
    kind = planned.node.kind
    describe = DESCRIBED.get(kind)
    if describe is None:
        raise SparkUnknown(
            f"Spark plans a stateful operator that Ashore does not know: {kind}",
            hint="write the query without it",
        )
    found = describe(planned, lineage)
    state = jvm.STATE_INFO(planned.java)
    check(jvm.IS_DEFINED(state), f"Spark gave {kind} no state")
    info = jvm.OPTION_GET(state)
    return StatefulOperator(
        operator_id=jvm.STATE_OPERATOR_ID(info),
        kind=found.kind,
        name=found.name,
        keys=found.keys,
        state_columns=found.state_columns,
        state_partitions=found.partitions or jvm.STATE_PARTITIONS(info),
        is_bounded=found.is_bounded,
    )


# ---- each kind


def _aggregate(planned: PlannedNode, lineage: Lineage) -> _Found:
    return _grouped(planned, planned.node.nodes("keyExpressions"), lineage)


def _session(planned: PlannedNode, lineage: Lineage) -> _Found:
    parts = ("keyWithoutSessionExpressions", "sessionExpression")
    keys = [each for part in parts for each in planned.node.nodes(part)]
    return _grouped(planned, keys, lineage)


def _grouped(planned: PlannedNode, by: Sequence[Node], lineage: Lineage) -> _Found:
    keys, columns = _texts(by, lineage), _buffers(planned, lineage)
    if not columns:
        name = f"distinct {_shown(keys)}"
        return _Found(OperatorKind.DISTINCT, name, keys, _has_watermark(planned, by))
    name = f"aggregate by {_shown(keys)}" if keys else "aggregate all rows"
    return _Found(
        OperatorKind.AGGREGATE, name, keys, not keys or _has_watermark(planned, by), columns
    )


def _has_watermark(planned: PlannedNode, keys: Sequence[Node]) -> bool:
    """Return whether one of the keys is event time: then the watermark passes it."""
    numbers = {each.number_of("exprId") for each in keys}
    columns = watermarked(planned.children[0].java)
    return any(parse_tree(jvm.TO_JSON(each)).number_of("exprId") in numbers for each in columns)


def _buffers(planned: PlannedNode, lineage: Lineage) -> tuple[StateColumn, ...]:
    """Return what an aggregate keeps: what each function needs, in the order of the state."""
    below = _partial(planned)
    functions = list(jvm.items(jvm.BASE_AGGREGATES(below.java)))
    columns: list[StateColumn] = []
    for node, java in zip(below.node.nodes("aggregateExpressions"), functions, strict=True):
        text = lineage.describe(node)
        buffers = parse_columns(jvm.AGGREGATE_BUFFERS(jvm.AGGREGATE_FUNCTION(java)))
        for each in buffers:
            name = text if len(buffers) == 1 else f"{text}.{each.text('name')}"
            columns.append(StateColumn(name, type_of(each)))
    return tuple(columns)


def _partial(planned: PlannedNode) -> PlannedNode:
    """Return the aggregate that takes rows in: only there do functions have their filters."""
    check(len(planned.children) == 1, "no aggregate below the state of one")
    below = planned.children[0]
    functions = below.node.nodes("aggregateExpressions")
    is_aggregate = "aggregateExpressions" in below.node.fields
    if is_aggregate and all(_mode(each) == "Partial" for each in functions):
        return below
    return _partial(below)


def _mode(function: Node) -> str:
    """Return `Partial`, `PartialMerge` or `Final`."""
    value = function.fields.get("mode")
    name = str(value.get("object", "")) if isinstance(value, dict) else ""
    return name.rpartition(".")[2].rstrip("$")


def _deduplicate(planned: PlannedNode, lineage: Lineage) -> _Found:
    by = planned.node.nodes("keyExpressions")
    keys = _texts(by, lineage)
    name = f"deduplicate by {_shown(keys)}"
    return _Found(OperatorKind.DEDUPLICATE, name, keys, _has_watermark(planned, by))


def _deduplicate_within(planned: PlannedNode, lineage: Lineage) -> _Found:
    keys = _texts(planned.node.nodes("keyExpressions"), lineage)
    name = f"deduplicate by {_shown(keys)} within the watermark"
    expiry = StateColumn("expires at", "bigint")
    return _Found(OperatorKind.DEDUPLICATE, name, keys, True, (expiry,))


def _join(planned: PlannedNode, lineage: Lineage) -> _Found:
    qualified = lineage.qualified()
    left = _texts(planned.node.nodes("leftKeys"), qualified)
    right = _texts(planned.node.nodes("rightKeys"), qualified)
    keys = tuple(f"{one} = {other}" for one, other in zip(left, right, strict=True))
    how = join_type(planned.node)
    columns = tuple(
        StateColumn(f"{side}.{lineage.describe(column)}", type_of(column))
        for side, child in zip(("left", "right"), planned.children, strict=True)
        for column in parse_columns(jvm.PLAN_OUTPUT(child.java))
    )
    name = f"{'' if how == 'inner' else how + ' '}join on {_shown(keys, ' and ')}"
    return _Found(OperatorKind.JOIN, name, keys, is_bounded(planned), columns)


def _limit(planned: PlannedNode, _lineage: Lineage) -> _Found:
    """All rows come together in one partition, whatever Spark writes of the shuffle's."""
    name = f"limit {planned.node.fields['streamLimit']}"
    return _Found(OperatorKind.LIMIT, name, (), True, (StateColumn("rows", "bigint"),), 1)


def _custom(planned: PlannedNode, lineage: Lineage) -> _Found:
    keys = _texts(planned.node.nodes("groupingAttributes"), lineage)
    return _Found(OperatorKind.CUSTOM, f"custom state by {_shown(keys)}", keys, None)


DESCRIBED: dict[str, Callable[[PlannedNode, Lineage], _Found]] = {
    "FlatMapGroupsInPandasWithStateExec": _custom,
    "FlatMapGroupsWithStateExec": _custom,
    "SessionWindowStateStoreSaveExec": _session,
    "StateStoreSaveExec": _aggregate,
    "StreamingDeduplicateExec": _deduplicate,
    "StreamingDeduplicateWithinWatermarkExec": _deduplicate_within,
    "StreamingGlobalLimitExec": _limit,
    JOIN: _join,
    "TransformWithStateExec": _custom,
    "TransformWithStateInPySparkExec": _custom,
}


def _texts(expressions: Sequence[Node], lineage: Lineage) -> tuple[str, ...]:
    return tuple(lineage.describe(each) for each in expressions)


def _shown(keys: Sequence[str], between: str = ", ") -> str:
    shown = between.join(keys[:KEYS_SHOWN_MAX])
    more = len(keys) - KEYS_SHOWN_MAX
    return f"{shown} and {more} more" if more > 0 else shown
