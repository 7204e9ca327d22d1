"""The verdict on the state of a deduplication and of a join of two streams.

What it is: `judge_deduplicate` and `judge_join`.
What it promises: pure.
"""

from collections.abc import Iterator

from ashore.plans.change.aggregates import WIDER, only_widens_keys
from ashore.plans.change.equivalence import find_widened_columns
from ashore.plans.change.side import WITHIN, KeptOperator, describe_pair
from ashore.plans.change.verdicts import ColumnVerdict, StateVerdict
from ashore.plans.graph import split_condition
from ashore.plans.operators import join_type

EXPIRES_LAST = (
    "rows that are no longer distinguished become one, which expires with the last of them: a row "
    "that a replay hands on may be delayed, and what has expired already is gone"
)
FORGOTTEN = (
    "rows that are no longer distinguished become one, and those that the watermark has passed are "
    "gone already: what equals these comes once more"
)


def judge_deduplicate(old: KeptOperator, new: KeptOperator) -> Iterator[ColumnVerdict]:
    """Yield the verdict on the keys: a row is one of them, and little else."""
    was, now = old.digests(old.keys), new.digests(new.keys)
    if old.node.kind != new.node.kind:
        yield from new.all_as(
            StateVerdict.REFUSED, "was {}, is {}".format(*describe_pair(old, new))
        )
    elif was == now:
        yield from new.all_as(StateVerdict.FULL)
    elif sorted(was) == sorted(now):
        yield from new.all_as(StateVerdict.CONVERT, "the keys have another order")
    elif only_widens_keys(old, new):
        yield from new.all_as(StateVerdict.CONVERT, f"the keys are {WIDER}")
    elif set(now) < set(was):
        yield from new.all_as(*_judge_fewer(old, new))
    else:
        before, after = describe_pair(old, new)
        why = f"was {before}, is {after}: which rows were there is not known"
        yield from new.all_as(StateVerdict.REFUSED, why)


def _judge_fewer(old: KeptOperator, new: KeptOperator) -> tuple[StateVerdict, str]:
    """Judge keys of which some go: rows that were distinguished become one."""
    if new.node.kind == WITHIN:
        return StateVerdict.PARTIAL, EXPIRES_LAST
    if old.has_event_time and not _keeps_times(old, new):
        return StateVerdict.PARTIAL, FORGOTTEN
    return StateVerdict.CONVERT, "rows that are no longer distinguished become one"


def _keeps_times(old: KeptOperator, new: KeptOperator) -> bool:
    """Return whether all keys stay that can be the time by which rows were forgotten."""
    kept = set(new.digests(new.keys))
    typed = old.planned.keys
    times = [each for each in typed if "timestamp" in each.type]
    is_said = len(typed) == len(old.keys) and new.has_event_time
    return is_said and all(old.side.digests[each.term] in kept for each in times)


def judge_join(old: KeptOperator, new: KeptOperator) -> Iterator[ColumnVerdict]:
    """Yield the verdict on the keys, then on the columns of the rows that wait."""
    changed = list(_changed(old, new))
    if changed:
        yield ColumnVerdict("rows that wait", StateVerdict.REFUSED, "; ".join(changed))
        return
    for name in ("leftKeys", "rightKeys"):
        for term in new.node.terms(name):
            yield ColumnVerdict(f"key {new.describe(term)}", StateVerdict.FULL)
    yield from _judge_sides(old, new)


def _changed(old: KeptOperator, new: KeptOperator) -> Iterator[str]:
    """Yield what makes rows meet others, or be forgotten at another time."""
    if join_type(old.node) != join_type(new.node):
        yield f"it was {join_type(old.node)}, is {join_type(new.node)}"
    pairs = [_pairs(each) for each in (old, new)]
    if pairs[0] != pairs[1]:
        yield "was {}, is {}".format(*describe_pair(old, new))
    conditions = [_conditions(each) for each in (old, new)]
    if conditions[0] != conditions[1]:
        yield "its condition has changed"
    sides = [_forgotten(each) for each in (old, new)]
    if sides[0] != sides[1]:
        yield "rows are forgotten at another time"


def _pairs(join: KeptOperator) -> list[tuple[str, str]]:
    left, right = (join.digests(join.node.terms(name)) for name in ("leftKeys", "rightKeys"))
    return list(zip(left, right, strict=True))


def _conditions(join: KeptOperator) -> list[str]:
    terms = join.node.terms("condition")
    graph = join.side.plan.graph
    return sorted(
        join.side.digests[part] for term in terms for part in split_condition(graph, term)
    )


def _forgotten(join: KeptOperator) -> list[tuple[bool, str | None]]:
    digests = join.side.digests
    return [
        (each.is_bounded, None if each.early is None else digests[each.early])
        for each in join.planned.sides
    ]


def _judge_sides(old: KeptOperator, new: KeptOperator) -> Iterator[ColumnVerdict]:
    was = {(each.side, old.side.digests[each.term]): each for each in old.columns}
    now = {(each.side, new.side.digests[each.term]): each for each in new.columns}
    sides = {each.side for each in new.columns}
    has_form = {side: _form(old, side) == _form(new, side) for side in sides}
    widened = {side: find_widened_columns(old, new, side) for side in sides}
    for key, column in now.items():
        name = new.describe_column(column)
        if column.term in widened[column.side]:
            yield ColumnVerdict(name, StateVerdict.CONVERT, f"it is {WIDER}")
        elif key not in was:
            why = "it is new: in the rows that wait it is NULL"
            yield ColumnVerdict(name, StateVerdict.PARTIAL, why)
        elif was[key].type != column.type:
            why = f"it was kept as {was[key].type}, is kept as {column.type}"
            yield ColumnVerdict(name, StateVerdict.REFUSED, why)
        elif not has_form[column.side]:
            yield ColumnVerdict(name, StateVerdict.CONVERT, "the rows that wait have other columns")
        else:
            yield ColumnVerdict(name, StateVerdict.FULL)
    kept = {each.term for columns in widened.values() for each in columns.values()}
    for key, column in was.items():
        if key not in now and column.term not in kept:
            why = "the new SQL does not use it: it is dropped"
            yield ColumnVerdict(old.describe_column(column), StateVerdict.LOST, why)


def _form(join: KeptOperator, side: str) -> list[tuple[str, str]]:
    return [(join.side.digests[each.term], each.type) for each in join.columns_of_side(side)]
