"""What becomes of a state when the SQL changes: the verdict on each operator and each column.

Each pair is planned by one session and compared as values.
"""

from dataclasses import dataclass

import pytest
from pyspark.sql import SparkSession
from tests.spark.streams import make_views
from tests.spark.test_plan_changes import EIGHT, JOINED, MORE, SUMS, plan_of

from ashore.plans.change.judge import judge_query
from ashore.plans.change.verdicts import QueryVerdict, StateVerdict, worst_verdict
from ashore.plans.graph import ViewRule

FULL, CONVERT, PARTIAL = StateVerdict.FULL, StateVerdict.CONVERT, StateVerdict.PARTIAL
LOST, REFUSED = StateVerdict.LOST, StateVerdict.REFUSED

PLAIN = "SELECT {} FROM plain GROUP BY {}"
TOTALS = PLAIN.format("country, id, sum(amount) AS s, count(*) AS n", "country, id")
JOIN = JOINED + "a.id = b.id"
DEDUPLICATED = "SELECT * FROM (SELECT DISTINCT {} FROM plain)"
ONE_SUM = SUMS.replace(", min(id) AS lo, max(id) AS hi", "")


@dataclass(frozen=True, slots=True)
class Case:
    """A change, the verdict, and some of its columns: a part of the name, and the verdict."""

    old: str
    new: str
    verdict: StateVerdict
    columns: tuple[tuple[str, StateVerdict], ...] = ()
    why: str = ""


CASES = {
    "the same": Case(SUMS, SUMS, FULL, (("sum(", FULL), ("min(", FULL))),
    "names": Case(SUMS, SUMS.replace("AS s", "AS total"), FULL),
    "a condition on results": Case(SUMS, f"{SUMS} HAVING sum(amount) > 3", FULL),
    "a filter below": Case(
        SUMS, SUMS.replace("GROUP BY", "WHERE id > 3 GROUP BY"), FULL, why="replay"
    ),
    "a filter on a key": Case(
        SUMS, f"{SUMS} HAVING country = 'DE'", PARTIAL, why="would still come out"
    ),
    "a filter on a key that goes": Case(f"{SUMS} HAVING country = 'DE'", SUMS, FULL, why="replay"),
    "a filter of rows that wait": Case(
        JOIN, f"{JOIN} AND a.country = 'DE'", PARTIAL, why="would still come out"
    ),
    "a filter, and another function": Case(
        SUMS,
        SUMS.replace("GROUP BY", "WHERE id > 3 GROUP BY").replace("min(id)", "min(amount)"),
        LOST,
    ),
    "a function more": Case(
        SUMS,
        SUMS.replace("min(id)", "avg(amount) AS mean, min(id)"),
        PARTIAL,
        (("avg(", PARTIAL), ("sum(", CONVERT), ("min(", CONVERT)),
        why="starts at NULL",
    ),
    "a count more": Case(
        SUMS, SUMS.replace("min(id)", "count(*) AS n, min(id)"), PARTIAL, why="starts at 0"
    ),
    "a set more": Case(
        SUMS,
        SUMS.replace("min(id)", "collect_set(id) AS ids, min(id)"),
        PARTIAL,
        (("collect_set(", PARTIAL),),
        why="starts at an empty array",
    ),
    "a function less": Case(
        SUMS, SUMS.replace("min(id) AS lo, ", ""), LOST, (("min(", LOST), ("max(", CONVERT))
    ),
    "functions in another order": Case(
        SUMS,
        SUMS.replace("min(id) AS lo, max(id) AS hi", "max(id) AS hi, min(id) AS lo"),
        CONVERT,
        (("min(", CONVERT), ("max(", CONVERT)),
    ),
    "sum to max": Case(
        SUMS,
        SUMS.replace("sum(amount)", "max(amount)"),
        LOST,
        (("max(clicks.amount)", PARTIAL), ("sum(", LOST), ("min(", CONVERT)),
    ),
    "sum of another column": Case(
        SUMS,
        SUMS.replace("sum(amount)", "sum(amount * 2)"),
        LOST,
        (("* 2", PARTIAL), ("sum(clicks.amount)", LOST)),
    ),
    "another key": Case(SUMS, SUMS.replace("country", "upper(country)"), REFUSED),
    "a finer key": Case(
        PLAIN.format("country, count(*) AS n", "country"),
        PLAIN.format("country, id, count(*) AS n", "country, id"),
        REFUSED,
        why="cannot be computed",
    ),
    "a coarser key": Case(
        TOTALS,
        PLAIN.format("country, sum(amount) AS s, count(*) AS n", "country"),
        CONVERT,
        (("sum(", CONVERT), ("key", CONVERT)),
        why="merged",
    ),
    "a key that is a narrower integer": Case(
        PLAIN.format("id, sum(amount) AS s", "id"),
        PLAIN.format("CAST(id AS INT) AS id, sum(amount) AS s", "CAST(id AS INT)"),
        REFUSED,
        why="cannot be computed",
    ),
    "keys in another order": Case(
        TOTALS,
        PLAIN.format("id, country, sum(amount) AS s, count(*) AS n", "id, country"),
        CONVERT,
        why="another order",
    ),
    "a coarser key, and what cannot be merged": Case(
        PLAIN.format("country, id, first(amount) AS f", "country, id"),
        PLAIN.format("country, first(amount) AS f", "country"),
        REFUSED,
        (("first(", REFUSED),),
    ),
    "a coarser key, and what Spark merges": Case(
        PLAIN.format("country, id, corr(id, amount) AS c", "country, id"),
        PLAIN.format("country, corr(id, amount) AS c", "country"),
        CONVERT,
        (("corr(", CONVERT),),
    ),
    "a window of several": Case(
        SUMS, SUMS.replace("'1 hour'", "'3 hours'"), PARTIAL, why="the watermark has passed"
    ),
    "a window that is none of several": Case(
        SUMS, SUMS.replace("'1 hour'", "'90 minutes'"), REFUSED
    ),
    "a coarser key in the same windows": Case(
        SUMS, SUMS.replace("country, ", ""), CONVERT, why="merged"
    ),
    "a window that begins elsewhere": Case(
        SUMS, SUMS.replace("'1 hour'", "'2 hours', '2 hours', '30 minutes'"), REFUSED
    ),
    "a left join": Case(JOIN, JOIN.replace(" JOIN", " LEFT JOIN"), REFUSED, why="left outer"),
    "a bound of a join": Case(JOIN, JOIN.replace("1 HOUR", "2 HOURS"), REFUSED),
    "a column more on one side": Case(
        JOIN,
        JOIN.replace("SELECT ", "SELECT a.amount, "),
        PARTIAL,
        (("left.clicks.amount", PARTIAL), ("left.clicks.id", CONVERT), ("right.views.id", FULL)),
    ),
    "a column less on one side": Case(
        JOIN.replace("SELECT ", "SELECT a.amount, "), JOIN, LOST, (("left.clicks.amount", LOST),)
    ),
    "fewer keys of a deduplication": Case(
        DEDUPLICATED.format("id, country"), DEDUPLICATED.format("id"), CONVERT
    ),
    "more keys of a deduplication": Case(
        DEDUPLICATED.format("id"), DEDUPLICATED.format("id, country"), REFUSED
    ),
    "state that was not there": Case("SELECT country, id FROM plain", TOTALS, PARTIAL, why="empty"),
    "no state any more": Case(TOTALS, "SELECT country, id FROM plain", LOST, why="dropped"),
    "an operator above": Case(
        SUMS.replace("clicks", "(SELECT DISTINCT id, country, ts, amount FROM clicks)"),
        SUMS,
        LOST,
        (("sum(", FULL),),
        why="rows are no longer deduplicated below it",
    ),
    "an operator more above": Case(
        ONE_SUM,
        f"SELECT DISTINCT w, s FROM ({ONE_SUM})",
        PARTIAL,
        (("sum(", FULL),),
        why="is operator 1, was operator 0",
    ),
    "one stream more": Case(
        "SELECT DISTINCT id FROM plain",
        "SELECT DISTINCT id FROM (SELECT id FROM plain UNION ALL SELECT id FROM other)",
        PARTIAL,
        why="a union below it has more inputs",
    ),
}


@pytest.fixture(scope="module")
def views(spark: SparkSession) -> SparkSession:
    make_views(spark)
    return spark


def judge(spark: SparkSession, old: str, new: str) -> QueryVerdict:
    return judge_query(plan_of(spark, old), plan_of(spark, new))


def tell(found: QueryVerdict) -> str:
    columns = [column for each in found.operators for column in each.columns]
    whys = [*found.why, *(why for each in found.operators for why in each.why)]
    return "\n".join([*whys, *(f"{each.name}: {each.verdict} {each.why}" for each in columns)])


@pytest.mark.thirds
@pytest.mark.parametrize("name", CASES)
def test_a_change_has_its_verdict(views: SparkSession, name: str) -> None:
    case = CASES[name]
    found = judge(views, case.old, case.new)
    assert found.verdict is case.verdict, tell(found)
    columns = [column for each in found.operators for column in each.columns]
    for part, verdict in case.columns:
        assert verdict in {each.verdict for each in columns if part in each.name}, tell(found)
    assert case.why in tell(found)
    for operator in found.operators:
        parts = [each.verdict for each in operator.columns]
        assert operator.verdict.rank >= worst_verdict(parts).rank


@pytest.mark.thirds
@pytest.mark.parametrize("name", [*EIGHT, *MORE])
def test_full_is_never_said_where_the_meaning_has_changed(views: SparkSession, name: str) -> None:
    old, new = (EIGHT if name in EIGHT else MORE)[name][:2]
    found = judge(views, old, new)
    differs = any(each.differs_from_replay for each in found.operators)
    has_no_state = not found.operators and not found.why
    assert found.verdict is not FULL or differs or has_no_state, tell(found)


def test_how_a_topic_is_read_may_change_where_no_row_is_remembered(views: SparkSession) -> None:
    plain, other = "SELECT country, id FROM plain", "SELECT country, id + 1 AS id FROM plain"
    rules = ViewRule(("plain",), "json", (), ""), ViewRule(("plain",), "json", (), "id > 3")
    was, now = (
        plan_of(views, text, rule) for text, rule in zip((plain, other), rules, strict=True)
    )
    assert judge_query(was, now).verdict is FULL
    was, now = (plan_of(views, TOTALS, rule) for rule in rules)
    assert judge_query(was, now).verdict is REFUSED
