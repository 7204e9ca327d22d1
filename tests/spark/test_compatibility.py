"""Changes of SQL keep what their verdicts promise: half by the old SQL, the rest by the new one."""

import pytest
from pyspark.sql import SparkSession
from tests.spark.compatibility.change import Base, Change
from tests.spark.compatibility.judged import tell, wrong_with
from tests.spark.compatibility.played import Played
from tests.spark.compatibility.table import BASES, every_change
from tests.spark.programs import conf

from ashore.migration.verdicts import StateVerdict


def is_played(change: Change) -> bool:
    return change.verdict is not StateVerdict.REFUSED and not change.unplayed


def choose() -> set[tuple[str, str]]:
    """Return a change of each base and verdict for the everyday run."""
    chosen = {}
    for base in BASES:
        for change in base.changes:
            if change.is_run and is_played(change):
                chosen.setdefault((base.name, change.verdict), change.name)
    return {(base, name) for (base, _), name in chosen.items()}


CHOSEN = choose()
CHANGES = [
    pytest.param(
        *(base, change),
        id=f"{base.name}: {change.name}",
        marks=[] if (base.name, change.name) in CHOSEN else pytest.mark.long,
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
