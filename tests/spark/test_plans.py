"""What two queries do is the same, or told apart: whatever Spark itself would make of a change."""

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T  # noqa: N812 - Spark's own convention
from tests.spark.streams import make_views

from ashore.plans.graph import PlanNode
from ashore.plans.terms import Term
from ashore.plans.types import type_name
from ashore.spark.internals import read_plan

HOUR = "INTERVAL 1 HOUR"
BOUND = f"a.id = b.id AND b.seen BETWEEN a.ts AND a.ts + {HOUR}"
RENAMED = "(SELECT id AS i, page AS p, seen AS s FROM views)"
SUM = "SELECT country, window(ts, '1 minute') AS w, sum(amount) AS s FROM clicks GROUP BY 1, 2"


@pytest.fixture(scope="module")
def views(spark: SparkSession) -> SparkSession:
    make_views(spark)
    return spark


def done_by(frame: DataFrame) -> tuple[tuple[PlanNode, ...], tuple[Term, ...]]:
    """Return what a query does, but for what it calls the columns that it hands on."""
    graph = read_plan(frame)
    return graph.nodes, graph.terms


UNION = "SELECT id, country AS c FROM clicks UNION ALL SELECT id, page FROM views"
BOTH = f"SELECT c, count(*) AS n FROM ({UNION}) GROUP BY c"

SAME = [
    (UNION, UNION.replace("AS c", "AS land")),
    (BOTH, f"SELECT l, count(*) FROM ({UNION.replace('AS c', 'AS l')}) GROUP BY l"),
    (SUM, SUM.replace("AS w", "AS minute").replace("AS s", "AS total")),
    (SUM, SUM.replace("FROM clicks", "FROM (SELECT amount AS amount, country, ts FROM clicks) x")),
    (SUM, f"WITH sums AS ({SUM}) SELECT country AS land, w, s FROM sums"),
    (SUM, SUM.replace("GROUP BY 1, 2", "GROUP BY country, window(ts, '60 seconds')")),
    ("SELECT id, upper(country) AS u FROM clicks", "SELECT id AS n, upper(country) FROM clicks"),
    (
        f"SELECT a.id, b.page FROM clicks a JOIN views b ON {BOUND}",
        f"SELECT x.id, p FROM clicks x JOIN {RENAMED} ON id = i AND s BETWEEN ts AND ts + {HOUR}",
    ),
    (
        "SELECT filter(split(country, ','), each -> each > 'a') AS f FROM clicks",
        "SELECT filter(split(country, ','), x -> x > 'a') AS g FROM clicks",
    ),
]


@pytest.mark.parametrize(("one", "other"), SAME, ids=range(len(SAME)))
def test_names_and_the_order_of_columns_play_no_part(
    views: SparkSession, one: str, other: str
) -> None:
    assert done_by(views.sql(one)) == done_by(views.sql(other))


# Spark compares the types of a state alone, so that it takes most of these for the same query.
APART = [
    (SUM, SUM.replace("sum(amount)", "max(amount)")),
    (SUM, SUM.replace("sum(amount)", "sum(amount * 2)")),
    (SUM, SUM.replace("sum(amount)", "sum(DISTINCT amount)")),
    (SUM, SUM.replace("sum(amount)", "sum(amount) FILTER (WHERE id > 3)")),
    (SUM, SUM.replace("1 minute", "5 minutes")),
    (SUM, SUM.replace("'1 minute'", "'1 minute', '30 seconds'")),
    (SUM, SUM.replace("'1 minute'", "'1 minute', '1 minute', '10 seconds'")),
    (SUM, SUM.replace("SELECT country", "SELECT lower(country)")),
    (SUM, SUM.replace("GROUP BY", "WHERE id > 3 GROUP BY")),
    (
        SUM.replace("GROUP BY", "WHERE id > 3 GROUP BY"),
        SUM.replace("GROUP BY", "WHERE id > 4 GROUP BY"),
    ),
    (SUM, SUM.replace("sum(amount)", "sum(CAST(amount AS INT))")),
    (
        "SELECT id, count(id), ts FROM clicks GROUP BY id, ts",
        "SELECT id, count(amount), ts FROM clicks GROUP BY id, ts",
    ),
    (
        "SELECT a.id FROM clicks a JOIN clicks b ON a.id = b.id",
        "SELECT a.id FROM clicks a JOIN clicks b ON a.country = b.country",
    ),
    (
        f"SELECT a.id FROM clicks a JOIN views b ON {BOUND}",
        f"SELECT a.id FROM clicks a JOIN views b ON {BOUND.replace('1 HOUR', '2 HOURS')}",
    ),
    (
        f"SELECT a.id FROM clicks a JOIN views b ON {BOUND}",
        f"SELECT a.id FROM clicks a LEFT JOIN views b ON {BOUND}",
    ),
    (UNION, UNION.replace("page", "upper(page)")),
    (UNION, UNION.replace("SELECT id, page", "SELECT id + 1, page")),
    (UNION, UNION.replace("country", "upper(country)")),
    (BOTH, BOTH.replace("page", "upper(page)")),
    (BOTH, BOTH.replace("country", "upper(country)")),
    (
        "SELECT country, id, count(*) FROM clicks GROUP BY ROLLUP (country, id)",
        "SELECT country, id, count(*) FROM clicks GROUP BY CUBE (country, id)",
    ),
    (
        "SELECT posexplode(split(country, ',')) AS (i, part) FROM clicks",
        "SELECT posexplode_outer(split(country, ',')) AS (i, part) FROM clicks",
    ),
]


@pytest.mark.parametrize(("one", "other"), APART, ids=range(len(APART)))
def test_what_is_computed_tells_queries_apart(views: SparkSession, one: str, other: str) -> None:
    assert done_by(views.sql(one)) != done_by(views.sql(other))


def test_what_duplicates_are_dropped_by_tells_queries_apart(views: SparkSession) -> None:
    clicks = views.table("clicks")
    assert done_by(clicks.dropDuplicates(["id"])) != done_by(clicks.dropDuplicates(["amount"]))


TYPES = [
    *(T.ByteType(), T.ShortType(), T.IntegerType(), T.LongType(), T.FloatType(), T.DoubleType()),
    *(T.StringType(), T.BinaryType(), T.BooleanType(), T.DateType(), T.TimestampType()),
    *(T.TimestampNTZType(), T.DecimalType(9, 2), T.NullType(), T.VariantType()),
    *(T.DayTimeIntervalType(), T.DayTimeIntervalType(1, 2), T.YearMonthIntervalType()),
    *(T.CharType(3), T.VarcharType(4), T.CalendarIntervalType()),
    T.ArrayType(T.LongType()),
    T.MapType(T.StringType(), T.ArrayType(T.ShortType())),
    T.StructType().add("a", T.ByteType()).add("b c", T.StructType().add("d", T.LongType())),
]


@pytest.mark.parametrize("of", TYPES, ids=str)
def test_types_are_called_as_spark_calls_them(of: T.DataType) -> None:
    assert type_name(of.jsonValue()) == of.simpleString()
