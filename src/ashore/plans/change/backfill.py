"""A new part of a state that is filled for the old keys, from records that were read before.

What it is: `plan_backfill`, from a rewrite that lets functions and aggregates begin empty to one
that fills them of a replay: of the state that the new query has after all records up to the last
batch of the old one.
What it promises: pure. What a replay would give otherwise than the query, had it run all the time,
is refused with the reason: nothing is filled by halves.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ashore.errors import QueryRefused
from ashore.plans.change.columns import BEGINS
from ashore.plans.change.rewriting import (
    AGGREGATE,
    KeySource,
    OperatorRewrite,
    RewriteKind,
    StateRewrite,
    ValueSource,
)
from ashore.plans.change.verdicts import (
    ColumnVerdict,
    OperatorVerdict,
    QueryVerdict,
    StateVerdict,
    worst_verdict,
)
from ashore.plans.graph import PlanNode, StoredPlan
from ashore.plans.operator_graph import Operator, OperatorGraph, describe_graph

FILLED = "it is new: it is filled of a replay of the records up to the last batch"
_MERGED = "its groups are merged: add the function first, and change the grouping after that"
_ABOVE = "an operator below it keeps state: what that one had forgotten would come twice"
_FILTERED = "it takes other rows from now on, so that its groups are not those of a replay"
_OTHER = "only aggregates are filled"


@dataclass(frozen=True, slots=True)
class Backfill:
    """A rewrite with what is filled, and the verdict on it."""

    rewrite: StateRewrite  # of the state; the same where nothing is new
    verdict: QueryVerdict
    is_needed: bool  # whether anything is filled


def plan_backfill(new: StoredPlan, rewrite: StateRewrite, verdict: QueryVerdict) -> Backfill:
    """Return how new functions and new aggregates are filled.

    `rewrite` and its `verdict` let them begin empty.
    Raises QueryRefused where something that begins empty cannot be filled; SparkUnknown.
    """
    if any(_begins_empty(each) for each in rewrite.operators):
        _require_read(verdict)
    graph = describe_graph(new.graph)
    nodes = {each.state.operator_id: each for each in new.graph.nodes if each.state is not None}
    numbered = {each.state.operator_id: each for each in graph.operators if each.state is not None}
    judged = {each.new: each for each in verdict.operators if each.new is not None}
    filled = {}
    for each in rewrite.operators:
        if _begins_empty(each):
            operator = numbered[each.operator]
            found = judged.get(operator.id)
            _require_fillable(each, operator, graph, found)
            filled[each.operator] = _fill(each, nodes[each.operator])
    operators = tuple(filled.get(each.operator, each) for each in rewrite.operators)
    ids = {numbered[number].id for number in filled}
    rewritten = _fill_verdict(verdict, ids) if filled else verdict
    return Backfill(replace(rewrite, operators=operators), rewritten, bool(filled))


def _require_read(verdict: QueryVerdict) -> None:
    """Raise QueryRefused where the new query reads what the old one has not read."""
    for source in verdict.sources:
        if source.old is None or source.new is None or source.verdict is not StateVerdict.FULL:
            raise QueryRefused(
                f"nothing can be filled: the source {source.name} changes too; nothing was changed",
                hint="change the sources first, and add the functions after that",
            )


def _begins_empty(rewrite: OperatorRewrite) -> bool:
    is_new = rewrite.kind is RewriteKind.EMPTY
    return is_new or any(each.column is None for each in rewrite.values)


def _require_fillable(
    rewrite: OperatorRewrite,
    operator: Operator,
    graph: OperatorGraph,
    judged: OperatorVerdict | None,
) -> None:
    """Raise QueryRefused where a replay would not have what the query would have."""
    if rewrite.is_last or operator.engine_class != AGGREGATE:
        raise _refuse(rewrite, _OTHER)
    if rewrite.kind is RewriteKind.MERGE:
        raise _refuse(rewrite, _MERGED)
    if any(each.length_us is not None or each.is_widened for each in rewrite.keys):
        raise _refuse(rewrite, _MERGED)
    if _keeps_below(operator, {each.id: each for each in graph.operators}):
        raise _refuse(rewrite, _ABOVE)
    if judged is not None and judged.differs_from_replay:
        raise _refuse(rewrite, _FILTERED)


def _keeps_below(operator: Operator, all_of: Mapping[str, Operator]) -> bool:
    below = [all_of[edge.source] for edge in operator.inputs if edge.source in all_of]
    return any(each.state is not None or _keeps_below(each, all_of) for each in below)


def _fill(rewrite: OperatorRewrite, node: PlanNode) -> OperatorRewrite:
    if rewrite.kind is not RewriteKind.EMPTY:
        values = (
            replace(each, is_filled=True) if each.column is None else each
            for each in rewrite.values
        )
        return replace(rewrite, values=tuple(values))
    state = node.state
    keys, columns = (state.keys, state.columns) if state else ((), ())
    return replace(
        rewrite,
        kind=RewriteKind.RECODE,
        keys=tuple(KeySource(place) for place in range(len(keys))),
        values=tuple(ValueSource(is_filled=True) for _ in columns),
    )


def _fill_verdict(verdict: QueryVerdict, ids: set[str]) -> QueryVerdict:
    """Return the verdict where operators are filled. `ids`: of them, in the new plan."""
    operators = tuple(
        _describe_operator(each) if each.new in ids else each for each in verdict.operators
    )
    parts = [*(each.verdict for each in verdict.sources), *(each.verdict for each in operators)]
    found = worst_verdict([*parts, StateVerdict.CONVERT])
    return replace(verdict, verdict=found, operators=operators)


def _describe_operator(operator: OperatorVerdict) -> OperatorVerdict:
    if operator.old is None:
        return replace(operator, verdict=StateVerdict.CONVERT, why=(FILLED,))
    columns = tuple(_describe_column(each) for each in operator.columns)
    found = worst_verdict([StateVerdict.CONVERT, *(each.verdict for each in columns)])
    return replace(operator, verdict=_own(operator, found), columns=columns)


def _own(operator: OperatorVerdict, found: StateVerdict) -> StateVerdict:
    """Return the verdict of an operator whose columns have got a better one."""
    of_columns = worst_verdict(each.verdict for each in operator.columns)
    return operator.verdict if operator.verdict.rank > of_columns.rank else found


def _describe_column(column: ColumnVerdict) -> ColumnVerdict:
    if not column.why.startswith(BEGINS):
        return column
    return ColumnVerdict(column.name, StateVerdict.CONVERT, FILLED)


def _refuse(rewrite: OperatorRewrite, why: str) -> QueryRefused:
    return QueryRefused(
        f"`{rewrite.name}` cannot be filled: {why}; nothing was changed",
        hint="without `--backfill` it begins empty",
    )


def is_filled(rewrites: Sequence[OperatorRewrite]) -> bool:
    """Return whether anything is filled of a replay."""
    return any(value.is_filled for each in rewrites for value in each.values)
