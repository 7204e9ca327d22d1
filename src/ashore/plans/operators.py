"""The stateful operators of a query, as people would name them.

What it is: for each operator its id, name, keys, what it keeps and in how many partitions.
What it promises: pure. Names are the same for the same query, whatever its columns and views are
called. An operator that is not known is refused, never left out.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from ashore.errors import SparkUnknown
from ashore.plans.graph import FUNCTIONS, KEYS, OperatorState, PlanGraph, PlanNode
from ashore.plans.words import Words

JOIN = "StreamingSymmetricHashJoinExec"
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


def keeps_state(graph: PlanGraph) -> bool:
    """Return whether a query has an operator that keeps state."""
    return any(node.state is not None for node in graph.nodes)


def describe_operators(graph: PlanGraph, *, is_qualified: bool = False) -> list[StatefulOperator]:
    """Return the stateful operators of a query, by id. Raises SparkUnknown.

    `is_qualified`: keys are named with the names of their sources; those of a join always are.
    """
    words = Words(graph.terms, graph.sources, is_qualified)
    found = [_describe(node, node.state, words) for node in graph.nodes if node.state is not None]
    return sorted(found, key=lambda operator: operator.operator_id)


def _describe(node: PlanNode, state: OperatorState, words: Words) -> StatefulOperator:
    describe = _DESCRIBED.get(node.kind)
    if describe is None:
        raise SparkUnknown(
            f"Spark plans a stateful operator that is unknown to Ashore: {node.kind}",
            hint="write the query without it",
        )
    return describe(node, state, words)


# ---- each kind


def _grouped(node: PlanNode, state: OperatorState, words: Words) -> StatefulOperator:
    keys = _keys(node, words)
    if not node.terms(FUNCTIONS):
        name = f"distinct {_shown(keys)}"
        return _made(state, OperatorKind.DISTINCT, name, keys)
    name = f"aggregate by {_shown(keys)}" if keys else "aggregate all rows"
    made = _made(state, OperatorKind.AGGREGATE, name, keys, _columns(state, words))
    return replace(made, is_bounded=not keys or state.has_event_time)


def _deduplicate(node: PlanNode, state: OperatorState, words: Words) -> StatefulOperator:
    keys = _keys(node, words)
    return _made(state, OperatorKind.DEDUPLICATE, f"deduplicate by {_shown(keys)}", keys)


def _deduplicate_within(node: PlanNode, state: OperatorState, words: Words) -> StatefulOperator:
    keys = _keys(node, words)
    name = f"deduplicate by {_shown(keys)} within the watermark"
    made = _made(
        state, OperatorKind.DEDUPLICATE, name, keys, (StateColumn("expires at", "bigint"),)
    )
    return replace(made, is_bounded=True)


def _join(node: PlanNode, state: OperatorState, words: Words) -> StatefulOperator:
    qualified = Words(words.terms, words.sources, is_qualified=True)
    left, right = qualified.all(node.terms("leftKeys")), qualified.all(node.terms("rightKeys"))
    keys = tuple(f"{one} = {other}" for one, other in zip(left, right, strict=True))
    how = join_type(node)
    name = f"{'' if how == 'inner' else how + ' '}join on {_shown(keys, ' and ')}"
    made = _made(state, OperatorKind.JOIN, name, keys, _columns(state, words))
    return replace(made, is_bounded=all(each.is_bounded for each in state.sides))


def _limit(node: PlanNode, state: OperatorState, _words: Words) -> StatefulOperator:
    """All rows come together in one partition, whatever Spark writes of the shuffle's."""
    name, columns = f"limit {node.option('streamLimit')}", (StateColumn("rows", "bigint"),)
    made = _made(state, OperatorKind.LIMIT, name, (), columns)
    return replace(made, is_bounded=True, state_partitions=1)


def _custom(node: PlanNode, state: OperatorState, words: Words) -> StatefulOperator:
    keys = _keys(node, words)
    made = _made(state, OperatorKind.CUSTOM, f"custom state by {_shown(keys)}", keys)
    return replace(made, is_bounded=None)


def _made(
    state: OperatorState,
    kind: OperatorKind,
    name: str,
    keys: tuple[str, ...],
    columns: tuple[StateColumn, ...] = (),
) -> StatefulOperator:
    """Return an operator that a watermark bounds where one of its keys is event time."""
    number, partitions = state.operator_id, state.partitions
    return StatefulOperator(number, kind, name, keys, columns, partitions, state.has_event_time)


_DESCRIBED: dict[str, Callable[[PlanNode, OperatorState, Words], StatefulOperator]] = {
    "FlatMapGroupsInPandasWithStateExec": _custom,
    "FlatMapGroupsWithStateExec": _custom,
    "SessionWindowStateStoreSaveExec": _grouped,
    "StateStoreSaveExec": _grouped,
    "StreamingDeduplicateExec": _deduplicate,
    "StreamingDeduplicateWithinWatermarkExec": _deduplicate_within,
    "StreamingGlobalLimitExec": _limit,
    JOIN: _join,
    "TransformWithStateExec": _custom,
    "TransformWithStateInPySparkExec": _custom,
}


def join_type(join: PlanNode) -> str:
    """Return `inner`, `left outer`, `left semi` and the like."""
    return " ".join(re.findall(r"[A-Z][a-z]+", join.option("joinType"))).lower()


def _keys(node: PlanNode, words: Words) -> tuple[str, ...]:
    return words.all(term for name in KEYS for term in node.terms(name))


def _columns(state: OperatorState, words: Words) -> tuple[StateColumn, ...]:
    found = []
    for each in state.columns:
        parts = (each.side, words.of(each.term), each.part)
        found.append(StateColumn(".".join(part for part in parts if part), each.type))
    return tuple(found)


def _shown(keys: Sequence[str], between: str = ", ") -> str:
    shown = between.join(keys[:KEYS_SHOWN_MAX])
    more = len(keys) - KEYS_SHOWN_MAX
    return f"{shown} and {more} more" if more > 0 else shown


def find_hidden_keys(graph: PlanGraph, columns: Sequence[str]) -> tuple[str, ...] | None:
    """Return what an aggregate of a query groups by and `columns` do not contain.

    A key that is in a formula of the columns only is one that they do not contain. Where there is
    some, rows of one batch may be equal in all of the columns. None where nothing is aggregated.
    Raises SparkUnknown.
    """
    words = Words(graph.terms, graph.sources, is_qualified=True)
    described = {each.name: words.of(each.term) for each in graph.columns}
    reported = {described[name] for name in columns if name in described}
    operators = describe_operators(graph, is_qualified=True)
    grouped = [each for each in operators if each.kind in GROUPED]
    if not grouped:
        return None
    keys = (key for operator in grouped for key in operator.keys)
    return tuple(key for key in keys if not reported & {key, f"start of {key}", f"end of {key}"})
