"""What of a query is computed row by row: which records fail there, and which only above."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from ashore.queries.spark.internals.row_parts import read_row_parts
from ashore.queries.spark.sql.row_errors import find_row_error

DDL = "id BIGINT, country STRING, event_time TIMESTAMP"
GOOD = (1, "5", datetime(2026, 11, 21, tzinfo=UTC))
BAD = (2, "x", datetime(2026, 11, 21, tzinfo=UTC))


@pytest.fixture
def views(spark: SparkSession) -> Iterator[SparkSession]:
    yield spark
    for name in ("clicks", "orders", "codes"):
        spark.catalog.dropTempView(name)


def view(spark: SparkSession, name: str, *rows: tuple[object, ...]) -> None:
    """A part of a topic, as queries read it: counted, and not known to be empty."""
    frame = spark.createDataFrame(spark.sparkContext.parallelize(rows, 1), DDL)
    counted = frame.observe(f"undecodable:{name}", F.count(F.lit(1)).alias("records"))
    counted.withWatermark("event_time", "10 seconds").createOrReplaceTempView(name)


def fails(spark: SparkSession, sql: str) -> bool:
    parts = read_row_parts(spark.sql(sql))
    assert parts
    try:
        for part in parts:
            part.write.format("noop").mode("overwrite").save()
    except (PySparkException, Py4JError) as error:
        if find_row_error(str(error)) is None:
            raise
        return True
    return False


WINDOW = "GROUP BY window(event_time, '1 minute')"
MATCH = "b.event_time BETWEEN a.event_time AND a.event_time + INTERVAL 1 MINUTE"
BELOW = {
    "an argument": f"SELECT sum(CAST(country AS INT)) FROM clicks {WINDOW}",
    "one in an expression": f"SELECT 1 + max(CAST(country AS INT)) FROM clicks {WINDOW}",
    "a filter": f"SELECT count(*) FROM clicks WHERE CAST(country AS INT) > 0 {WINDOW}",
    "a key": f"SELECT count(*) FROM clicks {WINDOW}, CAST(country AS INT)",
    "what is distinct": "SELECT DISTINCT CAST(country AS INT), event_time FROM clicks",
    "an argument of rows that are wanted": (
        f"SELECT sum(CAST(country AS INT)) FILTER (WHERE id > 1) FROM clicks {WINDOW}"
    ),
    "a key of a join": (
        f"SELECT a.id FROM clicks a JOIN orders b ON CAST(a.country AS INT) = b.id AND {MATCH}"
    ),
    "a column that a join hands on": (
        "SELECT n FROM (SELECT CAST(country AS INT) AS n, id, event_time FROM clicks) a "
        f"JOIN orders b ON a.id = b.id AND {MATCH}"
    ),
    "below a join below an aggregate": (
        "SELECT count(*) FROM (SELECT a.event_time FROM clicks a JOIN orders b "
        f"ON CAST(a.country AS INT) = b.id AND {MATCH}) {WINDOW}"
    ),
    "a part without state": (
        "SELECT CAST(country AS INT) FROM clicks UNION ALL "
        f"SELECT CAST(count(*) AS INT) FROM orders {WINDOW}"
    ),
}
NOT_BELOW = {
    "a function of the result": f"SELECT CAST(max(country) AS INT) FROM clicks {WINDOW}",
    "a division by a count": f"SELECT sum(id) div (count(*) - 1) FROM clicks {WINDOW}",
    "an argument of rows that are not wanted": (
        f"SELECT sum(CAST(country AS INT)) FILTER (WHERE id < 2) FROM clicks {WINDOW}"
    ),
    "what no output needs": (
        "SELECT count(*) FROM (SELECT CAST(country AS INT) AS n, event_time FROM clicks) " + WINDOW
    ),
}


@pytest.mark.parametrize("sql", BELOW.values(), ids=BELOW)
def test_what_is_below_state_fails_with_its_record(views: SparkSession, sql: str) -> None:
    view(views, "orders")
    view(views, "clicks", GOOD, BAD)
    assert fails(views, sql)
    view(views, "clicks", GOOD)
    assert not fails(views, sql)


@pytest.mark.parametrize("sql", NOT_BELOW.values(), ids=NOT_BELOW)
def test_what_is_above_state_fails_with_no_record(views: SparkSession, sql: str) -> None:
    for record in (GOOD, BAD):
        view(views, "clicks", record)
        assert not fails(views, sql)


def test_a_join_with_a_table_is_row_by_row(views: SparkSession) -> None:
    views.sql("SELECT 5L AS code, 'five' AS name").createOrReplaceTempView("codes")
    sql = (
        "SELECT count(*), max(name) FROM clicks JOIN codes ON CAST(country AS BIGINT) = code "
        + WINDOW
    )
    view(views, "clicks", GOOD, BAD)
    assert fails(views, sql)
    view(views, "clicks", GOOD)
    assert not fails(views, sql)
