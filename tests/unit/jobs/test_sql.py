"""Tables that SQL writes, topics that only SQL reads, and the section `sql`."""

import json

import pytest
from tests.unit.jobs.texts import changed, job, only, problems

from ashore.errors import JobFileInvalid
from ashore.jobs.file import check_views, match_topics, select_sources, select_topics
from ashore.jobs.file.sql_checks import sink_partitions, view_name
from ashore.jobs.file.tables import NO_DEAD_LETTERS, Table

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


@pytest.mark.parametrize(
    ("key", "meant"), [("statements", "text"), ("path", "file"), ("topic", "topics")]
)
def test_a_key_of_sql_that_others_use_is_known(key: str, meant: str) -> None:
    old = '"INSERT INTO ods.big SELECT * FROM clicks;"'
    found = problems(changed(SQL_JOB, (old, f"{{text: SELECT 1, {key}: x}}")))
    assert [each["instead"] for each in found] == [f"did you mean `{meant}`?"]


@pytest.mark.parametrize("written", ["null", '"null"', "~"])
def test_null_is_a_choice_though_yaml_reads_it_as_nothing(written: str) -> None:
    loaded = job(
        changed(SQL_JOB, ("- table: ods.big", f"- table: ods.big\n    on_error: {written}"))
    )
    assert loaded.tables[2].on_error == "null"
    assert loaded.tables[0].on_error == "fail"


ERRORS = [
    pytest.param(
        ('"INSERT INTO ods.big SELECT * FROM clicks;"', "{file: a, text: b}"),
        *(14, "sql", "or in a file", "one of them"),
    ),
    pytest.param(
        ('"INSERT INTO ods.big SELECT * FROM clicks;"', "{state_partitions: 4}"),
        *(14, "sql", "or in a file", "one of them"),
    ),
    pytest.param(
        ("    on_invalid: drop\n", ""), 8, "tables[1].on_invalid", "land: false", "drop or"
    ),
    pytest.param(
        ("- table: ods.big", "- table: ods.users"),
        13,
        "tables[2].topic",
        "differ in `topic`",
        "two",
    ),
    pytest.param(
        ("- table: ods.big", "- table: ods.big\n    provenance: true"),
        *(14, "tables[2].provenance", "written by SQL", "remove the key"),
    ),
    pytest.param(
        ("- table: ods.big", "- table: ods.big\n    partition_by: [date]"),
        *(14, "tables[2].partition_by", "date is computed", "add event_time"),
    ),
    pytest.param(
        (
            "- table: ods.big",
            "- table: ods.big\n    on_error: dead_letter\n  - table: ods.big__dead",
        ),
        *(15, "tables[3].table", "side table of ods.big", "another name"),
    ),
    pytest.param(
        ("    table: ods.clicks\n", "    table: ods.clicks\n    on_error: null\n"),
        *(7, "tables[0].on_error", "rows of SQL", "remove the key"),
    ),
    pytest.param(
        ("- table: ods.big", "- table: ods.big\n    retention: 90d"),
        *(14, "tables[2].retention", "however old", "ashore retire"),
    ),
    pytest.param(
        ("- table: ods.big", "- table: ods.big\n    format: delta\n    retention: 90d"),
        *(15, "tables[2].retention", "in a table format", "another engine"),
    ),
    pytest.param(
        ("    table: ods.users\n", "    table: ods.users\n    retention: 90d\n"),
        *(10, "tables[1].retention", "land: false", "remove the key"),
    ),
    pytest.param(
        ("    table: ods.users\n", "    table: ods.users\n    generation: true\n"),
        *(10, "tables[1].generation", "views of SQL", "let the topic land"),
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


def test_with_sql_some_table_must_be_a_sink() -> None:
    assert only(changed(SQL_JOB, ("  - table: ods.big\n", "")))[1] == "sql"


def test_names_and_partitions_of_sink_tables() -> None:
    assert view_name("ods.clicks") == "clicks"
    assert sink_partitions(Table(table="ods.big")) == ()
    timed = Table.model_validate({"table": "ods.big", "event_time": {"column": "ts"}})
    assert sink_partitions(timed) == ("date", "hour")


TOPICS_JOB = SQL_JOB.replace("  - table: ods.big\n", "").replace(
    'sql: "INSERT INTO ods.big SELECT * FROM clicks;"',
    """\
sql:
  text: "INSERT INTO big SELECT * FROM clicks; INSERT INTO counts SELECT * FROM n;"
  topics:
    - topic: big
    - {topic: counts, mode: upsert, key: [id]}
  producer: {linger.ms: "50"}""",
)


def test_a_job_may_fill_topics_alone() -> None:
    sql = job(TOPICS_JOB).sql
    assert sql is not None
    assert [(item.topic, item.mode, item.key) for item in sql.topics] == [
        ("big", "append", ()),
        ("counts", "upsert", ("id",)),
    ]
    assert dict(sql.producer) == {"linger.ms": "50"}


ERRORS_OF_TOPICS = [
    pytest.param(
        ("- topic: big", "- topic: ods.clicks"),
        *(16, "sql.topics[0].topic", "and ods.clicks a table", "rename"),
    ),
    pytest.param(
        ("topic: counts", "topic: big"), 17, "sql.topics[1].topic", "topic__big", "another name"
    ),
    pytest.param((", key: [id]", ""), 17, "sql.topics[1].key", "`key` is missing", "add key"),
    pytest.param(("key: [id]", "key: [id, id]"), 17, "sql.topics[1].key", "twice", "once"),
    pytest.param(
        ("- topic: big", "- topic: /big.*/"), 16, "sql.topics[0].topic", "one topic", "slashes"
    ),
    pytest.param(("linger.ms", "acks"), 18, "sql.producer.acks", "all in-sync replicas", "remove"),
    pytest.param(
        ("linger.ms", "linger"), 18, "sql.producer.linger", "not an option", "mean `linger.ms`?"
    ),
    pytest.param(
        ("linger.ms", "ssl.truststore.location"),
        *(18, "sql.producer.ssl.truststore.location", "same for", "source.kafka.options"),
    ),
    pytest.param(
        ("  producer:", "  state_ttl: 3h\n  producer:"),
        *(18, "sql.state_ttl", "no time-to-live", "late.after"),
    ),
]


@pytest.mark.parametrize(("change", "line", "key", "message", "instead"), ERRORS_OF_TOPICS)
def test_errors_of_topics(
    change: tuple[str, str], line: int, key: str, message: str, instead: str
) -> None:
    found = only(changed(TOPICS_JOB, change))
    assert found[:2] == (line, key)
    assert message in found[2]
    assert instead in found[3]


def test_a_topic_and_a_table_may_not_share_the_name_of_an_insert() -> None:
    table = '    schema: "id BIGINT"\n  - table: topic.big\n'
    text = changed(TOPICS_JOB, ('    schema: "id BIGINT"\n', table))
    assert only(text)[1:3] == (
        "sql.topics[0].topic",
        "two items would have an INSERT called topic__big",
    )


def test_two_tables_may_not_share_the_name_of_an_insert() -> None:
    text = changed(SQL_JOB, ("- table: ods.big", "- table: a__b.c\n  - table: a.b__c"))
    line, key, message, hint = only(text)[:4]
    assert (line, key) == (14, "tables[3].table")
    assert "a__b.c and a.b__c through one log, a__b__c" in message
    assert "another name" in hint


VIEWS_JOB = """\
job: clicks
lake: file:///data/lake
source: {kafka: {bootstrap_servers: "127.0.0.1:9092"}}
tables:
  - {topic: raw, table: raw.clicks, schema: "id BIGINT"}
  - {topic: "/web.*/", table: "ods.{topic}", schema: "id BIGINT"}
  - {table: ods.web_all}
sql: "INSERT INTO ods.web_all SELECT * FROM clicks;"
"""


def test_a_topic_may_not_become_the_dead_letters_of_a_table_that_sql_feeds() -> None:
    text = changed(VIEWS_JOB, ("table: ods.web_all", "table: ods.web_all, on_error: dead_letter"))
    assert job(text).tables[-1].sink_tables == ("ods.web_all", "ods.web_all__dead")
    with pytest.raises(JobFileInvalid, match=r"topic web\.all__dead .* SQL writes"):
        match_topics(job(text), ["raw", "web.all__dead"])


def test_a_topic_that_sql_writes_has_no_dead_letters() -> None:
    text = changed(
        SQL_JOB,
        ('sql: "', 'sql: {topics: [{topic: big, on_error: dead_letter}], text: "'),
        ('clicks;"', 'clicks;"}'),
    )
    with pytest.raises(JobFileInvalid, match=NO_DEAD_LETTERS):
        job(text)


@pytest.mark.parametrize("topic", ["web.all", "web_ALL"])
def test_a_topic_that_is_found_later_may_not_become_a_table_that_sql_writes(topic: str) -> None:
    with pytest.raises(JobFileInvalid, match=f"the topic {topic} .* which SQL writes"):
        match_topics(job(VIEWS_JOB), ["raw", topic])


def test_nor_may_a_table_that_sql_writes_be_its_dead_letters() -> None:
    text = changed(VIEWS_JOB, ("table: ods.web_all", "table: ods.web__dead"))
    text = changed(text, ("INTO ods.web_all", "INTO ods.web__dead"))
    with pytest.raises(JobFileInvalid, match=r"reserved for ods\.web"):
        match_topics(job(text), ["raw", "web"])


def test_two_tables_may_not_share_the_name_of_a_view() -> None:
    loaded = job(changed(VIEWS_JOB, ("/web.*/", "/.*s/")))
    views = match_topics(loaded, ["raw", "Clicks"])
    with pytest.raises(JobFileInvalid, match=r"ods\.Clicks and raw\.clicks"):
        check_views(loaded, views.values())
    check_views(loaded, match_topics(loaded, ["raw", "users"]).values())


@pytest.mark.parametrize(
    ("insert", "fills"),
    [
        ("INSERT INTO ods.bigger SELECT 1", "ods.bigger"),
        ("insert into table ods . `bigger` SELECT 1", "ods.bigger"),
        ("-- INSERT INTO ods.big\nINSERT INTO bigger SELECT 'INSERT INTO ods.big'", "bigger"),
        ("INSERT INTO ods.big SELECT 1; INSERT INTO ods.clicks SELECT 1", "ods.clicks"),
    ],
)
def test_an_insert_into_an_unknown_table_is_found_without_spark(insert: str, fills: str) -> None:
    text = changed(SQL_JOB, ("INSERT INTO ods.big SELECT * FROM clicks;", insert))
    (found,) = problems(text.replace(f'"{insert}"', json.dumps(insert)))
    assert str(found["message"]).endswith(
        f": {fills} is neither a sink table of the job nor a topic of `sql.topics`"
    )


@pytest.mark.parametrize(
    "insert",
    [
        "INSERT INTO TABLE ods.big SELECT 1",
        "INSERT OVERWRITE x SELECT 1",
        "INSERT INTO",
        "SELECT 1",
    ],
)
def test_what_is_no_such_insert_is_left_to_spark(insert: str) -> None:
    job(changed(SQL_JOB, ("INSERT INTO ods.big SELECT * FROM clicks;", insert)))
