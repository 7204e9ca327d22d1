"""What may change between two runs of a query: Spark compares the types of its state, and no more.

Each pair is planned by one session and compared as values.
"""

import re

import pytest
from pyspark.sql import SparkSession
from tests.spark.streams import make_views

from ashore.plans.change.judge import find_changes
from ashore.plans.graph import StoredPlan, ViewRule, read_stored, write_stored
from ashore.plans.text import normalise_sql
from ashore.queries.spark.internals.reading import read_plan

CLICKS = ViewRule(("clicks",), "json", (), "")
SUMS = (
    "SELECT country, window(ts, '1 hour') AS w, sum(amount) AS s, min(id) AS lo, max(id) AS hi "
    "FROM clicks GROUP BY country, window(ts, '1 hour')"
)
BOUND = "b.seen BETWEEN a.ts AND a.ts + INTERVAL 1 HOUR"
JOINED = f"SELECT a.id, a.country, b.id AS i, b.page FROM clicks a JOIN views b ON {BOUND} AND "
CLICKED = "SELECT id, country AS page FROM clicks"
DISTINCT = "SELECT DISTINCT {}, ts FROM clicks"


@pytest.fixture(scope="module")
def views(spark: SparkSession) -> SparkSession:
    make_views(spark)
    return spark


def plan_of(spark: SparkSession, text: str, *rules: ViewRule) -> StoredPlan:
    graph = read_plan(spark.sql(text))
    plan = StoredPlan("one", (normalise_sql(text),), rules or (CLICKS,), graph)
    assert read_stored(write_stored(plan)) == plan
    return plan


# The eight that were taken without a word, and what is told of each.
EIGHT = {
    "sum to max": (SUMS, SUMS.replace("sum(amount)", "max(amount)"), "sum(", "max("),
    "sum of more": (
        SUMS,
        SUMS.replace("sum(amount)", "sum(amount * 100)"),
        "sum(clicks.amount)",
        "* 100",
    ),
    "min and max swapped": (
        SUMS,
        SUMS.replace("min(id) AS lo, max(id) AS hi", "max(id) AS lo, min(id) AS hi"),
        "`min(clicks.id)`, `max(clicks.id)`",
        "`max(clicks.id)`, `min(clicks.id)`",
    ),
    "another group key": (
        SUMS,
        SUMS.replace("country", "upper(country)"),
        "by clicks.country",
        "by upper(clicks.country)",
    ),
    "a filter below": (
        SUMS,
        SUMS.replace("GROUP BY", "WHERE id > 3 GROUP BY"),
        "aggregate by country",
        "where clicks.id > 3",
    ),
    "another window": (
        SUMS,
        SUMS.replace("'1 hour'", "'40 minutes'"),
        "window 1 hour",
        "window 40 minutes",
    ),
    "another join key": (
        JOINED + "a.id = b.id",
        JOINED + "a.country = b.page",
        "left key clicks.id",
        "left key clicks.country",
    ),
    "another DISTINCT key": (
        DISTINCT.format("lower(country)"),
        DISTINCT.format("upper(country)"),
        "by lower(clicks.country)",
        "by upper(clicks.country)",
    ),
}


@pytest.mark.parametrize("case", EIGHT)
def test_a_change_below_state_is_reported_with_old_and_new(views: SparkSession, case: str) -> None:
    before, after, was, now = EIGHT[case]
    changes = find_changes(plan_of(views, before), plan_of(views, after))
    assert len(changes) == 1
    assert was in changes[0].partition(", is ")[0]
    assert now in changes[0].partition(", is ")[2]


MORE = {
    "distinct in a sum": (SUMS, SUMS.replace("sum(amount)", "sum(DISTINCT amount)")),
    "a filter of an aggregate": (
        SUMS,
        SUMS.replace("sum(amount)", "sum(amount) FILTER (WHERE id > 3)"),
    ),
    "a cast": (SUMS, SUMS.replace("sum(amount)", "sum(CAST(CAST(amount AS INT) AS DOUBLE))")),
    "an offset of windows": (SUMS, SUMS.replace("'1 hour'", "'1 hour', '1 hour', '5 minutes'")),
    "space in a literal": (
        SUMS.replace("GROUP BY", "WHERE country = 'a b' GROUP BY"),
        SUMS.replace("GROUP BY", "WHERE country = 'a  b' GROUP BY"),
    ),
    "one of many values": (
        SUMS.replace("GROUP BY", f"WHERE id IN ({', '.join(map(str, range(20)))}) GROUP BY"),
        SUMS.replace("GROUP BY", f"WHERE id IN ({', '.join(map(str, range(1, 21)))}) GROUP BY"),
    ),
    "a condition above that Spark moves below": (SUMS, f"{SUMS} HAVING country = 'DE'"),
    "a bound of a join": (
        JOINED + "a.id = b.id",
        JOINED.replace("1 HOUR", "2 HOURS") + "a.id = b.id",
    ),
    "a left join": (
        JOINED + "a.id = b.id",
        JOINED.replace(" JOIN", " LEFT JOIN") + "a.id = b.id",
    ),
    "sides of a union": (
        f"SELECT DISTINCT id, page FROM ({CLICKED} UNION ALL SELECT id, page FROM views)",
        f"SELECT DISTINCT id, page FROM ({CLICKED} UNION ALL SELECT id, upper(page) FROM views)",
    ),
    "a subquery": (
        SUMS.replace("GROUP BY", "WHERE country > (SELECT min(code) FROM countries) GROUP BY"),
        SUMS.replace("GROUP BY", "WHERE country > (SELECT max(code) FROM countries) GROUP BY"),
    ),
    "no state any more": (SUMS, "SELECT country, ts, amount, id, id FROM clicks"),
    "another stream": ("SELECT id, country FROM clicks", "SELECT id, page FROM views"),
    "one stream more": (
        "SELECT id FROM clicks",
        "SELECT id FROM clicks UNION ALL SELECT id FROM views",
    ),
}


@pytest.mark.parametrize("case", MORE)
def test_what_differs_in_meaning_is_found(views: SparkSession, case: str) -> None:
    before, after = MORE[case]
    (change,) = find_changes(plan_of(views, before), plan_of(views, after))
    was, *now = re.split(r", (?:is|and are) ", change, maxsplit=1)
    assert [*re.split(r"\b(?:was|were) ", was, maxsplit=1)[1:]] != now or case == "a subquery"


ALIKE = {
    "names": (SUMS, SUMS.replace("AS s", "AS total").replace("AS w", "AS hour")),
    "views": (SUMS, f"WITH sums AS ({SUMS}) SELECT w, country, s, lo, hi FROM sums"),
    "what is made of results": (SUMS, SUMS.replace("sum(amount) AS s", "sum(amount) / 2 AS s")),
    "a condition on results": (SUMS, f"{SUMS} HAVING sum(amount) > 3"),
    "a query without state": (
        "SELECT id, country FROM clicks WHERE id > 3",
        "SELECT id + 1 AS id, lower(country) AS c, ts FROM clicks WHERE id > 4",
    ),
}


@pytest.mark.parametrize("case", ALIKE)
def test_what_a_state_does_not_depend_on_may_change(views: SparkSession, case: str) -> None:
    before, after = ALIKE[case]
    assert find_changes(plan_of(views, before), plan_of(views, after)) == ()


@pytest.mark.parametrize(
    ("rule", "reported"),
    [
        (ViewRule(("clicks",), "json", (), "id > 3"), "`where` of clicks was not there, is `id"),
        (
            ViewRule(("clicks",), "json", (), "", "id null"),
            "`mask` of clicks was not there, is `id",
        ),
        (ViewRule(("clicks",), "text", (), ""), "clicks was decoded as json, is as text"),
        (ViewRule(("clicks",), "json", ("id * 2 AS id",), ""), "`select` of clicks was not"),
        (ViewRule(("clicks", "more"), "json", (), ""), ""),
    ],
)
def test_rules_of_views_are_compared(views: SparkSession, rule: ViewRule, reported: str) -> None:
    before, after = plan_of(views, SUMS), plan_of(views, SUMS, rule)
    found = find_changes(before, after)
    assert "".join(found).startswith(reported)
    assert bool(found) == bool(reported)


def test_a_join_with_a_table_is_the_same_however_spark_joins(views: SparkSession) -> None:
    text = (
        "SELECT {}name, window(ts, '1 hour') AS w, count(*) AS n FROM clicks "
        "JOIN countries ON code = country GROUP BY name, window(ts, '1 hour')"
    )
    small = plan_of(views, text.format("/*+ BROADCAST(countries) */ "))
    large = plan_of(views, text.format("/*+ MERGE(countries) */ "))
    kinds = [{node.kind for node in plan.graph.nodes} for plan in (small, large)]
    assert kinds[0] != kinds[1]
    assert find_changes(small, large) == ()
