"""Rows that SQL cannot compute: told in a sentence, never retried; or NULL."""

import pytest
from pyspark.sql import SparkSession
from tests.spark.site import At, Site
from tests.spark.sql_jobs import START_MS, clicks, encode, read_only, run, sql_job

from ashore.errors import QueryRefused, QueryStopped, RowNotComputed
from ashore.log.names import SliceName
from ashore.log.store.reader import read_log
from ashore.queries.spark.sql.row_errors import ROW_ERRORS
from ashore.queries.spark.sql.validate import describe_queries

SQL = """
    INSERT INTO ods.numbers
        SELECT id, CAST(country AS INT) AS number, 12 div id AS part FROM clicks;
    INSERT INTO ods.all SELECT id FROM clicks;
"""
BAD = [(4, "x", START_MS), (0, "3", START_MS)]
GOOD = [(3, "7", START_MS)]


@pytest.mark.parametrize("name", ROW_ERRORS)
def test_spark_calls_it_a_data_exception(spark: SparkSession, name: str) -> None:
    helper = spark._jvm.org.apache.spark.SparkThrowableHelper
    state = helper.getSqlState(name.partition(".")[0])
    others = {"DUPLICATED_MAP_KEY": "23505", "USER_RAISED_EXCEPTION": "P0001"}
    assert state[:2] == "22" or others.get(name) == state


def test_a_row_that_cannot_be_computed_stops_its_query_alone(site: Site) -> None:
    topic = site.topic(1)
    tables = [read_only(topic), {"table": "ods.numbers"}, {"table": "ods.all"}]
    job_file = sql_job(site, SQL, *tables)
    site.produce(topic, encode([*GOOD, *BAD]))
    reported = At("never", lambda: None)
    with pytest.raises(QueryStopped) as stopped:
        run(site, job_file, reported)
    (one,) = stopped.value.fields["stopped"]
    assert one["code"] == RowNotComputed.code
    assert one["condition"] in {"CAST_INVALID_INPUT", "DIVIDE_BY_ZERO"}
    assert "compute a row in `" in one["message"]
    assert one["message"].startswith(f"{job_file}:")
    assert one["message"].isprintable()
    assert [each.startswith("stopped:") for each in reported.warnings] == [
        True
    ]  # it is not run again
    assert site.read("ods.all").count() == 3
    log = read_log(site.storage, SliceName("landing", "ods__numbers"))
    assert log.query is None  # nothing of the batch has landed

    tables[1]["on_error"] = None  # as YAML reads `on_error: null`
    run(site, sql_job(site, SQL, *tables))
    rows = sorted(tuple(row) for row in site.read("ods.numbers").collect())
    assert rows == [(0, 3, None), (3, 7, 4), (4, None, 3)]
    site.prove(job_file)


def test_state_goes_on_where_errors_become_null(site: Site) -> None:
    topic = site.topic(1)
    sql = """
        INSERT INTO ods.sums SELECT window.start AS minute, sum(CAST(country AS INT)) AS total
        FROM clicks GROUP BY window(event_time, '1 minute');
    """
    sink: dict[str, object] = {"table": "ods.sums"}
    site.produce(topic, encode([(1, "5", START_MS), (2, "6", START_MS + 1)]))
    run(site, sql_job(site, sql, read_only(topic), sink))
    site.produce(topic, encode([(3, "x", START_MS + 2)]))
    with pytest.raises(RowNotComputed, match="CAST_INVALID_INPUT"):
        run(site, sql_job(site, sql, read_only(topic), sink))
    # What the state means is the same, with either.
    run(site, sql_job(site, sql.replace("CAST", "try_cast"), read_only(topic), sink))
    site.produce(topic, encode([(4, "y", START_MS + 3), (5, "7", START_MS + 4), *clicks(120, 1)]))
    nulls = sql_job(site, sql, read_only(topic), {**sink, "on_error": "null"})
    run(site, nulls)
    assert [row.total for row in site.read("ods.sums").collect()] == [18]
    site.prove(nulls)


def test_validate_and_a_start_name_all_that_is_refused(site: Site) -> None:
    """A view that several INSERTs read is one problem."""
    sql = """
        CREATE TEMPORARY VIEW wrong AS SELECT nope FROM clicks;
        INSERT INTO ods.big SELECT id FROM wrong;
        INSERT INTO ods.odd SELECT id FROM wrong;
    """
    topic = site.topic(1)
    tables = (read_only(topic), {"table": "ods.big"}, {"table": "ods.odd"})
    with pytest.raises(QueryRefused, match="nope") as refused:
        run(site, sql_job(site, sql, *tables))
    assert "refusals" not in refused.value.fields

    sql = "INSERT INTO ods.big SELECT nope FROM clicks;\nINSERT INTO ods.odd SELECT 1 AS id;"
    job_file = sql_job(site, sql, *tables)
    for act in (
        lambda: describe_queries(site.writer(job_file).job),
        lambda: run(site, job_file),
    ):
        with pytest.raises(QueryRefused, match="the SQL has 2 problems") as refused:
            act()
        words = [each["message"] for each in refused.value.fields["refusals"]]
        assert "nope" in words[0]
        assert "reads no topic" in words[1]
    assert list(site.lake.iterdir()) == []
