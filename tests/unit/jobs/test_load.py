"""Each kind of error, on a real text: line, key, and what to write instead."""

import json
import pickle
import re
from pathlib import Path

import pytest
from pydantic import ValidationError
from tests.unit.jobs.texts import EXAMPLE, SMALL, VALID, changed, first_words, job, only, problems

from ashore.errors import JobFileInvalid
from ashore.jobs.file import load_job, parse_job
from ashore.jobs.file.naming import StartAt, topic_matches
from ashore.jobs.file.values import ValueRefused


def test_the_example_of_the_design_loads_as_it_is() -> None:
    hive = job(EXAMPLE).catalog.hive
    assert hive is not None
    assert (hive.uri.reveal(), hive.strategy) == ("thrift://127.0.0.1:9083", "near")


def test_the_example_without_hive_loads() -> None:
    loaded = job(VALID)
    table = loaded.tables[0]
    assert loaded.lake.reveal() == "file:///data/lake"
    assert loaded.source.start_of("clicks") == StartAt("earliest")
    assert loaded.source.start_of("other") == StartAt("latest")
    assert (table.late.after_ms, table.late.future_max_ms) == (7_200_000, 3_600_000)
    assert table.seal.remember_ms == 30 * 86_400_000
    assert (loaded.batch.interval_ms, loaded.batch.max_bytes) == (10_000, 2_000_000_000)
    assert loaded.grace_ms == 60_000
    assert loaded.path == "clicks.yaml"


def test_the_example_spells_out_the_defaults() -> None:
    """What the example writes is what a job gets that writes nothing (its own names aside)."""
    spelled, bare = job(VALID), job(SMALL)
    own = {"topic", "table", "schema_ddl", "event_time", "timezone"}
    assert spelled.tables[0].model_dump(exclude=own) == bare.tables[0].model_dump(exclude=own)
    assert spelled.model_dump(exclude={"tables", "source"}) == bare.model_dump(
        exclude={"tables", "source"}
    )


def test_a_dump_loads_again() -> None:
    loaded = job(
        changed(
            VALID,
            ("clicks: earliest}", '/cl.*/: {timestamp: "2026-11-21T08:00:00+08:00"}}'),
            ("interval: 10s", "interval: 1500ms"),
            ("max_bytes: 2GB", "max_bytes: 1GiB"),
        )
    )
    again = job(json.dumps(loaded.model_dump(mode="json", by_alias=True)))
    assert again.model_dump() == loaded.model_dump()
    assert again.digest == loaded.digest


ERRORS = [
    # what is changed, line, key, part of the message, part of what to write instead
    pytest.param(("gap:", "gaps:"), 8, "source.gaps", "'gaps' is not", "mean `gap`?"),
    pytest.param(
        ("durability: close", "zzz: 1"),
        28,
        "zzz",
        "not a known key",
        "known keys: job, labels, lake",
    ),
    pytest.param(
        ("after: 2h", "aftr: 2h"), 17, "tables[0].late.aftr", "not a known key", "mean `after`?"
    ),
    pytest.param(("interval: 10s", "interval: 10"), 26, "batch.interval", "no unit", "write 10s"),
    pytest.param(("interval: 10s", "interval: '10'"), 26, "batch.interval", "unit", "write 10s"),
    pytest.param(("interval: 10s", "interval: 500"), 26, "batch.interval", "unit", "write 500ms"),
    pytest.param(("grace: 60s", "grace: 30"), 30, "grace", "30 has no unit", "write 30s"),
    pytest.param(
        ("after: 2h", "after: 3"), 17, "tables[0].late.after", "3 has no unit", "write 3h"
    ),
    pytest.param(
        ("select: null", "retention: 3"), 22, "tables[0].retention", "3 has no unit", "write 3d"
    ),
    pytest.param(
        ("select: null", "compact: {}"), 22, "tables[0].compact", "table format", "format: iceberg"
    ),
    pytest.param(
        ("format: parquet", "format: delta\n    compact: {sort_by: [usr]}"),
        20,
        "tables[0].compact.sort_by",
        "no column usr",
        "columns: ",
    ),
    pytest.param(("ttl: 24h", "ttl: 0"), 27, "clean.ttl", "0 has no unit", "write 0s"),
    pytest.param(("ttl: 24h", "ttl: 1.2.3"), 27, "clean.ttl", "1.2.3 has no unit", "write 1.2.3s"),
    pytest.param(("ttl: 24h", "ttl: '" + "9" * 400 + "'"), 27, "clean.ttl", "has no unit", "write"),
    pytest.param(
        ("interval: 10s", "interval: 10 seconds"), 26, "batch.interval", "10 sec", "write 10s"
    ),
    pytest.param(("interval: 10s", "interval: soon"), 26, "batch.interval", "'soon'", "units: ms"),
    pytest.param(("interval: 10s", "interval: [1]"), 26, "batch.interval", "expected", "write 10s"),
    pytest.param(
        ("interval: 10s", "interval: 99999999d"), 26, "batch.interval", "more than", "such as 10s"
    ),
    pytest.param(
        ("interval: 10s", "interval: " + "9" * 400 + "d"), 26, "batch.interval", "long", "10s"
    ),
    pytest.param(("every: 1h", "every: 0s"), 27, "clean.every", "more than 0", "every: 1h"),
    pytest.param(("size: 256MB", "size: 256mb"), 23, "tables[0].roll.size", "256mb", "write 256MB"),
    pytest.param(("size: 256MB", "size: 256"), 23, "tables[0].roll.size", "no unit", "256MB"),
    pytest.param(
        ("size: 256MB", "size: 9999999"), 23, "tables[0].roll.size", "no unit", "9999999B"
    ),
    pytest.param(
        ("format: parquet", "format: parket"), 19, "tables[0].format", "'parket'", "mean `parquet`?"
    ),
    pytest.param(
        ("policy: rehome", "policy: 7"),
        17,
        "tables[0].late.policy",
        "one of rehome, keep, side; got a number",
        "",
    ),
    pytest.param(
        ("actions: [success_file", "actions: [sucess_file"),
        24,
        "tables[0].seal.actions[0]",
        "must be one of success_file",
        "mean `success_file`?",
    ),
    pytest.param(
        ("[success_file, catalog]", "[catalog, catalog]"),
        24,
        "tables[0].seal.actions",
        "catalog appears twice",
        "once",
    ),
    pytest.param(
        ("provenance: true", "provenance: yes"),
        21,
        "tables[0].provenance",
        "one of true, false, headers; got 'yes'",
        "write provenance: true",
    ),
    pytest.param(
        ("provenance: true", "provenance: header"),
        21,
        "tables[0].provenance",
        "got 'header'",
        "did you mean `headers`?",
    ),
    pytest.param(
        ("max_records: 5000000", "max_records: 5e6"), 26, "batch.max_records", "whole", "5000000"
    ),
    pytest.param(
        ("max_records: 5000000", "max_records: -1"), 26, "batch.max_records", "more than 0", "500"
    ),
    pytest.param(("lake: file:///data/lake", "lake: /data/lake"), 2, "lake", "URI", "file:///data"),
    pytest.param(("lake: file:///data/lake", "lake: file://data"), 2, "lake", "absolute", "three"),
    pytest.param(
        ("lake: file:///data/lake", "lake: ftp://x/y"),
        2,
        "lake",
        "scheme of this lake",
        "file://",
    ),
    pytest.param(("lake: file:///data/lake", "lake: file:///"), 2, "lake", "cannot", "directory"),
    pytest.param(("lake: file:///data/lake", "lake: s3n://b/a"), 2, "lake", "Hadoop", "s3:"),
    pytest.param(
        ("durability: close", "hdfs: {conf_dir: /etc/hadoop}"), 28, "hdfs", "not on HDFS", "remove"
    ),
    pytest.param(("durability: close", "s3: {region: x}"), 28, "s3", "not on S3", "remove"),
    pytest.param(("shuffle: none", "shuffle: bucket"), 18, "tables[0].shuffle", "release", "none"),
    pytest.param(("catalog: none", "catalog: hiv"), 25, "catalog", "none or", "{hive: {uri"),
    pytest.param(("job: clicks", "job: _x"), 1, "job", "not a job name", "begin with a letter"),
    pytest.param(("job: clicks", "job: 7"), 1, "job", "expected a string, got a number", "clicks"),
    pytest.param(("job: clicks\n", ""), 1, "job", "required", "add job: clicks"),
    pytest.param(("    table: ods.clicks\n", ""), 10, "tables[0].table", "required", "add table"),
    pytest.param(
        ("127.0.0.1:9092", "kafka"), 5, "source.kafka.bootstrap_servers", "list", "kafka:9092"
    ),
    pytest.param(("{}  ", "[]"), 6, "source.kafka.options", "got a list", "options: {}"),
    pytest.param(
        ("default: latest", "default: lates"), 7, "source.first_start.default", "", "latest"
    ),
    pytest.param(
        ("default: latest", "default: {timestamp: 2026-11-21T08:00:00}"),
        7,
        "source.first_start.default",
        "no zone",
        "2026-11-21T08:00:00Z",
    ),
    pytest.param(
        ("default: latest", "default: {timestamp: 1795240800}"),
        7,
        "source.first_start.default",
        "1795240800",
        "milliseconds",
    ),
    pytest.param(
        ("default: latest", "default: {timestmp: 1}"),
        7,
        "source.first_start.default",
        "",
        "{timest",
    ),
    pytest.param(
        ("clicks: earliest", "clikcs: earliest"),
        7,
        "source.first_start.clikcs",
        "no item of `tables`",
        "mean `clicks`?",
    ),
    pytest.param(("topic: clicks", "topic: a b"), 10, "tables[0].topic", "not a topic", "letters"),
    pytest.param(("topic: clicks", "topic: /a(/"), 10, "tables[0].topic", "regular", "RE2"),
    pytest.param(("topic: clicks", "topic: /a"), 10, "tables[0].topic", "whole", "/clicks_.*/"),
    pytest.param(("ods.clicks", "clicks"), 11, "tables[0].table", "no database", "database.clicks"),
    pytest.param(("ods.clicks", "ods._clicks"), 11, "tables[0].table", "'_clicks'", "leading _"),
    pytest.param(("ods.clicks", "ods.a.b"), 11, "tables[0].table", "'a.b'", "database.table"),
    pytest.param(
        ("ods.clicks", '"ods.{topic}_raw"'), 11, "tables[0].table", "{topic}", "ods.clicks_raw"
    ),
    pytest.param(("[date, hour]", "[hour]"), 15, "tables[0].partition_by", "hour", "[date, hour]"),
    pytest.param(("[date, hour]", "[date, date]"), 15, "tables[0].partition_by", "twice", "once"),
    pytest.param(("[date, hour]", "date"), 15, "tables[0].partition_by", "a list", "[date, hour]"),
    pytest.param(
        ("[date, hour]", "[date, contry]"), 15, "tables[0].partition_by[1]", "", "mean `country`?"
    ),
    pytest.param(
        ("[date, hour]", "[date, _x]"), 15, "tables[0].partition_by[1]", "directories", "invisible"
    ),
    pytest.param(
        ("country STRING", "date STRING"),
        15,
        "tables[0].partition_by[0]",
        "also a column",
        "rename",
    ),
    pytest.param(
        ("country STRING", "kafka_offset BIGINT"), 13, "tables[0].schema", "provenance", "rename"
    ),
    pytest.param(("country STRING", "ID STRING"), 13, "tables[0].schema", "twice", "own"),
    pytest.param(("user STRING", "user"), 13, "tables[0].schema", "character 11: ' user", "TYPE"),
    pytest.param(
        ("column: ts", "column: tz"), 14, "tables[0].event_time.column", "tz", "mean `ts`?"
    ),
    pytest.param(
        ("decode: json ", "decode: text "), 13, "tables[0].schema", "one column", "value STRING"
    ),
    pytest.param(
        ("Asia/Shanghai", "Asia/Shangai"), 16, "tables[0].timezone", "time zone", "Asia/Shanghai"
    ),
    pytest.param(("Asia/Shanghai", "../etc"), 16, "tables[0].timezone", "time zone", "UTC"),
    pytest.param(("Asia/Shanghai", "Asia"), 16, "tables[0].timezone", "time zone", "mean `"),
    pytest.param(("select: null", "select: []"), 22, "tables[0].select", "empty", "at least one"),
    pytest.param(("select: null", "where: ''"), 22, "tables[0].where", "empty", "write where: "),
    pytest.param(("grace: 60s", "job: other"), 30, "job", "given in line 1 already", "remove"),
    pytest.param(("conf: {}", "conf: {a: }"), 31, "spark.conf.a", "got nothing", ""),
]


@pytest.mark.parametrize(("change", "line", "key", "message", "instead"), ERRORS)
def test_one_error(
    change: tuple[str, str], line: int, key: str, message: str, instead: str
) -> None:
    found = only(changed(VALID, change))
    assert found[:2] == (line, key)
    assert message in found[2]
    assert instead in found[3]


def test_every_problem_is_reported_at_once_in_the_order_of_the_file() -> None:
    text = changed(
        VALID,
        ("job: clicks", "job: 1"),
        ("gap: fail", "gap: maybe"),
        ("user STRING", "user"),
        ("after: 2h", "after: 2"),
        ("grace: 60s", "grace: 60s\ngrace: 1m"),
        ("shuffle: none", "shuffle: bucket"),
    )
    assert [(each["line"], each["key"]) for each in problems(text)] == [
        (1, "job"),
        (8, "source.gap"),
        (13, "tables[0].schema"),
        (17, "tables[0].late.after"),
        (18, "tables[0].shuffle"),
        (31, "grace"),
    ]


def test_the_error_prints_well() -> None:
    with pytest.raises(JobFileInvalid) as caught:
        parse_job(changed(VALID, ("gap:", "gaps:")), path="clicks.yaml")
    assert str(caught.value) == (
        "clicks.yaml cannot be run: 1 problem\n"
        "clicks.yaml:8: source.gaps: 'gaps' is not a known key\n"
        "    did you mean `gap`?"
    )
    assert caught.value.exit_code == 2
    json.dumps(caught.value.to_dict())


# --- the file as a whole ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", 1, "empty"),
        ("# nothing\n", 1, "empty"),
        ("{}", 1, "empty"),
        ("- job: a\n", 1, "a mapping of keys"),
        ("clicks\n", 1, "a mapping of keys"),
        ("job: a\nlake: [b\nsource: c\n", 2, "a comma or `]`"),
        ("job: a\n\tlake: b\n", 2, "a tab"),
        ("job: a\nlake: 'b\n", 2, "not closed"),
        ("job: a\nlake: b\x07\n", 2, "this character is"),
        ("job: a\n---\njob: b\n", 2, "a second document"),
        ("job: a\nlake: *nowhere\n", 2, "without its &anchor"),
        ("job: a\nlake: !!int b\n", 2, "not a YAML int"),
        ("job: a\nlake: !odd b\n", 2, "tag"),
        ("job: a\n? [x]\n: b\n", 1, "be a string"),
        ("job: &a [*a]\n", 1, "contains itself"),
        ("job: " + "[" * 60 + "]" * 60, 1, "nested too deeply"),
        ("job: " + "[" * 1_000, 1, "nested too deeply"),
        pytest.param(
            "[" * 20_000, 1, "nested too deeply", id="brackets", marks=pytest.mark.slow
        ),  # 14 s, once
        pytest.param("{" * 20_000, 1, "nested too deeply", id="braces", marks=pytest.mark.slow),
        ("%YAML 9.9.9\n--- {}\n", 1, "not YAML"),
        ("%YAML 1.3\n--- {}\n", 1, "not YAML"),
        ("%YAML " + "1" * 5_000 + ".1\n--- {}\n", 1, "not YAML"),
        ('job: "\\U99999999"', 1, "not YAML"),
        ('job: a\nlake: "\\uD800"', 2, "surrogate"),
        ('job: a\n"\\uD800": b', 1, "be a string"),
        ('job: a\nlake: "file:///a\\0b"', 2, "cannot be a lake"),
    ],
)
def test_broken_files(text: str, line: int, message: str) -> None:
    found = problems(text)
    assert any(each["line"] == line and message in str(each["message"]) for each in found), found


def test_aliases_of_aliases_end() -> None:
    lines = ["a: &a0 [x]"] + [f"b{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)]
    assert any("too many values" in str(each["message"]) for each in problems("\n".join(lines)))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "none.yaml"
    with pytest.raises(JobFileInvalid, match="no such file") as caught:
        load_job(missing)
    assert str(missing) in str(caught.value)


def test_a_directory_is_no_job_file(tmp_path: Path) -> None:
    with pytest.raises(JobFileInvalid, match="directory"):
        load_job(tmp_path)


def test_bytes_that_are_not_utf8_are_located(tmp_path: Path) -> None:
    file = tmp_path / "latin.yaml"
    file.write_bytes(b"job: a\n# caf\xe9\n")
    with pytest.raises(JobFileInvalid, match=r"latin\.yaml:2: .*not UTF-8"):
        load_job(file)


def test_a_byte_order_mark_is_no_problem(tmp_path: Path) -> None:
    file = tmp_path / "windows.yaml"
    file.write_bytes(b"\xef\xbb\xbf" + SMALL.replace("\n", "\r\n").encode())
    loaded = load_job(file)
    assert loaded.path == str(file)
    assert loaded.line_of("tables", 0, "topic") == 5


# --- YAML that is easily misread -------------------------------------------------------------


def test_keys_and_options_stay_text_as_written() -> None:
    options = "options: {ssl.key.password: 0123, fetch.max.bytes: 1_000, allow: true, no: 1.10}"
    text = changed(
        VALID,
        ("options: {}", options),
        ("conf: {}", "conf: {spark.x: 007}"),
        ("topic: clicks", "topic: '123'"),
        ("clicks: earliest", "123: 2026-01-01T00:00:00Z".replace("2026", "{timestamp: 2026") + "}"),
    )
    loaded = job(text)
    assert dict(loaded.source.kafka.options) == {
        "ssl.key.password": "0123",
        "fetch.max.bytes": "1_000",
        "allow": "true",
        "no": "1.10",
    }
    assert loaded.spark.conf == {"spark.x": "007"}
    assert loaded.source.start_of("123") == StartAt("timestamp", 1_767_225_600_000)


def test_merge_keys_bring_in_what_is_not_there() -> None:
    text = """\
job: clicks
lake: file:///data/lake
source: {kafka: {bootstrap_servers: "127.0.0.1:9092"}}
tables:
  - &first
    topic: clicks
    table: ods.clicks
    schema: "id BIGINT, ts BIGINT"
    format: orc
  - <<: *first
    topic: views
    table: ods.views
"""
    loaded = job(text)
    assert [(item.topic, item.format) for item in loaded.tables] == [
        ("clicks", "orc"),
        ("views", "orc"),
    ]
    assert loaded.line_of("tables", 1, "topic") == 11
    line, _, message, instead = only(changed(text, ("<<: *first", "<<: 3\n    schema: 'a INT'")))
    assert (line, message, instead) == (10, "expected a mapping after '<<'", "write <<: *anchor")


def test_a_schema_over_several_lines() -> None:
    text = changed(SMALL, ('"id BIGINT, ts BIGINT"', "|\n      id BIGINT,\n      ts BIGINT"))
    assert job(text).tables[0].ddl == "id BIGINT,\nts BIGINT\n"


# --- values ----------------------------------------------------------------------------------


@pytest.mark.parametrize("mark", ["|", "|-", ">", ">-", ">+", ">2-"])
def test_a_schema_is_a_block(mark: str) -> None:
    """A fold is white space: ruamel marks it with a character of its own."""
    written = f"schema: {mark}\n      id BIGINT,\n      ts BIGINT\n\n"
    loaded = job(changed(SMALL, ('schema: "id BIGINT, ts BIGINT"\n', written)))
    assert (loaded.tables[0].ddl or "").split() == ["id", "BIGINT,", "ts", "BIGINT"]
    assert (loaded.tables[0].ddl or "").isprintable() or "\n" in (loaded.tables[0].ddl or "")


def test_a_job_is_frozen() -> None:
    loaded = job(VALID)
    with pytest.raises(ValidationError):
        loaded.job = "other"  # type: ignore[misc]
    with pytest.raises(ValidationError):
        loaded.tables[0].late.after_ms = 1  # type: ignore[misc]
    for mapping in (loaded.spark.conf, loaded.source.first_start, loaded.source.kafka.options):
        with pytest.raises(TypeError):
            mapping["x"] = "y"  # type: ignore[index]


def test_a_job_can_be_sent_to_another_process() -> None:
    loaded = job(changed(VALID, ("options: {}", "options: {sasl.mechanism: PLAIN}")))
    again = pickle.loads(pickle.dumps(loaded))
    assert again == loaded
    assert again.path == "clicks.yaml"


def test_the_digest_is_of_what_the_job_says() -> None:
    plain = job(SMALL)
    rewritten = job("# a comment\n" + changed(SMALL, ("job: clicks", "job:   'clicks'")))
    spelled = job(SMALL + "grace: 60000ms\nbatch: {}\ncatalog: none\n")
    assert plain.digest == rewritten.digest == spelled.digest
    assert len(plain.digest) == 64
    assert job(SMALL + "grace: 61s\n").digest != plain.digest


def test_starts_by_name_then_expression_then_default() -> None:
    text = changed(
        SMALL,
        ('"127.0.0.1:9092"}', '"127.0.0.1:9092"}, first_start: {/cl.*/: latest, /.*/: earliest}'),
        ("topic: clicks", "topic: /.*/"),
    )
    source = job(text).source
    assert source.start_of("clicks") == StartAt("latest")
    assert source.start_of("other") == StartAt("earliest")
    assert job(SMALL).source.start_of("clicks") == StartAt("latest")


def test_without_a_schema_check_columns_are_not_judged() -> None:
    text = changed(VALID, ("column: ts", "column: tz"))
    assert parse_job(text).tables[0].event_time is not None
    assert parse_job(text, check_schema=lambda _: None).tables[0].event_time is not None


@pytest.mark.parametrize(("decode", "ddl"), [("text", "value STRING"), ("bytes", "value BINARY")])
def test_values_that_are_not_json_need_no_schema(decode: str, ddl: str) -> None:
    text = changed(SMALL, ('schema: "id BIGINT, ts BIGINT"', f"decode: {decode}"))
    assert job(text).tables[0].ddl == ddl


def test_json_needs_a_schema() -> None:
    line, key, message, instead = only(changed(SMALL, ('    schema: "id BIGINT, ts BIGINT"\n', "")))
    assert (line, key) == (5, "tables[0].schema")
    assert "needs a schema" in message
    assert "add schema" in instead
    assert [each.name for each in first_words("id BIGINT")] == ["id"]


# ---- spark: none


NO_SPARK = SMALL + "spark: none\n"


def test_a_job_without_spark() -> None:
    assert job(NO_SPARK).spark is None
    assert job(NO_SPARK).digest != job().digest


def test_nothing_is_not_none() -> None:
    line, key, message, instead = only(SMALL + "spark:\n")
    assert (line, key) == (8, "spark")
    assert "none or a mapping" in message
    assert instead


@pytest.mark.parametrize(
    ("more", "key"),
    [
        ('    where: "id > 1"\n', "tables[0].where"),
        ("    select: [id]\n", "tables[0].select"),
    ],
)
def test_what_needs_spark_is_refused_without_it(more: str, key: str) -> None:
    line, found, message, instead = only(SMALL + more + "spark: none\n")
    assert (line, found) == (8, key)
    assert "runs in Spark" in message
    assert "remove `spark: none`" in instead


def test_sql_needs_spark() -> None:
    text = NO_SPARK + "sql: {queries: 'INSERT INTO a.b SELECT * FROM clicks'}\n"
    assert any(each["message"] == "SQL runs in Spark" for each in problems(text))


@pytest.mark.parametrize("master", ["loca", "local[0]", "local[x]", "spark:/host", "spark//h:1"])
def test_what_is_no_master_of_spark_is_refused(master: str) -> None:
    _, key, message, instead = only(f"{SMALL}spark: {{master: '{master}'}}\n")
    assert key == "spark.master"
    assert f"{master} is not a Spark" in message
    assert "local[*]" in instead


@pytest.mark.parametrize(
    "master",
    [
        *("local", "local[4]", "local[*]", "local[2, 3]", "local-cluster[2,1,1024]", "yarn"),
        *("spark://a:7077,b:7077", "k8s://https://host:443", "own://x"),
    ],
)
def test_masters_that_spark_takes(master: str) -> None:
    spark = job(f"{SMALL}spark: {{master: '{master}'}}\n").spark
    assert spark is not None
    assert spark.master == master


def test_an_expression_matches_in_linear_time_whatever_a_topic_is_called() -> None:
    # With a backtracking engine this one takes 2^60 steps: whoever may create topics stops a job.
    assert not topic_matches("/(a+)+/", "a" * 60 + "-x")
    assert topic_matches("/(a+)+-x/", "a" * 60 + "-x")
    assert not topic_matches("/.*/", "__consumer_offsets")


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("/(?!internal).*/", "invalid perl operator"),
        (r"/(a)\1/", "invalid escape sequence"),
        ("/((((a{100}){100}){100}){100})/", "invalid repetition size"),
        ("/a**/", "bad repetition operator"),
    ],
)
def test_an_expression_that_is_not_of_linear_time_is_refused(expression: str, reason: str) -> None:
    with pytest.raises(ValueRefused, match=reason):
        topic_matches(expression, "clicks")


def test_a_table_of_whole_numbers_is_one_of_json() -> None:
    text = EXAMPLE.replace("decode: json ", "decode: json_whole ")
    (item,) = parse_job(text).tables
    assert (item.decode, item.is_json) == ("json_whole", True)
    without = re.sub(r"    schema: .*\n", "", text)
    with pytest.raises(JobFileInvalid, match="decode: json_whole needs a schema"):
        parse_job(without)
