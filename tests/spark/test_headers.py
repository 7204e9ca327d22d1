"""Record headers where Spark reads: its source for Kafka, its readers of tables, SQL."""

import pytest
from pyspark.sql import Row
from tests.headers import ODD, odd_records
from tests.raw_headers import RawRecord, produce_raw
from tests.spark.site import Site
from tests.spark.sql_jobs import run, sql_job

from ashore.proof.verify.job import verify_job
from ashore.proof.verify.sample import SampleRate
from ashore.topics.open_job import open_job


def sent(site: Site, *more: RawRecord) -> str:
    """Return a topic with all odd records, and some more."""
    topic = site.topic()
    produce_raw(site.servers, topic, [*odd_records(list(ODD)), *more])
    return topic


def headers_of(rows: list[Row], column: str = "kafka_headers") -> dict[int, object]:
    """Return the headers of rows by their ids."""
    return {
        row.id: None
        if row[column] is None
        else [{"key": each.key, "value": each.value} for each in row[column]]
        for row in rows
    }


EXPECTED = {number: odd.read for number, odd in enumerate(ODD.values())}


def test_spark_and_our_own_reader_land_the_same_headers(site: Site) -> None:
    """What Spark reads from the files of either is what was sent."""
    bad = RawRecord(b"no JSON", ODD["the same key twice"].sent)
    tables = [
        {"topic": sent(site, bad), "table": "ods.own", "format": "parquet"},
        {"topic": sent(site, bad), "table": "ods.spark", "format": "orc", "where": "id >= 0"},
    ]
    common = {"schema": "id BIGINT", "partition_by": [], "provenance": "headers"}
    job_file = site.job_file(*[{**common, **each} for each in tables])

    site.writer(job_file).drain()

    for name, file_format in (("own", "parquet"), ("spark", "orc")):
        reader = site.spark.read.format(file_format)
        rows = reader.load(str(site.path_of(f"ods.{name}")))
        assert dict(rows.dtypes)["kafka_headers"] == "array<struct<key:string,value:binary>>"
        assert headers_of(rows.collect()) == EXPECTED
        (dead,) = reader.load(str(site.path_of(f"ods.{name}__dead"))).collect()
        wanted = ODD["the same key twice"].read
        assert [{"key": each.key, "value": each.value} for each in dead.headers] == wanted
    site.prove(job_file)


def test_sql_sees_headers_where_the_topic_has_them(site: Site) -> None:
    topic = sent(site)
    events = {"topic": topic, "table": "ods.events", "schema": "id BIGINT", "land": False}
    source = {**events, "on_invalid": "drop", "provenance": "headers"}
    sql = "INSERT INTO ods.copies SELECT id, kafka_headers AS headers FROM events"
    job_file = sql_job(site, sql, source, {"table": "ods.copies"})

    run(site, job_file)

    assert headers_of(site.read("ods.copies").collect(), "headers") == EXPECTED


HEADERS = ODD["the same key twice"]
FAR_MS = 32_503_680_000_000  # the year 3000


@pytest.mark.long  # every day through a metastore: tests/spark/test_hive_lake.py
@pytest.mark.parametrize("provenance", ["headers", True])
def test_dead_letters_of_sql_have_headers_where_a_topic_asks_for_them(
    site: Site, provenance: object
) -> None:
    """Of the other topic that the query reads too: a dead letter has all of its record."""
    topics = {"asks": site.topic(), "asks_not": site.topic()}
    for topic in topics.values():
        values = [b'{"id": "1"}', b'{"id": "x"}', b'{"id": "3", "ts": %d}' % FAR_MS]
        produce_raw(site.servers, topic, [RawRecord(value, HEADERS.sent) for value in values])
    tables = [
        {
            "topic": topic,
            "table": f"ods.{name}",
            "schema": "id STRING, ts BIGINT",
            "event_time": {"column": "ts"},
            "provenance": provenance if name == "asks" else True,
            "land": False,
            "on_invalid": "drop",
        }
        for name, topic in topics.items()
    ]
    both = "SELECT id FROM asks UNION ALL SELECT id FROM asks_not"
    sql = f"INSERT INTO ods.out SELECT CAST(id AS INT) AS id FROM ({both})"
    job_file = sql_job(site, sql, *tables, {"table": "ods.out", "on_error": "dead_letter"})

    run(site, job_file)

    dead = site.read("ods.out__dead").collect()
    assert len(dead) == 4
    if provenance == "headers":
        found = [[{"key": each.key, "value": each.value} for each in row.headers] for row in dead]
        assert found == [HEADERS.read] * 4
    else:
        assert "headers" not in dead[0]
    with open_job(job_file) as opened:
        values = verify_job(opened, sample=SampleRate(1, 7)).values
    assert values is not None
    assert (values.compared, values.different) == (4, 0)
    site.prove(job_file)
