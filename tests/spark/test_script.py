"""Statements that are none of a job's, in words of who wrote them."""

import pytest
from pyspark.sql import SparkSession
from tests.spark.streams import make_views

from ashore.errors import QueryRefused
from ashore.spark.internals import check_streaming
from ashore.spark.sql.script import parse_script

SPREAD = "SELECT floor(rand() * 4) AS r, ts, count(*) FROM clicks GROUP BY floor(rand() * 4), ts"
FOREIGN = [
    ("", "no statement"),
    (" -- INSERT INTO t SELECT 1\n /* and more */ ;", "no statement"),
    ("BEGIN INSERT INTO t SELECT 1; END", "`BEGIN ... END`"),
    ("INSERT INTO t SELECT 1; BEGIN INSERT INTO t SELECT 1; END;", "`BEGIN ... END`"),
    ("IF 1 = 1 THEN SELECT 1; END IF;", "a program"),
    (
        "SELECT 1;\nCREATE TABLE t (id INT) WITH ('connector' = 'kafka');",
        "line 2, column 1: `CREATE",
    ),
    (
        "INSERT INTO t\n  SELECT TUMBLE_START(ts), 'TUMBLE (' FROM b GROUP BY TUMBLE (ts, 1)",
        "line 2, column 55: `TUMBLE`",
    ),
    ("INSERT INTO t SELECT * FROM TABLE(HOP(TABLE b, DESCRIPTOR(ts)))", "column 35: `HOP`"),
]


@pytest.mark.parametrize(("text", "words"), FOREIGN, ids=range(len(FOREIGN)))
def test_what_is_no_part_of_a_job_is_told_in_words(
    spark: SparkSession, text: str, words: str
) -> None:
    with pytest.raises(QueryRefused) as refused:
        parse_script(spark, text)
    assert words in refused.value.message
    assert refused.value.hint


def test_a_literal_may_say_what_a_statement_may_not(spark: SparkSession) -> None:
    script = parse_script(spark, "INSERT INTO t SELECT 'CREATE TABLE HOP(' AS x FROM a -- TUMBLE(")
    assert len(script.inserts) == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("SELECT * FROM clicks LIMIT 3", "`LIMIT` takes the first rows"),
        (SPREAD, "whenever a batch is run again"),
        ("SELECT DISTINCT uuid() AS u, ts FROM clicks", "whenever a batch is run again"),
    ],
)
def test_what_would_run_and_not_rightly_is_refused(
    spark: SparkSession, text: str, words: str
) -> None:
    make_views(spark)
    with pytest.raises(QueryRefused, match=words):
        check_streaming(spark.sql(text), "append")
