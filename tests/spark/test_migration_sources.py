"""Sources that change: which is which, and what becomes of the state above them.

Each pair is planned by one session and compared as values.
"""

from dataclasses import dataclass

import pytest
from pyspark.sql import SparkSession
from tests.spark.streams import CLICKS, make_views, topic_view
from tests.spark.test_plan_changes import plan_of

from ashore.plans.change.judge import MORE_INPUTS, find_changes, judge_query
from ashore.plans.change.verdicts import StateVerdict

FULL, CONVERT, PARTIAL = StateVerdict.FULL, StateVerdict.CONVERT, StateVerdict.PARTIAL
LOST, REFUSED = StateVerdict.LOST, StateVerdict.REFUSED

ROWS = "SELECT id, country, amount FROM {}"
FIRST, SECOND, THIRD = ROWS.format("clicks"), ROWS.format("plain"), ROWS.format("third")
BOTH = f"{FIRST} UNION ALL {SECOND}"
SWAPPED = f"{SECOND} UNION ALL {FIRST}"
SUM = "SELECT country, sum(amount) AS s, count(*) AS n FROM ({}) GROUP BY country"
JOIN = (
    "SELECT a.id, b.page FROM clicks a JOIN views b ON a.id = b.id "
    "AND b.seen BETWEEN a.ts AND a.ts + INTERVAL 1 HOUR"
)


@pytest.fixture(scope="module")
def views(spark: SparkSession) -> SparkSession:
    make_views(spark)
    topic_view(spark, "third", CLICKS)
    topic_view(spark, "plain,extra", CLICKS, name="plain_more")
    topic_view(spark, "plain", CLICKS, name="plain_again")
    return spark


@dataclass(frozen=True, slots=True)
class Case:
    """A change of sources.

    Arguments:
        old: SQL.
        new: SQL.
        verdict: on the query.
        sources: topics, verdict, the place before and after.
        operators: the verdicts on those that keep state.

    """

    old: str
    new: str
    verdict: StateVerdict
    sources: tuple[tuple[str, StateVerdict, int | None, int | None], ...]
    operators: tuple[StateVerdict, ...] = ()


KEPT = ("clicks", FULL, 0, 0), ("plain", FULL, 1, 1)
MOVED = ("plain", CONVERT, 1, 0), ("clicks", CONVERT, 0, 1)
CASES = {
    "the same": Case(BOTH, BOTH, FULL, KEPT),
    "another view of the topic": Case(
        SECOND, ROWS.format("plain_again"), FULL, (("plain", FULL, 0, 0),)
    ),
    "places exchanged": Case(BOTH, SWAPPED, CONVERT, MOVED),
    "places exchanged below state": Case(
        SUM.format(BOTH), SUM.format(SWAPPED), CONVERT, MOVED, (FULL,)
    ),
    "an input more": Case(
        SUM.format(BOTH),
        SUM.format(f"{BOTH} UNION ALL {THIRD}"),
        PARTIAL,
        (*KEPT, ("third", PARTIAL, None, 2)),
        (FULL,),
    ),
    "an input more, before others": Case(
        SUM.format(BOTH),
        SUM.format(f"{THIRD} UNION ALL {BOTH}"),
        PARTIAL,
        (("third", PARTIAL, None, 0), ("clicks", CONVERT, 0, 1), ("plain", CONVERT, 1, 2)),
        (FULL,),
    ),
    "a union that was none": Case(
        SUM.format(FIRST),
        SUM.format(SWAPPED),
        PARTIAL,
        (("plain", PARTIAL, None, 0), ("clicks", CONVERT, 0, 1)),
        (FULL,),
    ),
    "an input less": Case(
        SUM.format(BOTH),
        SUM.format(SECOND),
        LOST,
        (("plain", CONVERT, 1, 0), ("clicks", LOST, 0, None)),
        (FULL,),
    ),
    "an input for another": Case(
        SUM.format(BOTH),
        SUM.format(f"{FIRST} UNION ALL {THIRD}"),
        LOST,
        (("clicks", FULL, 0, 0), ("third", PARTIAL, None, 1), ("plain", LOST, 1, None)),
        (FULL,),
    ),
    "another column of an input": Case(
        SUM.format(BOTH),
        SUM.format(BOTH.replace("amount FROM plain", "amount * 2 FROM plain")),
        LOST,
        KEPT,
        (LOST,),
    ),
    "another topic instead": Case(
        SUM.format(FIRST),
        SUM.format(SECOND),
        REFUSED,
        (("plain", PARTIAL, None, 0), ("clicks", LOST, 0, None)),
        (REFUSED,),
    ),
    "a topic more": Case(
        SUM.format(SECOND),
        SUM.format(ROWS.format("plain_more")),
        FULL,
        (("plain,extra", FULL, 0, 0),),
        (FULL,),
    ),
    "a topic less": Case(
        SUM.format(ROWS.format("plain_more")),
        SUM.format(SECOND),
        LOST,
        (("plain", LOST, 0, 0),),
        (FULL,),
    ),
    "a stream that is joined": Case(
        SUM.format(FIRST),
        SUM.format(
            "SELECT a.id, a.country, a.amount FROM clicks a JOIN views b ON a.id = b.id "
            "AND b.seen BETWEEN a.ts AND a.ts + INTERVAL 1 HOUR"
        ),
        REFUSED,
        (("clicks", FULL, 0, 0), ("views", PARTIAL, None, 1)),
        (PARTIAL, REFUSED),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_sources_are_told_by_their_topics(views: SparkSession, case: str) -> None:
    asked = CASES[case]
    old, new = plan_of(views, asked.old), plan_of(views, asked.new)
    found = judge_query(old, new)
    told = tuple((each.name, each.verdict, each.old, each.new) for each in found.sources)
    assert told == asked.sources
    assert tuple(each.verdict for each in found.operators) == asked.operators
    assert found.verdict is asked.verdict
    assert bool(find_changes(old, new)) == (asked.verdict is not FULL)


def test_the_sides_of_a_join_are_no_inputs_of_a_union(views: SparkSession) -> None:
    """The same rows match, but each side's rows wait in the other store."""
    swapped = (
        "SELECT a.id, b.page FROM views b JOIN clicks a ON a.id = b.id "
        "AND b.seen BETWEEN a.ts AND a.ts + INTERVAL 1 HOUR"
    )
    found = judge_query(plan_of(views, JOIN), plan_of(views, swapped))
    assert [each.verdict for each in found.sources] == [CONVERT, CONVERT]
    assert [each.verdict for each in found.operators] == [REFUSED]


def test_a_column_of_a_union_is_not_that_of_its_first_input(views: SparkSession) -> None:
    """`x` and `y` are one column of the first input, and two of the second."""
    rows = "SELECT id AS x, id AS y FROM clicks UNION ALL SELECT id, id * 2 FROM plain"
    text = f"SELECT sum({{}}) AS s FROM ({rows})"
    old, new = plan_of(views, text.format("x")), plan_of(views, text.format("y"))
    assert judge_query(old, new).verdict is LOST
    assert find_changes(old, new)
    constants = rows.replace("id AS x, id AS y", "'a' AS x, 'b' AS y").replace(
        "id, id * 2", "'b', 'a'"
    )
    text = f"SELECT x, count(*) AS n FROM ({constants}) GROUP BY x"
    other = text.replace("'a' AS x, 'b' AS y", "'b' AS x, 'a' AS y").replace("'b', 'a'", "'a', 'b'")
    assert judge_query(plan_of(views, text), plan_of(views, other)).verdict is not FULL


def test_readings_of_one_topic_are_told_apart_by_what_stands_above(views: SparkSession) -> None:
    low = "SELECT id FROM plain WHERE amount < 1"
    high = "SELECT id FROM plain_again WHERE amount > 9"
    other = "SELECT id FROM views"
    old = plan_of(views, f"{low} UNION ALL {high}")
    moved = judge_query(old, plan_of(views, f"{other} UNION ALL {high} UNION ALL {low}"))
    assert [(each.old, each.new) for each in moved.sources] == [(None, 0), (1, 1), (0, 2)]
    alike = f"{low} UNION ALL {low.replace('plain', 'plain_again')}"
    found = judge_query(plan_of(views, alike), plan_of(views, alike))
    assert found.verdict is FULL
    found = judge_query(plan_of(views, alike), plan_of(views, f"{other} UNION ALL {alike}"))
    assert found.verdict is REFUSED
    assert "which reading is which" in found.why[0]


def test_more_inputs_are_said_of_the_operator_that_they_reach(views: SparkSession) -> None:
    over = "SELECT n, count(*) AS of FROM ({}) GROUP BY n"
    old = f"SELECT DISTINCT id AS n FROM ({BOTH})"
    new = f"SELECT DISTINCT id AS n FROM ({BOTH} UNION ALL {THIRD})"
    found = judge_query(plan_of(views, over.format(old)), plan_of(views, over.format(new)))
    assert [MORE_INPUTS in each.why for each in found.operators] == [True, False]
