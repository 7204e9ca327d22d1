"""Parts of a state that mean the same to new SQL, though it does not write them alike.

What it is: `is_lossless`, between two types; `is_same_value`, between two expressions;
`find_widened`, functions over the same values as before, written as a wider type: a value gets
wider by a cast, or because the column of a source does; and `find_same_state`, functions that
compute another result of the same state, as for another fraction of a percentile.
What it promises: pure. Each value of the old type is one of the new, and the functions here give of
the wider values what they gave, widened. What is not known to be so is not widened: a record that
is read as a DOUBLE has other values than as a FLOAT. Of each function it is known that its class
keeps nothing of what is left out here.
"""

import re
from collections.abc import Sequence

from ashore.base.codec import Json
from ashore.plans.change.side import KeptOperator, Side
from ashore.plans.digests import hash_form
from ashore.plans.graph import KeptColumn, TermKind

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
