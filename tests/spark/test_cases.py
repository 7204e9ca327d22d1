"""Test cases of a job's SQL: they pass and fail as a run would have it."""

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from pyspark.sql import SparkSession
from tests.spark.site import LOCAL

from ashore.cli.cases import FAILED, show_cases
from ashore.errors import JobFileInvalid, QueryRefused
from ashore.jobs.events import CaseEnded
from ashore.jobs.file.cases import load_cases, parse_cases
from ashore.jobs.launch import JobLaunch, LaunchOptions
from ashore.jobs.requests import CasesRequest, write_request
from ashore.log.progress import Quiet
from ashore.queries.spark.main import job_for_cases
from ashore.queries.spark.sql.assembly import assembled
from ashore.queries.spark.sql.case_runner import run_cases
from ashore.topics.loop.job import load_job_file

EXAMPLES = Path(__file__).parents[2] / "examples"
EXAMPLE = EXAMPLES / "clicks-per-minute.yaml"

JOB = {
    "job": "tried",
    "lake": "hdfs://nowhere/lake",
    "source": {"kafka": {"bootstrap_servers": "127.0.0.1:1"}},
    "tables": [
        {
            "topic": "/clicks-.*/",
            "table": "ods.clicks",
            "schema": "id BIGINT, code STRING, at TIMESTAMP",
            "event_time": {"column": "at"},
            "late": {"after": "10s"},
            "land": False,
            "on_invalid": "fail",
        },
        {"table": "ods.named", "partition_by": []},
    ],
    "sql": {
        "text": "CREATE TEMPORARY VIEW names USING jdbc OPTIONS (url 'jdbc:x://db/x', dbtable 'n');"
        "INSERT INTO ods.named SELECT id, name, 1.10 AS price, at FROM clicks JOIN names USING "
        "(code);"
        "INSERT INTO counts SELECT code, count(*) AS count FROM clicks GROUP BY code;",
        "topics": [{"topic": "counts", "mode": "upsert", "key": ["code"]}],
    },
}
NAMES = {
    "view": "names",
    "schema": "code STRING, name STRING",
    "rows": [{"code": "a", "name": "A"}],
}
AT = "2026-11-21T08:00:00Z"


def record(number: int, code: str = "a") -> dict[str, object]:
    return {"at": AT, "value": {"id": number, "code": code}}


def run(
    spark: SparkSession, tmp_path: Path, *cases: dict[str, object], job: object = JOB
) -> list[CaseEnded]:
    path = tmp_path / "tried.yaml"
    path.write_text(json.dumps(job))
    read = parse_cases(json.dumps({"cases": cases}))
    here = job_for_cases(load_job_file(path), str(tmp_path))
    with assembled(here, spark, Quiet()) as assembly:
        return list(run_cases(assembly, read, tmp_path / "cases"))


def case(*expect: dict[str, object], **more: object) -> dict[str, object]:
    given = [
        {"topic": "clicks-1", "records": [record(1), record(2, "b"), record(3)]},
        {"topic": "clicks-2", "records": [record(4)]},
    ]
    return {"name": "case", "given": given, "views": [NAMES], "expect": list(expect), **more}


NAMED = [{"id": each, "name": "A", "price": 1.1, "at": AT} for each in (1, 3, 4)]
COUNTS = [{"code": "a", "count": 3}, {"code": "b", "count": 1}]


def test_rows_of_tables_and_newest_rows_of_topics_are_compared(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Without a broker, a database or a lake, and with topics that match an expression."""
    good = case({"table": "ods.named", "rows": NAMED}, {"table": "counts", "rows": COUNTS})
    wrong_row = {**NAMED[0], "price": 1.2}
    bad = case(
        {"table": "ods.named", "rows": [wrong_row, *NAMED[1:]]},
        {"table": "counts", "rows": [{"count": 1}]},
        name="other rows",
    )
    unfit = case({"table": "counts", "rows": [{"count": "many"}]}, name="no number")
    unknown = case({"table": "counts", "rows": [{"cuont": 3}]}, name="no column")
    broken = case(
        {"table": "counts", "rows": []},
        name="a record that cannot be decoded",
        given=[{"topic": "clicks-1", "records": [{"value": "{"}]}],
    )
    ended = run(spark, tmp_path, good, bad, unfit, unknown, broken)
    assert [each.name for each in ended][:2] == ["case", "other rows"]
    assert ended[0].problems == ()
    when = "2026-11-21T08:00:00.000000Z"
    assert ended[1].problems == (
        f'ods.named: missing: {{"id":1,"name":"A","price":1.20,"at":"{when}"}}',
        f'ods.named: not expected: {{"id":1,"name":"A","price":1.10,"at":"{when}"}}',
        'counts: not expected: {"count":3}',
    )
    (unfit_problem,) = ended[2].problems
    assert "query's columns: " in unfit_problem
    assert "field name 'count'" in unfit_problem
    (unknown,) = ended[3].problems
    assert unknown.endswith(" column cuont: code, count")
    assert ended[4].problems == ("counts: clicks-1/0/0 cannot be decoded",)


def test_a_time_without_a_zone_is_utc_and_moves_the_watermark(
    spark: SparkSession, tmp_path: Path
) -> None:
    clicks = {
        "topic": "clicks",
        "table": "ods.clicks",
        "schema": "id BIGINT, at TIMESTAMP_NTZ",
        "event_time": {"column": "at"},
        "late": {"after": "10s"},
        "land": False,
        "on_invalid": "fail",
    }
    sql = (
        "INSERT INTO ods.per_minute SELECT window.start AS minute, count(*) AS clicks FROM clicks "
        "GROUP BY window(event_time, '1 minute')"
    )
    tables = [clicks, {"table": "ods.per_minute", "partition_by": []}]
    job = {**JOB, "tables": tables, "sql": {"text": sql}}
    times = [["08:00:10", "08:00:50"], ["08:01:30"], ["08:01:31"], ["08:00:20", "08:03:00"]]
    given = [
        {
            "topic": "clicks",
            "records": [{"at": f"2026-11-21T{at}Z", "value": {"id": 1}} for at in batch],
        }
        for batch in times
    ]
    minutes = [("08:00", 2), ("08:01", 2)]
    rows = [{"minute": f"2026-11-21T{at}:00Z", "clicks": count} for at, count in minutes]
    expect = [{"table": "ods.per_minute", "rows": rows}]
    (ended,) = run(spark, tmp_path, {"name": "x", "given": given, "expect": expect}, job=job)
    assert ended.problems == ()


def letters_job(sql: str) -> dict[str, object]:
    """Return a job whose topics land, and whose INSERT has dead letters."""
    return {
        **JOB,
        "tables": [
            {
                "topic": topic,
                "table": f"ods.{topic}",
                "schema": "id BIGINT NOT NULL, code STRING, at TIMESTAMP",
                "event_time": {"column": "at"},
                "late": {"after": "10s"},
                "seal": {"idle_after": "30m"},
            }
            for topic in ("clicks", "views")
        ],
        "sql": {"text": sql},
    }


STATELESS = "INSERT INTO ods.out SELECT id, CAST(code AS INT) AS number FROM clicks"
STATEFUL = (
    "INSERT INTO ods.out SELECT window.start AS minute, sum(CAST(code AS INT)) AS number "
    "FROM clicks GROUP BY window(at, '1 minute')"
)
SINK = {"table": "ods.out", "partition_by": [], "on_error": "dead_letter"}


@pytest.mark.long  # every day those of an example, below
@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        (STATELESS, [{"id": each, "number": each} for each in (1, 3, 5)]),
        (STATEFUL, [{"minute": AT, "number": 9}]),
    ],
    ids=["stateless", "stateful"],
)
def test_dead_letters_are_those_of_a_run(
    spark: SparkSession, tmp_path: Path, sql: str, rows: list[dict[str, object]]
) -> None:
    """What SQL cannot compute, what is too far ahead, and what no table can decode."""
    job = letters_job(sql)
    job["tables"] += [SINK]  # type: ignore[operator]
    far = {"at": "2999-01-01T00:00:00Z", "value": {"id": 6, "code": "6"}}
    given = [
        {"topic": "clicks", "records": [record(1, "1"), record(2, "two"), {"value": "{"}]},
        {"topic": "clicks", "records": [record(3, "3"), {**record(4, "four"), "partition": 1}]},
        {"topic": "clicks", "records": [record(5, "5"), far, {"value": {"code": "7"}}]},
        {"topic": "clicks", "records": [{**record(8, "0"), "at": "2026-11-21T08:09:00Z"}]},
    ]
    of_sql = [
        {"topic": "clicks", "offset": 1, "reason": "'two' of the type"},
        {"topic": "clicks", "partition": 1, "offset": 0, "reason": "CAST_INVALID_INPUT"},
        {"topic": "clicks", "offset": 5, "reason": "too-far"},
    ]
    of_topic = [
        {"topic": "clicks", "offset": 2, "reason": "not-object"},
        {"topic": "clicks", "offset": 6, "reason": "null: id"},
    ]
    last = [{"id": 8, "number": 0}] if sql == STATELESS else []
    out = {"table": "ods.out", "rows": [*rows, *last], "dead_letters": of_sql}
    expect = [out, {"table": "ods.clicks", "dead_letters": of_topic}]
    good = {"name": "good", "given": given, "expect": expect}
    (ended,) = run(spark, tmp_path, good, job=job)
    assert ended.problems == ()


@pytest.mark.parametrize(
    ("on_invalid", "expected", "words"),
    [
        ("drop", {"table": "ods.clicks", "dead_letters": []}, "on_invalid is drop"),
        ("dead_letter", {"table": "ods.clicks", "rows": []}, "no INSERT of the job writes ods.cl"),
        (
            "dead_letter",
            {"table": "ods.out", "dead_letters": [{"topic": "clicks", "offset": 0}]},
            "ods.out has no dead letters",
        ),
    ],
)
def test_dead_letters_of_a_table_that_has_none_are_refused(
    spark: SparkSession,
    tmp_path: Path,
    on_invalid: str,
    expected: dict[str, object],
    words: str,
) -> None:
    job = letters_job(STATELESS)
    clicks, views = job["tables"]  # type: ignore[misc]
    sink = {"table": "ods.out", "partition_by": []}
    job["tables"] = [{**clicks, "on_invalid": on_invalid}, views, sink]
    given = [{"topic": "clicks", "records": [record(1, "1")]}]
    with pytest.raises(JobFileInvalid, match=words):
        run(spark, tmp_path, {"name": "x", "given": given, "expect": [expected]}, job=job)


def test_a_topic_is_idle_by_the_times_of_the_case(spark: SparkSession, tmp_path: Path) -> None:
    """The minute of one topic is final once the other one was silent for `seal.idle_after`."""
    job = letters_job(
        "INSERT INTO ods.out SELECT window.start AS minute, count(*) AS number FROM "
        "(SELECT at FROM clicks UNION ALL SELECT at FROM views) GROUP BY window(at, '1 minute')"
    )
    job["tables"] += [{"table": "ods.out", "partition_by": []}]  # type: ignore[operator]
    later = {**record(3), "at": "2026-11-21T08:05:00Z"}

    def played(name: str, after: str, rows: list[dict[str, object]]) -> dict[str, object]:
        given = [
            {"topic": "views", "records": [record(1)]},
            {"topic": "clicks", "records": [record(2)]},
            {"topic": "clicks", "after": after, "records": [later]},
        ]
        return {"name": name, "given": given, "expect": [{"table": "ods.out", "rows": rows}]}

    final = [{"minute": AT, "number": 2}]
    silent = played("idle", "31m", final)
    waiting = played("waited for", "29m", [])
    ended = run(spark, tmp_path, silent, waiting, job=job)
    assert [each.problems for each in ended] == [(), ()]


@pytest.mark.long  # both are tests of their own above
def test_the_example_with_dead_letters_and_an_idle_topic(
    spark: SparkSession, tmp_path: Path
) -> None:
    job = load_job_file(EXAMPLES / "orders-paid.yaml")
    cases = load_cases(EXAMPLES / "orders-paid.cases.yaml")
    with assembled(job_for_cases(job, str(tmp_path)), spark, Quiet()) as assembly:
        ended = list(run_cases(assembly, cases, tmp_path / "cases"))
    assert [each.problems for each in ended] == [(), ()]


FIVE_LINES = """\
job: declared
lake: file:///lake
source: {kafka: {bootstrap_servers: "127.0.0.1:1"}}
sql: {file: declared.sql}
"""
DECLARED = """
CREATE TABLE ods.clicks (id BIGINT, code STRING, at TIMESTAMP)
OPTIONS (topic = 'clicks-1', land = false, on_invalid = 'drop', event_time.column = 'at');
CREATE TABLE ods.big (id BIGINT, price DOUBLE) PARTITIONED BY (id);
INSERT INTO ods.big SELECT id, 1.5D AS price FROM clicks WHERE id > 1;
"""


def test_a_job_whose_tables_stand_in_its_sql(spark: SparkSession, tmp_path: Path) -> None:
    given = [{"topic": "clicks-1", "records": [record(1), record(2)]}]
    expect = [{"table": "ods.big", "rows": [{"id": 2, "price": 1.5}]}]
    (tmp_path / "declared.sql").write_text(DECLARED, "utf-8")
    (tmp_path / "job.yaml").write_text(FIVE_LINES, "utf-8")
    here = job_for_cases(load_job_file(tmp_path / "job.yaml"), str(tmp_path))
    assert here.tables[1].partition_by == ("id",)
    cases = parse_cases(json.dumps({"cases": [{"name": "x", "given": given, "expect": expect}]}))
    with assembled(here, spark, Quiet()) as job:
        (ended,) = run_cases(job, cases, tmp_path / "cases")
        assert ended.problems == ()
    (tmp_path / "declared.sql").write_text(DECLARED.replace("price DOUBLE", "price INT"), "utf-8")
    here = job_for_cases(load_job_file(tmp_path / "job.yaml"), str(tmp_path))
    with (
        assembled(here, spark, Quiet()) as job,
        pytest.raises(QueryRefused, match="price` double, the table id BIGINT, price INT"),
    ):
        list(run_cases(job, cases, tmp_path / "others"))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"expect": [{"table": "ods.nmed", "rows": []}]}, "no INSERT of the job writes ods.nmed"),
        ({"views": [{**NAMES, "view": "nams"}]}, "the SQL defines no view nams"),
        ({"views": [{**NAMES, "schema": "code INT, name STRING"}]}, "its rows do not match its"),
        (
            {"given": [{"topic": "clicks-1", "records": []}, {"topic": "klicks", "records": []}]},
            "the case has records of klicks",
        ),
    ],
)
def test_a_case_that_is_not_about_the_job_is_refused(
    spark: SparkSession, tmp_path: Path, changes: dict[str, object], words: str
) -> None:
    with pytest.raises(JobFileInvalid, match=words) as refused:
        run(spark, tmp_path, {**case({"table": "ods.named", "rows": NAMED}), **changes})
    assert refused.value.hint


def test_the_command_runs_the_example(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Late and out of order as a run would have it; and what fails is told, with its place."""
    own = EXAMPLES / "clicks-per-minute.cases.yaml"
    wrong = tmp_path / "wrong.cases.yaml"
    wrong.write_text(own.read_text("utf-8").replace("clicks: 1}", "clicks: 2}"), "utf-8")
    request = write_request(CasesRequest((str(own), str(wrong))))
    example = EXAMPLE.read_text("utf-8")
    soon = tmp_path / EXAMPLE.name
    soon.write_text(example.replace('{master: "local[*]"}', json.dumps(LOCAL)), "utf-8")
    assert soon.read_text("utf-8") != example
    launch = JobLaunch("test", soon, LaunchOptions(request=request))
    xml = tmp_path / "junit.xml"
    assert show_cases(launch, 4, xml, as_json=False) == FAILED
    said = capsys.readouterr().out
    assert said.count("passed  ") == 3
    late = '{"minute":"2026-11-21T08:00:00.000000Z","clicks":'
    assert f"missing: {late}2}}" in said
    assert f"not expected: {late}1}}" in said
    assert f"{wrong}:19" in said
    assert "3 of 4 cases passed" in said
    suite = ET.parse(xml).getroot()
    assert suite.attrib["failures"] == "1"
    assert [case.find("failure") is None for case in suite] == [True, True, True, False]
