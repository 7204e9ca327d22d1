"""Wrong verdicts, put in on purpose: the suite has to notice each of them."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from ashore.plans import build
from ashore.plans.change import columns, judge
from ashore.plans.change.side import Side
from ashore.plans.change.verdicts import ColumnVerdict, OperatorVerdict, StateVerdict

FULL = StateVerdict.FULL
Patch = tuple[object, str, object]


@dataclass(frozen=True, slots=True)
class Mutation:
    """A rule of the judge, made wrong.

    Arguments:
        name: what is said wrongly.
        base: of a change that has to be noticed.
        change: its name.
        patches: what is replaced: its owner, its name, and the wrong one.

    """

    name: str
    base: str
    change: str
    patches: tuple[Patch, ...]

    def put_in(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for owner, name, wrong in self.patches:
            monkeypatch.setattr(owner, name, wrong)


def _always(value: object) -> Callable[..., object]:
    return lambda *_: value


def _same(planned: object) -> object:
    return planned


def _whole_without(*beginnings: str) -> Callable[..., object]:
    """Return the rule of whole operators, without findings that begin like this."""
    rule = judge._judge_whole
    return lambda *sides: [each for each in rule(*sides) if not each.why.startswith(beginnings)]


def _all_full(columns: Iterator[ColumnVerdict]) -> Iterator[ColumnVerdict]:
    for each in columns:
        if each.verdict is not StateVerdict.LOST:
            yield ColumnVerdict(each.name, FULL)


def _wrongly_full(rule: Callable[..., Iterator[ColumnVerdict]]) -> Callable[..., object]:
    return lambda *sides: _all_full(rule(*sides))


def _full_where(verdicts: set[StateVerdict]) -> Callable[..., object]:
    """Return the rule of keys, with some of its verdicts taken for full."""
    rule = columns._judge_keys

    def judge_keys(old: Any, new: Any) -> object:
        found = rule(old, new)
        return replace(found, verdict=FULL, why="") if found.verdict in verdicts else found

    return judge_keys


def _without_reasons(rule: Callable[..., OperatorVerdict]) -> Callable[..., object]:
    return lambda *told: replace(rule(*told), verdict=FULL, why=())


def _only_filtered(rule: Callable[..., Iterator[Any]]) -> Callable[..., object]:
    return lambda *sides: [each for each in rule(*sides) if each.why == judge.FILTERED]


EVERYTHING: Mapping[str, object] = type("Everything", (dict,), {"__contains__": _always(True)})()
# An operator whose columns are all full has to be the same as a whole too: a second net.
NO_NET: Patch = (judge, "_is_full", _always(False))
MERGED = {StateVerdict.CONVERT, StateVerdict.PARTIAL}
REPLAYED = (judge.DISTINCT, judge.REPEATED, judge.NOT_DISTINCT)
AGGREGATES = _wrongly_full(columns.judge_aggregate)

MUTATIONS = (
    Mutation(
        "the sum of another column is full",
        *("groups", "the sum of something else"),
        ((judge, "judge_aggregate", AGGREGATES), NO_NET),
    ),
    Mutation(
        "another key of the same type is full",
        *("groups", "another key"),
        ((columns, "_judge_keys", _full_where({StateVerdict.REFUSED})), NO_NET),
    ),
    Mutation(
        "longer windows are full",
        *("tumbling windows", "windows of several"),
        ((columns, "_judge_keys", _full_where(MERGED)), NO_NET),
    ),
    Mutation(
        "groups that are gone are not missed",
        *("tumbling windows", "windows of several"),
        ((columns, "_is_forgotten", _always(False)),),
    ),
    Mutation(
        "everything can be merged",
        *("groups by two keys", "a key dropped, and what cannot be merged"),
        ((columns, "MERGEABLE", EVERYTHING),),
    ),
    Mutation(
        "the order of functions does not count",
        *("groups", "functions in another order"),
        ((columns, "_form", _always(())), NO_NET),
    ),
    Mutation(
        "nothing is said of a filter below",
        *("groups", "a filter added"),
        ((judge, "_judge_conditions", _always(())),),
    ),
    Mutation(
        "groups that do not meet a new condition are full",
        *("groups", "a filter on a key added"),
        ((judge, "_judge_conditions", _only_filtered(judge._judge_conditions)),),
    ),
    Mutation(
        "nothing is said of the inputs of a union",
        *("a union", "an input dropped"),
        ((judge, "_judge_whole", _whole_without(judge.MORE_INPUTS, judge.FEWER_INPUTS)),),
    ),
    Mutation(
        "an operator that has another number is full",
        *("windows in order of time", "a deduplication added above"),
        ((judge, "_judge_whole", _whole_without("it is operator")),),
    ),
    Mutation(
        "an operator that is gone is full",
        *("groups", "no state"),
        ((judge, "_judge_removed", _without_reasons(judge._judge_removed)),),
    ),
    Mutation(
        "an operator that is new is full",
        *("groups", "state where there was none"),
        ((judge, "_judge_added", _without_reasons(judge._judge_added)),),
    ),
    Mutation(
        "rows that meet others are full",
        *("an inner join", "another key"),
        ((columns, "_changed", _always(())), NO_NET),
    ),
    Mutation(
        "other columns of a join are full",
        *("an inner join", "a column of the left side added"),
        ((judge, "judge_join", _wrongly_full(columns.judge_join)), NO_NET),
    ),
    Mutation(
        "a deduplication by other columns is full",
        *("a deduplication of a frame", "other columns"),
        ((judge, "judge_deduplicate", _wrongly_full(columns.judge_deduplicate)), NO_NET),
    ),
    Mutation(
        "a type that lacks values of the old one is wider",
        *("columns that get wider", "`min(i)` as `min(CAST(i AS FLOAT))`"),
        ((columns, "is_lossless", _always(True)),),
    ),
    Mutation(
        "a column has its old values, whatever it is read as",
        *(
            "columns that the schema of a topic makes wider",
            "a FLOAT as DOUBLE: records have other values then",
        ),
        ((columns, "_is_read_as_before", _always(True)),),
    ),
    Mutation(
        "a column of rows that wait is another one, though it only gets wider",
        *("an inner join", "a column of the left side gets wider"),
        ((columns, "find_widened_columns", _always({})),),
    ),
    Mutation(
        "what Spark does not show is the same",
        *("a condition by a subquery", "another subquery"),
        ((Side, "is_same_text", _always(True)),),
    ),
    Mutation(
        "rows that are deduplicated from now on are the same rows",
        *("windows in order of time", "a deduplication added below"),
        ((judge, "_judge_whole", _whole_without(*REPLAYED)),),
    ),
    Mutation(
        "a watermark that follows other rows is not told",
        *("Nexmark q8", "a filter added"),
        ((Side, "watermarked", frozenset()),),
    ),
    Mutation(
        "another result of the same state is another function",
        *("groups", "other results of the same state"),
        ((columns, "find_same_state", _always({})),),
    ),
    Mutation(
        "both readings of a view are one",
        *("a union of one view with itself", "labels exchanged"),
        ((build, "separate_branches", _same),),
    ),
    Mutation(
        "both sides of a self-join are one",
        *("a join of one view with itself", "a condition on the other side of a `WITH`"),
        ((build, "separate_branches", _same),),
    ),
)
