"""Record headers where Spark reads: its source for Kafka, its readers of tables, SQL."""

from pyspark.sql import Row
from tests.headers import ODD, odd_records
from tests.raw_headers import RawRecord, produce_raw
from tests.spark.site import Site
from tests.spark.sql_jobs import run, sql_job


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
