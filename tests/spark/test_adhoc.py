"""A query that is tried: its rows are those of the records that were asked for."""

import json
from pathlib import Path

import pytest
from tests.spark.site import Site
from tests.spark.sql_jobs import (
    PER_MINUTE,
    PER_MINUTE_TABLE,
    START_MS,
    clicks,
    encode,
    read_only,
    sql_job,
)

from ashore.base.units import format_time
from ashore.cli.sql import show_answer
from ashore.errors import AshoreError, QueryRefused, RowNotComputed
from ashore.jobs.events import Answered, Event, Note, Reading
from ashore.jobs.launch import JobLaunch, LaunchOptions
from ashore.jobs.requests import OffsetsOfTopic, SqlRequest, write_request
from ashore.queries.spark.sql.adhoc import answer_query

VIEW = "CREATE TEMPORARY VIEW german AS\n  SELECT * FROM clicks WHERE country = 'DE';\n"


def ask(
    site: Site, job_file: Path, sql: str, **request: object
) -> tuple[list[dict[str, object]], list[Event], Answered]:
    told: list[Event] = []
    asked = SqlRequest(**{"sql": sql, "last": 1000, "offsets": (), "limit": 100, **request})  # type: ignore[arg-type]
    answer = answer_query(site.writer(job_file).job, asked, told.append)
    return [json.loads(row) for row in answer.rows], told, answer


def job_of(site: Site, topic: str) -> Path:
    return sql_job(site, VIEW + PER_MINUTE, read_only(topic), PER_MINUTE_TABLE)


def test_windows_are_counted_over_the_records_that_were_asked_for(site: Site) -> None:
    topic = site.topic(2)
    job_file = job_of(site, topic)
    records = encode(clicks(0, 120))
    site.produce(topic, [*records[::2], b"no JSON"], 0)
    site.produce(topic, records[1::2], 1)
    sql = (
        "SELECT window.start AS minute, count(*) AS clicks FROM clicks "
        "GROUP BY window(event_time, '1 minute') ORDER BY minute"
    )
    rows, told, _ = ask(site, job_file, sql)
    assert [row["clicks"] for row in rows] == [60, 60]
    assert str(rows[0]["minute"])[:16] == format_time(START_MS)[:16]
    assert Reading((topic,), 121) in told
    assert any(
        isinstance(each, Note)
        and each.slice == "clicks"
        and each.message.startswith("clicks: 1 record cannot")
        for each in told
    )

    rows, told, _ = ask(site, job_file, "SELECT id FROM clicks ORDER BY id", last=4)
    assert [row["id"] for row in rows] == [117, 118, 119]  # and the one that is no JSON
    offsets = (OffsetsOfTopic(topic, 1, 10, 13),)
    rows, *_ = ask(site, job_file, "SELECT id FROM clicks ORDER BY id", offsets=offsets)
    assert [row["id"] for row in rows] == [21, 23, 25]

    rows, _, answer = ask(site, job_file, "SELECT * FROM german ORDER BY id", limit=5)
    assert [row["id"] for row in rows] == [1, 2, 4, 5, 7]
    assert answer.has_more
    assert answer.columns[:3] == ("id", "country", "ts")
    assert not (site.lake / ".ashore").exists()  # nothing was written


@pytest.mark.parametrize(
    ("sql", "error", "words"),
    [
        ("SELECT\n  coutry FROM clicks", QueryRefused, "query:2:3: "),
        ("SELECT id FROM clicks WHERE )", QueryRefused, "query:1:29: "),
        ("SELECT * FROM klicks", QueryRefused, "query:1:15: "),
        ("INSERT INTO ods.per_minute SELECT 1", QueryRefused, "query:1:1: this is not a query"),
        ("SELECT 1; SELECT 2", QueryRefused, "query:1:11: this is a second statement"),
        ("DROP VIEW clicks", QueryRefused, "query:1:1: this is not a query"),
        ("SELECT 1 AS a,\n 2 AS a", QueryRefused, "two columns are named a"),
        ("SELECT TUMBLE(ts, 1) FROM clicks", QueryRefused, "query:1:8: `TUMBLE`"),
        ("SELECT\n CAST(country AS INT) FROM clicks", RowNotComputed, "query:2:2: "),
    ],
)
def test_what_cannot_be_answered_is_told_with_its_place(
    site: Site, sql: str, error: type[AshoreError], words: str
) -> None:
    topic = site.topic(1)
    site.produce(topic, encode(clicks(0, 3)))
    with pytest.raises(error) as refused:
        ask(site, job_of(site, topic), sql)
    assert words in refused.value.message
    assert refused.value.hint


def test_offsets_that_are_not_there_are_refused(site: Site) -> None:
    topic = site.topic(1)
    site.produce(topic, encode(clicks(0, 3)))
    offsets = (OffsetsOfTopic(topic, 0, 2, 9),)
    with pytest.raises(QueryRefused, match="have the offsets 2 to 9"):
        ask(site, job_of(site, topic), "SELECT id FROM clicks", offsets=offsets)


def test_the_command_prints_a_row_a_line(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    topic = site.topic(1)
    site.produce(topic, encode(clicks(0, 3)))
    request = SqlRequest("SELECT country, sum(id) AS ids FROM clicks GROUP BY ALL", 9, (), 9)
    options = LaunchOptions(request=write_request(request))
    assert show_answer(JobLaunch("sql", job_of(site, topic), options), as_json=True) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert sorted(rows, key=str) == [{"country": "CN", "ids": 0}, {"country": "DE", "ids": 3}]
