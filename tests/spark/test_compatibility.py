"""Changes of SQL keep what their verdicts promise: half by the old SQL, the rest by the new one."""

from collections import Counter

import pytest
from pyspark.sql import SparkSession
from tests.spark.compatibility.change import Base, Change
from tests.spark.compatibility.judged import tell, wrong_with
from tests.spark.compatibility.played import Played
from tests.spark.compatibility.table import BASES, every_change
from tests.spark.programs import conf

from ashore.plans.change.verdicts import StateVerdict


def is_played(change: Change) -> bool:
    return change.verdict is not StateVerdict.REFUSED and not change.unplayed


def rarest(offered: list[Change], chosen: list[Change]) -> Change:
    seen = Counter(each.verdict for each in chosen)
    return min(offered, key=lambda each: seen[each.verdict])


def choose() -> tuple[Change, ...]:
    """Return the changes of three everyday runs: one of every third base whose state is rewritten.

    Of its verdicts it is the one that the fewest bases before were chosen for. A state that is only
    kept is kept in one way: one such change stands for all of them.
    """
    chosen: list[Change] = []
    kept: list[Change] = []
    for base in BASES:
        offered = [each for each in base.changes if each.is_run and is_played(each)]
        rewritten = [each for each in offered if each.verdict is not StateVerdict.FULL]
        chosen += [rarest(rewritten, chosen)] if rewritten else []
        kept += [] if rewritten else offered
    return (*chosen[::3], *kept[:1])


CHOSEN = choose()
CHANGES = [
    pytest.param(
        *(base, change),
        id=f"{base.name}: {change.name}",
        marks=[] if any(change is each for each in CHOSEN) else pytest.mark.long,
    )
    for base, change in every_change()
    if is_played(change)
]


@pytest.fixture(scope="module")
def played(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Played:
    session = spark.newSession()
    for name, value in conf().items():
        session.conf.set(name, value)
    return Played(session, tmp_path_factory.mktemp("streams"))


@pytest.mark.thirds
@pytest.mark.parametrize(("base", "change"), CHANGES)
def test_a_changed_query_gives_what_was_promised(
    played: Played, base: Base, change: Change
) -> None:
    verdict = played.judge(base, change)
    assert wrong_with(change, verdict) == "", tell(verdict)
    rewrite = played.rewrite(base, change, verdict)
    emitted = played.go_on(base, change, rewrite)
    assert emitted
    assert emitted == played.whole(base.meant(change), base.mode)


def test_changes_of_every_verdict_are_played_by_three_commits() -> None:
    assert {each.verdict for each in CHOSEN} == {*StateVerdict} - {StateVerdict.REFUSED}
