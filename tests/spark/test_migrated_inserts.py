"""`ashore migrate apply` where INSERTs come, go, or fill another table."""

import pytest
from tests.spark.site import Site
from tests.spark.sql_jobs import (
    MINUTE_MS,
    PER_MINUTE,
    PER_MINUTE_TABLE,
    START_MS,
    clicks,
    encode,
    per_minute,
    read_only,
    run,
    sql_job,
)
from tests.spark.test_migrate_apply import migrate

from ashore.errors import QueryRefused, QueryStopped
from ashore.log.names import SliceName
from ashore.log.store.reader import read_log

MINUTES = PER_MINUTE.replace("ods.per_minute", "ods.minutes")
MINUTES_TABLE = {**PER_MINUTE_TABLE, "table": "ods.minutes"}
COPIES = "INSERT INTO ods.copies SELECT id, event_time FROM clicks;"
COPIES_TABLE = {"table": "ods.copies"}
OLD, NEW = SliceName("landing", "ods__per_minute"), SliceName("landing", "ods__minutes")


def read_minutes(site: Site) -> dict[tuple[int, str], int]:
    rows = site.read("ods.minutes").selectExpr("unix_millis(minute)", "country", "clicks")
    return {(row[0] // MINUTE_MS, row[1]): row[2] for row in rows.collect()}


@pytest.mark.long
@pytest.mark.timeout(900)
def test_an_insert_fills_another_table_and_another_one_is_new(site: Site) -> None:
    """The first keeps its state and its offsets; the second begins where it is told to."""
    topic = site.topic(1)
    first, second = clicks(0, 100), clicks(100, 100)
    site.produce(topic, encode(first))
    old = sql_job(site, PER_MINUTE, read_only(topic), PER_MINUTE_TABLE)
    old = old.rename(site.directory / "old.yaml")
    run(site, old)
    tables = (read_only(topic), MINUTES_TABLE, COPIES_TABLE)
    new = sql_job(site, MINUTES + COPIES, *tables)
    new = new.rename(site.directory / "new.yaml")
    checked = migrate("check", old, "--to", new, code=4)
    assert [each["verdict"] for each in checked["queries"]] == ["convert", "full"]
    asked = ("apply", old, "--to", new, "--take-over", "--begin", f"{topic}/0=90")
    done = migrate(*asked)
    (applied,) = done["applied"]
    assert (applied["query"], applied["into"]) == ("ods.per_minute", "ods.minutes")
    assert [each["rewrite"] for each in applied["stores"]] == ["keep"], "no row was read"
    assert done["begun"] == [{"query": "ods.copies", "begins": {topic: {"0": 90}}}]

    with pytest.raises(QueryRefused, match="by a migration"):
        run(site, old)
    site.produce(topic, encode(second))
    run(site, new)
    upto_ms = START_MS + 199_000 - 10_000
    landed = per_minute(first, watermark_ms=START_MS + 89_000)
    all_of = per_minute([*first, *second], watermark_ms=upto_ms)
    assert read_minutes(site) == {key: all_of[key] for key in all_of if key not in landed}
    assert site.read("ods.copies").count() == 110
    assert read_log(site.storage, NEW).query.first == applied["batch"] + 1


@pytest.mark.long  # every day without Spark: tests/crash/test_migration.py
@pytest.mark.timeout(900)
def test_an_insert_is_dropped_and_an_undo_brings_it_back(site: Site) -> None:
    topic = site.topic(1)
    first, second = clicks(0, 100), clicks(100, 100)
    site.produce(topic, encode(first))
    tables = (read_only(topic), PER_MINUTE_TABLE, COPIES_TABLE)
    old = sql_job(site, PER_MINUTE + COPIES, *tables)
    old = old.rename(site.directory / "old.yaml")
    run(site, old)
    new = sql_job(site, COPIES, read_only(topic), COPIES_TABLE)
    new = new.rename(site.directory / "new.yaml")
    asked = ("apply", old, "--to", new, "--take-over")
    assert migrate(*asked, code=4)["error"]["code"] == "state-not-accepted"
    done = migrate(*asked, "--accept", "lost")
    assert [each["query"] for each in done["savepoints"]] == ["ods.per_minute"]
    assert migrate(*asked, "--accept", "lost")["done"] is False, "it was done before"
    again = migrate("check", new, "--to", old, code=4)
    assert [each["verdict"] for each in again["queries"]] == ["full", "partial"]
    with pytest.raises(QueryStopped, match="by a migration"):
        run(site, old)
    site.produce(topic, encode(second))
    run(site, new)
    assert migrate("undo", old, "--query", "ods.per_minute", "--take-over")["done"]
    run(site, old)
    rows = site.read("ods.per_minute").selectExpr("unix_millis(minute)", "country", "clicks")
    found = {(row[0] // MINUTE_MS, row[1]): row[2] for row in rows.collect()}
    assert found == per_minute([*first, *second], watermark_ms=START_MS + 189_000)
    assert site.read("ods.copies").count() == 200
