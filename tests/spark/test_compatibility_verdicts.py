"""Every change of the compatibility suite has the verdict that the documents say it has.

Each pair is planned by one session and compared as values.
"""

import pytest
from pyspark.sql import SparkSession
from tests.shares import share_of
from tests.spark.compatibility.change import Base, Change
from tests.spark.compatibility.judged import Planner, tell, wrong_with
from tests.spark.compatibility.sabotage import MUTATIONS, Mutation
from tests.spark.compatibility.table import BASES, every_change
from tests.spark.compatibility.views import plan_views

from ashore.errors import QueryRefused
from ashore.plans import build
from ashore.plans.change.backfill import Backfill, plan_backfill
from ashore.plans.change.columns import BEGINS
from ashore.plans.change.rewriting import RewriteKind, StateRewrite
from ashore.plans.change.verdicts import QueryVerdict, StateVerdict, worst_verdict
from ashore.plans.graph import StoredPlan

# Changes whose new state can be filled: every run looks at them, and at its share of the others.
FILLED = {
    ("groups", "state where there was none"),
    ("tumbling windows", "a function added"),
    ("distinct rows", "counted groups"),
}
CHANGES = [pytest.param(*each, id=f"{each[0].name}: {each[1].name}") for each in every_change()]


def some_changes() -> list[tuple[Base, Change]]:
    """Return the changes that the tests of all of them look at in this run."""
    every = [*every_change()]
    chosen = FILLED.union((base.name, change.name) for base, change in share_of(every))
    return [each for each in every if (each[0].name, each[1].name) in chosen]


@pytest.fixture(scope="module")
def planner(spark: SparkSession) -> Planner:
    return Planner(plan_views(spark.newSession()))


@pytest.mark.thirds
@pytest.mark.parametrize(("base", "change"), CHANGES)
def test_a_change_has_its_verdict(planner: Planner, base: Base, change: Change) -> None:
    found = planner.judge(base, change)
    assert wrong_with(change, found) == "", tell(found)
    for operator in found.operators:
        parts = [each.verdict for each in operator.columns]
        assert operator.verdict.rank >= worst_verdict(parts).rank


@pytest.mark.thirds
@pytest.mark.parametrize(("base", "change"), CHANGES)
def test_a_verdict_promises_what_apply_rewrites(
    planner: Planner, base: Base, change: Change
) -> None:
    verdict = planner.judge(base, change)
    if verdict.verdict is StateVerdict.REFUSED:
        with pytest.raises(QueryRefused, match="cannot be rewritten: "):
            planner.rewrite(base, change, verdict)
        return
    rewrite = planner.rewrite(base, change, verdict)
    empty = {each.operator for each in rewrite.operators if each.kind is RewriteKind.EMPTY}
    new = [each for each in verdict.operators if each.new is not None]
    assert len(rewrite.operators) == len(new)
    assert len(empty) == sum(each.old is None for each in new)
    assert len(rewrite.dropped) == sum(each.new is None for each in verdict.operators)


def fill_or_refuse(new: StoredPlan, rewrite: StateRewrite, verdict: QueryVerdict) -> Backfill | str:
    try:
        return plan_backfill(new, rewrite, verdict)
    except QueryRefused as error:
        return str(error)


def test_what_begins_empty_is_filled_or_refused_with_the_reason(planner: Planner) -> None:
    filled, refused = set(), set()
    for base, change in some_changes():
        verdict = planner.judge(base, change)
        if verdict.verdict is StateVerdict.REFUSED:
            continue
        rewrite, new = planner.rewrite(base, change, verdict), planner.plan(base.new(change))
        is_new = any(each.kind is RewriteKind.EMPTY for each in rewrite.operators)
        is_new |= any(value.column is None for each in rewrite.operators for value in each.values)
        found = fill_or_refuse(new, rewrite, verdict)
        if isinstance(found, str):
            assert " be filled: " in found
            refused.add((base.name, change.name))
            continue
        assert found.is_needed == is_new
        values = [value for each in found.rewrite.operators for value in each.values]
        assert all(each.is_filled or each.column is not None for each in values)
        assert not any(each.kind is RewriteKind.EMPTY for each in found.rewrite.operators)
        if is_new:
            assert BEGINS not in tell(found.verdict)
            filled.add((base.name, change.name))
        else:
            assert (found.rewrite, found.verdict) == (rewrite, verdict)
    assert filled >= FILLED
    assert refused


def test_every_stateful_operator_of_a_change_is_mapped_and_none_wrongly(planner: Planner) -> None:
    """Without edits: what both queries have is a pair, and no pair is of two kinds."""
    for base, change in some_changes():
        verdict = planner.judge(base, change)
        if verdict.why and not verdict.operators:
            continue  # refused as a whole: nothing was paired
        alone = [each for each in verdict.operators if None in {each.old, each.new}]
        gone = {each.name.split()[0] for each in alone if each.new is None}
        come = {each.name.split()[0] for each in alone if each.old is None}
        assert not gone & come, f"{base.name}: {change.name}: two of a kind are not paired"
        olds, news = ([getattr(each, side) for each in verdict.mapping] for side in ("old", "new"))
        assert len(set(olds)) == len(olds)
        assert len(set(news)) == len(news)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda each: each.name)
def test_a_wrong_rule_is_noticed(
    planner: Planner, monkeypatch: pytest.MonkeyPatch, mutation: Mutation
) -> None:
    """The change that it names is enough: to judge all of them takes minutes."""
    mutation.put_in(monkeypatch)
    if any(owner is build for owner, _, _ in mutation.patches):
        planner = planner.anew()
    [(base, change)] = [
        each
        for each in every_change()
        if (each[0].name, each[1].name) == (mutation.base, mutation.change)
    ]
    assert wrong_with(change, planner.judge(base, change)), "the wrong rule was not noticed"


def test_the_table_is_as_large_as_was_said() -> None:
    changes = [change for _, change in every_change()]
    assert len(changes) >= 80
    assert len(BASES) >= 12
    assert sum(each.is_other for each in changes) >= 10
    assert len({(base.name, change.name) for base, change in every_change()}) == len(changes)
    assert all(each.why for each in changes if each.verdict is not StateVerdict.FULL)
    for base in BASES:
        assert any(each.is_run for each in base.changes), base.name
