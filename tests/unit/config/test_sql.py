"""Tables that SQL feeds, topics that only SQL reads, and the section `sql`."""

import pytest
from tests.unit.config.texts import changed, job, only, problems

from ashore.config import select_sources, select_topics
from ashore.config.sql_checks import fed_partitions, insert_name, view_name
from ashore.config.tables import Table

SQL_JOB = """\
job: clicks
lake: file:///data/lake
source: {kafka: {bootstrap_servers: "127.0.0.1:9092"}}
tables:
  - topic: clicks
    table: ods.clicks
    schema: "id BIGINT, ts BIGINT"
  - topic: users
    table: ods.users
    land: false
    on_invalid: drop
    schema: "id BIGINT"
  - table: ods.big
sql: "INSERT INTO ods.big SELECT * FROM clicks;"
"""


def test_a_job_with_sql_loads() -> None:
    loaded = job(SQL_JOB)
    assert loaded.sql is not None
    assert (loaded.sql.text or "").startswith("INSERT")
    assert [item.is_landed for item in loaded.tables] == [True, False, False]
    assert select_topics(loaded, ["clicks", "users"]) == ("clicks",)
    assert select_sources(loaded, []) == ("clicks", "users")


@pytest.mark.parametrize("written", ["{file: clicks.sql}", "{text: SELECT 1}"])
def test_sql_is_text_or_a_file(written: str) -> None:
    old = '"INSERT INTO ods.big SELECT * FROM clicks;"'
    assert job(changed(SQL_JOB, (old, written))).sql is not None


ERRORS = [
    pytest.param(
        ('"INSERT INTO ods.big SELECT * FROM clicks;"', "{file: a, text: b}"),
        *(14, "sql", "here or in a file", "one of them"),
    ),
    pytest.param(
        ('"INSERT INTO ods.big SELECT * FROM clicks;"', "{state_partitions: 4}"),
        *(14, "sql", "here or in a file", "one of them"),
    ),
    pytest.param(
        ("    on_invalid: drop\n", ""), 8, "tables[1].on_invalid", "land: false", "drop or"
    ),
    pytest.param(("- table: ods.big", "- table: ods.users"), 13, "tables[2].topic", "fed", "two"),
    pytest.param(
        ("- table: ods.big", "- table: ods.big\n    provenance: true"),
        *(14, "tables[2].provenance", "fed by SQL", "remove the key"),
    ),
    pytest.param(
        ("- table: ods.big", "- table: ods.big\n    partition_by: [date]"),
        *(14, "tables[2].partition_by", "date is that of an event time", "add event_time"),
    ),
    pytest.param(
        ("table: ods.users", "table: raw.clicks"),
        *(9, "tables[1].table", "would both be clicks", "another name"),
    ),
    pytest.param(
        ("- table: ods.big", f"- table: ods.{'b' * 60}"),
        *(13, "tables[2].table", "at most 49", "shorter"),
    ),
]


@pytest.mark.parametrize(("change", "line", "key", "message", "instead"), ERRORS)
def test_errors(change: tuple[str, str], line: int, key: str, message: str, instead: str) -> None:
    found = only(changed(SQL_JOB, change))
    assert found[:2] == (line, key)
    assert message in found[2]
    assert instead in found[3]


def test_without_sql_every_table_needs_a_topic_that_lands() -> None:
    found = problems(changed(SQL_JOB, ('sql: "INSERT INTO ods.big SELECT * FROM clicks;"\n', "")))
    assert [each["key"] for each in found] == ["tables[1].land", "tables[2].topic"]


def test_with_sql_some_table_must_be_fed() -> None:
    assert only(changed(SQL_JOB, ("  - table: ods.big\n", "")))[1] == "sql"


def test_names_and_partitions_of_fed_tables() -> None:
    assert (view_name("ods.clicks"), insert_name("ods.big")) == ("clicks", "ods__big")
    assert fed_partitions(Table(table="ods.big")) == ()
    timed = Table.model_validate({"table": "ods.big", "event_time": {"column": "ts"}})
    assert fed_partitions(timed) == ("date", "hour")
