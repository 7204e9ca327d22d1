"""Every change of the compatibility suite has the verdict that the documents say it has.

Each pair is planned by one session and compared as values.
"""

import pytest
from pyspark.sql import SparkSession
from tests.spark.compatibility.change import Base, Change
from tests.spark.compatibility.judged import Planner, tell, wrong_with
from tests.spark.compatibility.sabotage import MUTATIONS, Mutation
from tests.spark.compatibility.table import BASES, every_change
from tests.spark.compatibility.views import plan_views

from ashore.errors import QueryRefused
from ashore.migration.rewriting import RewriteKind
from ashore.migration.verdicts import StateVerdict, worst

CHANGES = [pytest.param(*each, id=f"{each[0].name}: {each[1].name}") for each in every_change()]


@pytest.fixture(scope="module")
def planner(spark: SparkSession) -> Planner:
    return Planner(plan_views(spark.newSession()))


@pytest.mark.parametrize(("base", "change"), CHANGES)
def test_a_change_has_its_verdict(planner: Planner, base: Base, change: Change) -> None:
    found = planner.judge(base, change)
    assert wrong_with(change, found) == "", tell(found)
    for operator in found.operators:
        parts = [each.verdict for each in operator.columns]
        assert operator.verdict.rank >= worst(parts).rank


@pytest.mark.parametrize(("base", "change"), CHANGES)
def test_a_verdict_promises_what_apply_rewrites(
    planner: Planner, base: Base, change: Change
) -> None:
    verdict = planner.judge(base, change)
    if verdict.verdict is StateVerdict.REFUSED:
        with pytest.raises(QueryRefused, match="the state cannot be rewritten: "):
            planner.rewrite(base, change, verdict)
        return
    rewrite = planner.rewrite(base, change, verdict)
    empty = {each.operator for each in rewrite.operators if each.kind is RewriteKind.EMPTY}
    new = [each for each in verdict.operators if each.new is not None]
    assert len(rewrite.operators) == len(new)
    assert len(empty) == sum(each.old is None for each in new)
    assert len(rewrite.dropped) == sum(each.new is None for each in verdict.operators)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda each: each.name)
def test_a_wrong_rule_is_noticed(
    planner: Planner, monkeypatch: pytest.MonkeyPatch, mutation: Mutation
) -> None:
    mutation.put_in(monkeypatch)
    noticed = {
        (base.name, change.name)
        for base, change in every_change()
        if wrong_with(change, planner.judge(base, change))
    }
    assert (mutation.base, mutation.change) in noticed, sorted(noticed)


def test_the_table_is_as_large_as_was_said() -> None:
    changes = [change for _, change in every_change()]
    assert len(changes) >= 80
    assert len(BASES) >= 12
    assert sum(each.is_other for each in changes) >= 10
    assert len({(base.name, change.name) for base, change in every_change()}) == len(changes)
    assert all(each.why for each in changes if each.verdict is not StateVerdict.FULL)
    for base in BASES:
        assert any(each.is_run for each in base.changes), base.name
