"""The verdict on the columns of a state: of an aggregate, of a deduplication, of a join.

What it is: `judge_aggregate`, its keys and what it keeps for each function; `judge_deduplicate`;
`judge_join`, the keys and the columns of the rows that wait. Parts of a state mean the same to new
SQL that does not write them alike: `is_lossless`, between two types; `is_same_value`, between two
expressions; `find_widened`, functions over the same values as before, written as a wider type: a
value gets wider by a cast, or because the column of a source does; and `find_same_state`, functions
that compute another result of the same state, as for another fraction of a percentile.
What it promises: pure. A function is the same where it computes the same of the same columns, with
the same filters; its name and its place in the SELECT play no part. Each value of the old type is
one of the new, and widened functions give of the wider values what they gave, widened. What is not
known to be so is not widened: a record that is read as a DOUBLE has other values than as a FLOAT.
Of each function it is known that its class keeps nothing of what is left out here.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ashore.base.codec import Json
from ashore.plans.change.side import WITHIN, KeptOperator, Side, describe_pair, distinguish
from ashore.plans.change.verdicts import ColumnVerdict, StateVerdict, worst_verdict
from ashore.plans.digests import hash_form
from ashore.plans.graph import KeptColumn, Term, TermKind, Window, WindowKind, split_condition
from ashore.plans.operators import join_type

# Of these two states of one function are merged into the state of all rows of both.
MERGEABLE = {
    *("Sum", "Count", "CountIf", "Min", "Max", "Average", "BoolAnd", "BoolOr"),
    *("BitAndAgg", "BitOrAgg", "BitXorAgg", "CollectSet", "HyperLogLogPlusPlus"),
    *("StddevSamp", "StddevPop", "VarianceSamp", "VariancePop", "Skewness", "Kurtosis"),
    *("Corr", "CovPopulation", "CovSample"),
}
WIDER = "written as a wider type, which has all values of the old one"
BEGINS = "it is new: for the groups that are there it starts at"
# What functions are of no rows; all others are NULL.
_OF_NONE = {
    **dict.fromkeys(("Count", "CountIf", "HyperLogLogPlusPlus"), "0"),
    **dict.fromkeys(("CollectSet", "CollectList"), "an empty array"),
}


@dataclass(frozen=True, slots=True)
class _KeyChange:
    verdict: StateVerdict
    why: str = ""  # empty where they are the same
    merges: bool = False  # several old groups become one


def judge_aggregate(old: KeptOperator, new: KeptOperator) -> Iterator[ColumnVerdict]:
    """Yield the verdict on the keys, then on what is kept for each function."""
    change = _judge_keys(old, new)
    for term in new.keys:
        yield ColumnVerdict(f"key {new.describe(term)}", change.verdict, change.why)
    if not new.keys:
        yield ColumnVerdict("key", change.verdict, change.why)
    if change.verdict is not StateVerdict.REFUSED:
        yield from _judge_functions(old, new, change)


# ---- keys of aggregates


def _judge_keys(old: KeptOperator, new: KeptOperator) -> _KeyChange:
    was, now = old.digests(old.keys), new.digests(new.keys)
    if was == now:
        return _KeyChange(StateVerdict.FULL)
    if sorted(was) == sorted(now):
        return _KeyChange(StateVerdict.CONVERT, "the keys have another order")
    sources = [find_source(old, new, term) for term in new.keys]
    if None in sources or _has_session(old) or _has_session(new):
        return _KeyChange(StateVerdict.REFUSED, _describe_keys(old, new))
    if only_widens_keys(old, new):
        return _KeyChange(StateVerdict.CONVERT, f"the keys are {WIDER}")
    if _is_forgotten(old, new):
        return _KeyChange(
            StateVerdict.PARTIAL,
            "groups are merged, and groups that the watermark has passed are gone already: the "
            "first results lack their rows",
            merges=True,
        )
    return _KeyChange(StateVerdict.CONVERT, "groups are merged", merges=True)


def find_source(old: KeptOperator, new: KeptOperator, term: int) -> int | None:
    """Return the old key that a new one is, or can be computed of; None: there is none."""
    for each in old.keys:
        if _is_same_or_wider(old, each, new, term) or _is_multiple(old, each, new, term):
            return each
    return None


def only_widens_keys(old: KeptOperator, new: KeptOperator) -> bool:
    """Return whether each key is an old one, or a wider form of one: no two groups become one."""
    taken = {
        next((each for each in old.keys if _is_same_or_wider(old, each, new, term)), None)
        for term in new.keys
    }
    return taken == set(old.keys)


def _is_same_or_wider(old: KeptOperator, before: int, new: KeptOperator, after: int) -> bool:
    is_same = old.side.digests[before] == new.side.digests[after]
    return is_same or is_wider(old, before, new, after)


def is_wider(old: KeptOperator, before: int, new: KeptOperator, after: int) -> bool:
    """Return whether a key is an old one as a wider number: no two values become one."""
    is_same = is_same_value(old.side, before, new.side, after)
    return is_same and is_lossless(_type_of_key(old, before), _type_of_key(new, after))


def _type_of_key(operator: KeptOperator, term: int) -> str:
    return next((each.type for each in operator.planned.keys if each.term == term), "")


def _is_multiple(old: KeptOperator, before: int, new: KeptOperator, after: int) -> bool:
    """Return whether windows are made of whole windows that were there."""
    was, now = old.side.term(before), new.side.term(after)
    small, large = _tumbling(was), _tumbling(now)
    if small is None or large is None or not small.length_us or not large.length_us:
        return False
    is_same_time = old.digests(was.arguments) == new.digests(now.arguments)
    shift_us = large.offset_us - small.offset_us
    is_aligned = large.length_us % small.length_us == 0 and shift_us % small.length_us == 0
    return is_same_time and is_aligned


def _tumbling(term: Term) -> Window | None:
    window = term.window
    is_tumbling = (
        window is not None
        and window.kind is WindowKind.REGULAR
        and window.length_us == window.slide_us
    )
    return window if is_tumbling else None


def _has_session(operator: KeptOperator) -> bool:
    windows = (operator.side.term(each).window for each in operator.keys)
    return any(each is not None and each.kind is WindowKind.SESSION for each in windows)


def _is_forgotten(old: KeptOperator, new: KeptOperator) -> bool:
    """Return whether a group may be made of some that a watermark has dropped."""
    kept = set(new.digests(new.keys))
    times = [each for each in old.keys if old.side.term(each).kind is TermKind.WINDOW]
    is_as_before = bool(times) and all(old.side.digests[each] in kept for each in times)
    return old.has_event_time and not is_as_before


def _describe_keys(old: KeptOperator, new: KeptOperator) -> str:
    was, now = distinguish(old, old.keys, new, new.keys)
    return f"it was by {was}, is by {now}: the new groups cannot be computed of the old ones"


# ---- functions


def _judge_functions(
    old: KeptOperator, new: KeptOperator, change: _KeyChange
) -> Iterator[ColumnVerdict]:
    was = {old.side.digests[each]: each for each in old.functions}
    widened, same = find_widened(old, new), find_same_state(old, new)
    now = {new.side.digests[each]: each for each in new.functions}
    kept = {*widened.values(), *same.values()}
    removed = [each for digest, each in was.items() if digest not in now and each not in kept]
    alike = {old.describe(each) for each in removed} & {new.describe(each) for each in now.values()}
    is_same_form = _form(old) == _form(new) and old.digests(old.grouped) == new.digests(new.grouped)
    for digest, term in now.items():
        name = new.describe(term, is_full=digest not in was and new.describe(term) in alike)
        if (
            change.merges
            and (digest in was or term in widened or term in same)
            and new.side.term(term).name not in MERGEABLE
        ):
            why = "what it keeps of two groups cannot be merged"
            yield ColumnVerdict(name, StateVerdict.REFUSED, why)
        elif term in widened:
            yield ColumnVerdict(
                name, worst_verdict([change.verdict, StateVerdict.CONVERT]), f"it is {WIDER}"
            )
        elif term in same:
            yield ColumnVerdict(
                name, worst_verdict([change.verdict, StateVerdict.CONVERT]), SAME_STATE
            )
        elif digest not in was:
            start = _OF_NONE.get(new.side.term(term).name, "NULL")
            why = f"{BEGINS} {start}"
            yield ColumnVerdict(name, StateVerdict.PARTIAL, why)
        elif old.form_of(was[digest]) != new.form_of(term):
            yield ColumnVerdict(
                name, StateVerdict.REFUSED, _describe_types(old, was[digest], new, term)
            )
        elif change.verdict is not StateVerdict.FULL:
            yield ColumnVerdict(name, change.verdict, change.why)
        elif not is_same_form:
            yield ColumnVerdict(name, StateVerdict.CONVERT, "it has another place in the state")
        else:
            yield ColumnVerdict(name, StateVerdict.FULL)
    for term in removed:
        why = "the new SQL does not compute it: it is dropped"
        name = old.describe(term, is_full=old.describe(term) in alike)
        yield ColumnVerdict(name, StateVerdict.LOST, why)


def _form(operator: KeptOperator) -> list[tuple[str, str, str]]:
    return [(operator.side.digests[each.term], each.part, each.type) for each in operator.columns]


def _describe_types(old: KeptOperator, before: int, new: KeptOperator, after: int) -> str:
    was, now = (
        ", ".join(kind for _, kind in side.form_of(term))
        for side, term in ((old, before), (new, after))
    )
    return f"it was kept as {was}, is kept as {now}"


EXPIRES_LAST = (
    "rows that are no longer distinguished become one, which expires with the last of them: a row "
    "that a replay hands on may be delayed, and what has expired already is gone"
)
FORGOTTEN = (
    "rows that are no longer distinguished become one, and those that the watermark has passed are "
    "gone already: what equals these comes once more"
)


# ---- deduplications and joins


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
    has_form = {side: _form_of_side(old, side) == _form_of_side(new, side) for side in sides}
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


def _form_of_side(join: KeptOperator, side: str) -> list[tuple[str, str]]:
    return [(join.side.digests[each.term], each.type) for each in join.columns_of_side(side)]


# ---- wider types

_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}  # each has those before it
# Numbers that hold all integers of a type: the mantissa of a FLOAT has 24 bits, of a DOUBLE 53.
_EXACT = {
    "float": {"tinyint", "smallint"},
    "double": {"tinyint", "smallint", "int", "float"},
}
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_OVER_VALUES = {"Average", "Count", "First", "Last", "Max", "Min", "Sum"}
_UNSCALED = "UnscaledValue"  # Spark sums small decimals as integers, without their point


def is_lossless(was: str, now: str) -> bool:
    """Return whether a type has all values of another one, and is not the same."""
    if was in _EXACT.get(now, ()):
        return True
    old, new = _digits(was), _digits(now)
    if was == now or old is None or new is None:
        return False
    if now in _DIGITS:
        return was in _DIGITS and new > old
    return new[0] >= old[0] and new[1] >= old[1]


def is_same_value(old: Side, before: int, new: Side, after: int) -> bool:
    """Return whether an expression has the value of another one, of whatever width."""
    forms = (hash_form(_narrow_value(*each)) for each in ((old, before), (new, after)))
    return len(set(forms)) == 1 and _is_read_as_before(_read(old, before), _read(new, after))


def find_widened(old: KeptOperator, new: KeptOperator) -> dict[int, int]:
    """Return of which old function each one is that has got wider: their terms, new to old."""
    known: dict[str, int] = {}
    for term in old.functions:
        known.setdefault(_narrow(old.side, term), term)
    found = {}
    kept = set(old.digests(old.functions))
    for term in new.functions:
        before = known.get(_narrow(new.side, term))
        is_other = before is not None and new.side.digests[term] not in kept
        if before is None or not is_other or not _is_wider(old.form_of(before), new.form_of(term)):
            continue
        if _are_read_as_before(old.side, before, new.side, term):
            found[term] = before
    return found


def find_widened_columns(old: KeptOperator, new: KeptOperator, side: str) -> dict[int, KeptColumn]:
    """Return of which old column each one of a join's side is that has got wider, by its term."""
    was, now = old.columns_of_side(side), new.columns_of_side(side)
    known = {old.side.digests[each.term] for each in was}
    found = {}
    for each in now:
        wider = (
            one
            for one in was
            if is_lossless(one.type, each.type)
            and is_same_value(old.side, one.term, new.side, each.term)
        )
        before = None if new.side.digests[each.term] in known else next(wider, None)
        if before is not None:
            found[each.term] = before
    return found


def _digits(kind: str) -> tuple[int, int] | None:
    """Return how many digits a type has before the point, and after it."""
    if kind in _DIGITS:
        return _DIGITS[kind], 0
    decimal = _DECIMAL.fullmatch(kind)
    if decimal is None:
        return None
    precision, scale = map(int, decimal.groups())
    return precision - scale, scale


def _is_wider(was: Sequence[tuple[str, str]], now: Sequence[tuple[str, str]]) -> bool:
    """Return whether all that is kept for a function can be written as what is kept from now on."""
    return [part for part, _ in was] == [part for part, _ in now] and all(
        one == other or is_lossless(one, other)
        for (_, one), (_, other) in zip(was, now, strict=True)
    )


def _narrow(side: Side, place: int) -> str:
    """Return the digest of a function over its arguments as they are before they are widened."""
    term = side.term(place)
    if term.name not in _OVER_VALUES or term.is_distinct:
        return side.digests[place]
    form: list[Json] = [
        term.name,
        [_narrow_value(side, each) for each in term.arguments],
        [[*each] for each in term.options],
        [*side.digests.all(term.filters)],
    ]
    return hash_form(form)


def _narrow_value(side: Side, place: int) -> Json:
    term = side.term(place)
    if term.name == _UNSCALED:
        (inner,) = term.arguments
        digits = _digits(side.term(inner).type)
        if digits is not None:  # with another scale it is another integer
            return [_UNSCALED, digits[1], _narrow_value(side, inner)]
    inner = _uncast(side, place)
    if inner != place:
        return _narrow_value(side, inner)
    if term.kind is TermKind.COLUMN and term.source is not None:
        return [term.kind.value, term.name, side.digests.sources[term.source]]
    return side.digests[place]


def _uncast(side: Side, place: int) -> int:
    """Return what is below casts that lose nothing."""
    term = side.term(place)
    if term.name == "Cast" and term.kind is TermKind.CALL:
        (inner,) = term.arguments
        if is_lossless(side.term(inner).type, term.type):
            return _uncast(side, inner)
    return place


def _read(side: Side, place: int) -> str:
    """Return the type of what an expression is made of."""
    term = side.term(place)
    if term.name == _UNSCALED:
        return _read(side, term.arguments[0])
    return side.term(_uncast(side, place)).type


def _are_read_as_before(old: Side, before: int, new: Side, after: int) -> bool:
    pairs = zip(old.term(before).arguments, new.term(after).arguments, strict=True)
    return all(_is_read_as_before(_read(old, one), _read(new, other)) for one, other in pairs)


def _is_read_as_before(was: str, now: str) -> bool:
    """Return whether a column keeps its values: integers and decimals are exact."""
    return was == now or (_digits(now) is not None and is_lossless(was, now))


# ---- the same state

SAME_STATE = "its result is computed of the state that another function of the old SQL has"
# Classes that keep the same of their arguments, by one of their names.
_KEPT_AS = {
    **dict.fromkeys(("StddevPop", "StddevSamp", "VariancePop", "VarianceSamp"), "VarianceSamp"),
    **dict.fromkeys(("CovPopulation", "CovSample"), "CovSample"),
}
# Of functions that keep values: the places of arguments that only the result depends on.
_OF_RESULTS = {
    "Percentile": {1},
    "PercentileDisc": {1},
    "ApproximatePercentile": {1},
    "ListAgg": {1},
}
_DESCENDING = "reverse"  # the option of a percentile WITHIN GROUP (ORDER BY ... DESC)
_ORDER = "SortOrder"


def find_same_state(old: KeptOperator, new: KeptOperator) -> dict[int, int]:
    """Return of which old function each one has the state that is new: their terms, new to old.

    Functions that both have are theirs; of what is left each old one is that of one new one.
    """
    was, now = (set(each.digests(each.functions)) for each in (old, new))
    left: dict[str, list[int]] = {}
    for term in old.functions:
        kept = _kept(old.side, term)
        if kept is not None and old.side.digests[term] not in now:
            left.setdefault(kept, []).append(term)
    found = {}
    for term in new.functions:
        kept = _kept(new.side, term)
        if kept is None or new.side.digests[term] in was or not left.get(kept):
            continue
        before = left[kept][0]
        if old.form_of(before) == new.form_of(term):
            found[term] = left[kept].pop(0)
    return found


def _kept(side: Side, place: int) -> str | None:
    """Return the digest of what a function keeps; None where it is that of the function itself."""
    term = side.term(place)
    if term.kind is not TermKind.AGGREGATE or term.is_distinct:
        return None
    without = _OF_RESULTS.get(term.name, set())
    if term.name not in _KEPT_AS and not without:
        return None
    arguments = (each for at, each in enumerate(term.arguments) if at not in without)
    form: list[Json] = [
        _KEPT_AS.get(term.name, term.name),
        [_ordered(side, each) for each in arguments],
        [*side.digests.all(term.filters)],
        [[*each] for each in term.options if each[0] != _DESCENDING],
    ]
    return hash_form(form)


def _ordered(side: Side, place: int) -> Json:
    """Return the form of an argument; of one by which values are ordered, without the direction."""
    term = side.term(place)
    if term.kind is TermKind.CALL and term.name == _ORDER:
        return [_ORDER, *side.digests.all(term.arguments)]
    return side.digests[place]
