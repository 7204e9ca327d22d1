"""Functions that compute another result of the same state.

What it is: `find_same_state`, the functions of an aggregate whose state is that of an old one: only
the result differs that Spark computes of it, as for another fraction of a percentile.
What it promises: pure. Of each function it is known that its class keeps nothing of what is left
out here.
"""

from ashore.base.codec import Json
from ashore.plans.change.side import KeptOperator, Side
from ashore.plans.digests import hash_form
from ashore.plans.graph import KeptColumn
from ashore.plans.terms import Term, TermKind

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
        if _form(old, before) == _form(new, term):
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
    term: Term = side.term(place)
    if term.kind is TermKind.CALL and term.name == _ORDER:
        return [_ORDER, *side.digests.all(term.arguments)]
    return side.digests[place]


def _form(operator: KeptOperator, term: int) -> list[tuple[str, str]]:
    found: list[KeptColumn] = [each for each in operator.columns if each.term == term]
    return [(each.part, each.type) for each in found]
