"""Tables that SQL declares: what they say as items of `tables`, and where they are wrong."""

from pathlib import Path

import pytest

from ashore.errors import JobFileInvalid
from ashore.jobs.file import load_job, parse_job
from ashore.jobs.file.sql_tables import NotDeclared, blank_tables, declared_tables

SQL = """\
-- CREATE TABLE not.one (x INT);
CREATE TABLE ods.clicks (id BIGINT, price DECIMAL(10, 2), ts BIGINT /* ms; */)
OPTIONS ('topic' = 'clicks', land = false, 'event_time.column' 'ts', late.after = '10s',
         'on_invalid' = 'drop');
CREATE TABLE IF NOT EXISTS `ods`.per_minute (
    minute TIMESTAMP, -- its start;
    clicks BIGINT
)
USING orc PARTITIONED BY (date) TBLPROPERTIES ('event_time.column' = 'minute');
INSERT INTO ods.per_minute
SELECT window.start AS minute, count(*) AS clicks FROM clicks GROUP BY window(event_time, '1 hour');
"""
JOB = """\
job: declared
lake: file:///lake
source: {kafka: {bootstrap_servers: "127.0.0.1:9092"}}
sql: {file: declared.sql}
"""
CLICKS = {
    "table": "ods.clicks",
    "schema": "id BIGINT, price DECIMAL(10, 2), ts BIGINT",
    "topic": "clicks",
    "land": False,
    "event_time": {"column": "ts"},
    "late": {"after": "10s"},
    "on_invalid": "drop",
}


def test_a_statement_is_an_item_of_tables() -> None:
    clicks, per_minute = declared_tables(SQL)
    assert clicks.item == CLICKS
    assert per_minute.item == {
        "table": "ods.per_minute",
        "schema": "minute TIMESTAMP, clicks BIGINT",
        "format": "orc",
        "partition_by": ["date"],
        "event_time": {"column": "minute"},
    }
    assert SQL[clicks.start_of("late.after") :].startswith("late.after")
    assert SQL[clicks.start_of("seal") :].startswith("CREATE TABLE ods.clicks")


def test_partitions_may_be_transforms() -> None:
    sql = "CREATE TABLE a.b (id INT) PARTITIONED BY (date, day(ts), bucket(4, id), id) OPTIONS ()"
    (table,) = declared_tables(sql)
    assert table.item["partition_by"] == ["date", "day(ts)", "bucket(4, id)", "id"]


def test_what_is_left_for_spark_stands_where_it_stood() -> None:
    blank = blank_tables(SQL)
    assert len(blank) == len(SQL)
    assert blank.count("\n") == SQL.count("\n")
    assert blank.index("INSERT") == SQL.index("INSERT")
    assert "CREATE TABLE ods" not in blank
    assert blank.split() == [
        *["--", "CREATE", "TABLE", "not.one", "(x", "INT);"],
        *_insert().split(),
    ]


def _insert() -> str:
    return SQL[SQL.index("INSERT") :]


@pytest.mark.parametrize(
    ("text", "at", "words"),
    [
        ("CREATE TABLE a.b (x INT) WITH ('connector' = 'kafka')", "CREATE", "Flink's"),
        ("CREATE TABLE a.b (x INT) LOCATION 'here'", "LOCATION", "LOCATION is none of them"),
        ("CREATE TABLE a.b AS SELECT 1", "AS", "AS is none of them"),
        ("CREATE TABLE a.b (x INT", "(", "ends after"),
        ("CREATE TABLE a.b (x INT) OPTIONS ('land' = 'false', 'land' = 'true')", "'land' = 't", ""),
        ("CREATE TABLE a.b OPTIONS ('late' = '1s', 'late.after' = '1s')", "'late.a", "twice"),
        ("CREATE TABLE a.b OPTIONS ('select' = 'x')", "'select'", "a list of expressions"),
        ("CREATE TABLE a.b OPTIONS ('topic' = )", ")", "is missing"),
        ("CREATE TABLE a.b PARTITIONED (x)", "(x", "expected `BY`, got ("),
        ("CREATE TABLE", "CREATE", "ends after"),
        ("CREATE TABLE t USING kafka OPTIONS (topic = 'u')", "topic", "name is the topic"),
        ("CREATE TABLE t (x INT) USING kafka", "x INT", "those of the SELECT"),
    ],
)
def test_what_is_not_understood_is_refused(text: str, at: str, words: str) -> None:
    with pytest.raises(NotDeclared) as refused:
        declared_tables(text)
    assert text[refused.value.start :].startswith(at)
    assert words in refused.value.message
    assert refused.value.instead


def load(tmp_path: Path, sql: str = SQL, job: str = JOB) -> object:
    (tmp_path / "declared.sql").write_text(sql, "utf-8")
    (tmp_path / "job.yaml").write_text(job, "utf-8")
    return load_job(tmp_path / "job.yaml")


def test_five_lines_and_a_file_of_sql_are_a_job(tmp_path: Path) -> None:
    load(tmp_path)
    job = load_job(tmp_path / "job.yaml")
    assert [item.table for item in job.tables] == ["ods.clicks", "ods.per_minute"]
    assert job.tables[0].late.after_ms == 10_000
    in_yaml = parse_job(
        JOB.replace("{file: declared.sql}", "{text: INSERT INTO ods.per_minute SELECT 1}")
        + f"tables: [{CLICKS}, {dict(declared_tables(SQL)[1].item)}]".replace("False", "false")
    )
    assert in_yaml.tables == job.tables


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("'10s'", "'10'", "declared.sql:3: CREATE TABLE ods.clicks: late.after: 10 has no unit"),
        ("USING orc", "USING ocr", "declared.sql:9: CREATE TABLE ods.per_minute: format: must be"),
        ("land = false", "lend = false", "declared.sql:3: CREATE TABLE ods.clicks: lend: 'lend'"),
        ("USING orc", "STORED", "declared.sql:9:1: `CREATE TABLE` of a job has"),
        ("ods.clicks", "clicks", "declared.sql:2: CREATE TABLE clicks: table: "),
        (
            "INSERT",
            "CREATE TABLE ods.clicks (id INT);\nINSERT",
            "declared.sql:10:1: ods.clicks is declared",
        ),
    ],
)
def test_what_is_wrong_is_told_with_its_line_in_the_sql(
    tmp_path: Path, old: str, new: str, words: str
) -> None:
    with pytest.raises(JobFileInvalid) as refused:
        load(tmp_path, SQL.replace(old, new))
    assert words in refused.value.message
    assert "tables: " not in refused.value.message


def test_both_may_say_of_a_table_what_does_not_differ(tmp_path: Path) -> None:
    same = JOB + "tables:\n  - {table: ods.per_minute, format: orc, roll: {size: 1GB}}\n"
    job = load(tmp_path, SQL, same)
    assert isinstance(job, type(load_job(tmp_path / "job.yaml")))
    merged, clicks = load_job(tmp_path / "job.yaml").tables
    assert (merged.table, merged.format, merged.roll.size_bytes) == (
        "ods.per_minute",
        "orc",
        1_000_000_000,
    )
    assert merged.partition_by == ("date",)
    assert clicks.table == "ods.clicks"
    with pytest.raises(JobFileInvalid) as refused:
        load(tmp_path, SQL, same.replace("orc", "parquet"))
    assert "job.yaml:6: tables[0].format: the SQL has another value" in refused.value.message
    assert "declared.sql:9" in refused.value.message


TOPIC = """
CREATE TABLE `clicks-by-country` USING kafka OPTIONS (mode = 'upsert', 'key' = 'country, day');
INSERT INTO `clicks-by-country` SELECT 1;
"""
IN_YAML = "{topic: clicks-by-country, mode: upsert, key: [country, day]}"


HERE = "|\n  " + (SQL + TOPIC).replace("\n", "\n  ").rstrip(" ")


@pytest.mark.parametrize("sql", ["{file: declared.sql}", HERE], ids=["file", "text"])
def test_a_topic_that_sql_writes_may_stand_in_the_sql(tmp_path: Path, sql: str) -> None:
    load(tmp_path, SQL + TOPIC, JOB.replace("{file: declared.sql}", sql))
    found = load_job(tmp_path / "job.yaml")
    assert found.sql is not None
    load(tmp_path, SQL, JOB.replace("sql}", f"sql, topics: [{IN_YAML}]}}"))
    in_yaml = load_job(tmp_path / "job.yaml")
    assert in_yaml.sql is not None
    assert found.sql.topics == in_yaml.sql.topics
    assert found.tables == in_yaml.tables


def test_both_may_say_of_a_topic_what_does_not_differ(tmp_path: Path) -> None:
    both = JOB.replace("sql}", "sql, topics: [{topic: clicks-by-country, on_error: 'null'}]}")
    load(tmp_path, SQL + TOPIC, both)
    sql = load_job(tmp_path / "job.yaml").sql
    assert sql is not None
    (topic,) = sql.topics
    assert (topic.mode, topic.key, topic.on_error) == ("upsert", ("country", "day"), "null")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("'upsert'", "'insert'", "declared.sql:13: CREATE TABLE clicks-by-country: mode: must be"),
        ("mode", "late", "declared.sql:13: CREATE TABLE clicks-by-country: late: 'late' is not"),
        ("'key' = 'country, day'", "", "clicks-by-country: key: upsert keeps"),
        ("INSERT", TOPIC, "clicks-by-country is declared"),
        ("USING kafka", "PARTITIONED BY (day) USING kafka", "partition_by"),
    ],
)
def test_what_is_wrong_with_a_topic_is_told(tmp_path: Path, old: str, new: str, words: str) -> None:
    with pytest.raises(JobFileInvalid) as refused:
        load(tmp_path, SQL + TOPIC.replace(old, new))
    assert words in refused.value.message


def test_the_job_file_and_the_sql_may_not_differ_about_a_topic(tmp_path: Path) -> None:
    both = JOB.replace("sql}", "sql, topics: [{topic: clicks-by-country, key: [day]}]}")
    with pytest.raises(JobFileInvalid, match=r"sql\.topics\[0\]\.key: .* another value"):
        load(tmp_path, SQL + TOPIC, both)


def test_a_file_that_is_not_there_is_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(JOB, "utf-8")
    with pytest.raises(JobFileInvalid, match=r"sql\.file: declared\.sql cannot"):
        load_job(tmp_path / "job.yaml")


def test_the_example_is_a_job() -> None:
    examples = Path(__file__).parents[3] / "examples"
    job = load_job(examples / "clicks-in-sql.yaml")
    assert [(item.table, item.topic) for item in job.tables] == [
        ("ods.clicks", "clicks"),
        ("ods.clicks_by_minute", None),
    ]
    page = (examples.parent / "docs" / "use" / "sql.md").read_text("utf-8")
    assert (examples / "clicks-in-sql.sql").read_text("utf-8") in page


def test_sql_in_the_job_file_declares_too() -> None:
    text = JOB.replace("{file: declared.sql}", "|\n  " + SQL.replace("\n", "\n  ").rstrip(" "))
    assert [item.table for item in parse_job(text).tables] == ["ods.clicks", "ods.per_minute"]
    with pytest.raises(JobFileInvalid, match=r"job\.yaml:7: CREATE TABLE ods\.clicks: late"):
        parse_job(text.replace("'10s'", "'10'"))
