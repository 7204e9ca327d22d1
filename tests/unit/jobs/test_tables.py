"""Items of `tables` together, and topics matched with them."""

import pytest
from tests.unit.jobs.texts import first_words, only, problems

from ashore.errors import JobFileInvalid
from ashore.jobs.file import Job, TableName, match_topics, parse_job, select_topics
from ashore.log.tables import DEAD_DDL

HEAD = """\
job: clicks
lake: file:///data/lake
source: {kafka: {bootstrap_servers: "127.0.0.1:9092"}}
tables:
"""


def text(*items: str) -> str:
    """One item a line, from line 5: topic, table and more in flow style."""
    return HEAD + "".join(f'  - {{schema: "id BIGINT, ts BIGINT", {item}}}\n' for item in items)


def load(*items: str) -> Job:
    return parse_job(text(*items), path="clicks.yaml", check_schema=first_words, environment={})


@pytest.mark.parametrize(
    ("items", "line", "key", "message"),
    [
        (("topic: a, table: x.a", "topic: a, table: x.b"), 6, "tables[1].topic", "line 5 too"),
        (("topic: /a/, table: x.a", "topic: /a/, table: x.b"), 6, "tables[1].topic", "line 5 too"),
        (("topic: ab, table: x.a", "topic: /a.*/, table: x.b"), 5, "tables[0].topic", "line 6 too"),
        (("topic: /a.*/, table: x.a", "topic: ab, table: x.b"), 6, "tables[1].topic", "line 5 too"),
        (("topic: a, table: x.a", "topic: b, table: x.A"), 6, "tables[1].table", "case only"),
        (
            ("topic: a, table: x.a", "topic: b, table: x.a__dead"),
            6,
            "tables[1].table",
            "side table of x.a in line 5",
        ),
        (
            ("topic: b, table: x.a__late", "topic: a, table: x.a"),
            5,
            "tables[0].table",
            "side table of x.a in line 6",
        ),
        (
            ("topic: a, table: x.a", "topic: b, table: x.a, format: orc"),
            6,
            "tables[1].format",
            "in lines 5 and 6 differ in `format`",
        ),
        (
            ("topic: a, table: x.a", "topic: b, table: x.a, partition_by: [date]"),
            6,
            "tables[1].partition_by",
            "differ in `partition_by`",
        ),
        (
            ("topic: a, table: x.a", "topic: b, table: x.a, provenance: false"),
            6,
            "tables[1].provenance",
            "differ in `provenance`",
        ),
        (
            ("topic: a, table: x.a", "topic: b, table: x.a, late: {policy: keep}"),
            6,
            "tables[1].late",
            "differ in `late`",
        ),
        (
            ("topic: a, table: x.a", "topic: b, table: x.a, retention: 90d"),
            6,
            "tables[1].retention",
            "differ in `retention`",
        ),
        (
            ("topic: a, table: x.a, partition_by: [id], retention: 90d",),
            5,
            "tables[0].retention",
            "partition_by has no date",
        ),
        *(
            (
                (f"topic: a, table: x.a, format: {name}, partition_by: [id], retention: 90d",),
                *(5, "tables[0].retention", "in a table format"),
            )
            for name in ("delta", "iceberg")
        ),
        (
            ("topic: a, table: x.a, late: {after: 2h}, retention: 2h",),
            5,
            "tables[0].retention",
            "not longer than late.after",
        ),
    ],
)
def test_conflicts_are_refused(items: tuple[str, ...], line: int, key: str, message: str) -> None:
    found = only(text(*items))
    assert found[:2] == (line, key)
    assert message in found[2]
    assert found[3]


def test_another_schema_for_one_table_is_refused() -> None:
    both = text("topic: a, table: x.a", "topic: b, table: x.a")
    head, _, tail = both.rpartition("ts BIGINT")
    line, key, message, _ = only(f"{head}ts STRING{tail}")
    assert (line, key) == (6, "tables[1].schema")
    assert "differ in `schema`" in message
    parse_job(f"{head}ts   BIGINT{tail}")


def test_one_broken_item_hides_no_other_problem() -> None:
    found = problems(
        text("topic: a b, table: x.a", "topic: c, table: x.c", "topic: c, table: x.d, late: 1")
        + '  - {topic: c, table: x.e, schema: "id"}\n'
    )
    assert [(each["line"], each["key"]) for each in found] == [
        (5, "tables[0].topic"),
        (7, "tables[2].late"),
        (8, "tables[3].schema"),
        (8, "tables[3].topic"),
    ]


def test_several_topics_may_fill_one_table() -> None:
    job = load("topic: a, table: x.all", "topic: b, table: x.all", "topic: /c.*/, table: x.all")
    matched = match_topics(job, ["a", "b", "c1", "c2"])
    assert {each.table for each in matched.values()} == {TableName("x", "all")}
    assert matched["c2"].item == 2


def test_topics_become_tables() -> None:
    job = load('topic: /web\\..*/, table: "x.raw_{topic}", late: {policy: side}')
    matched = match_topics(job, ["web.clicks-eu"])["web.clicks-eu"]
    assert str(matched.table) == "x.raw_web_clicks_eu"
    assert matched.table.path == "x.db/raw_web_clicks_eu"
    assert matched.dead is not None
    assert (str(matched.dead.table), matched.dead.ddl) == ("x.raw_web_clicks_eu__dead", DEAD_DDL)
    assert matched.dead.partition_by == ("date",)
    assert matched.late is not None
    assert matched.late.table.path == "x.db/raw_web_clicks_eu__late"
    assert matched.late.ddl == "id BIGINT, ts BIGINT"
    assert matched.late.partition_by == ("date", "hour")


def test_side_tables_come_only_where_they_are_used() -> None:
    matched = match_topics(load("topic: a, table: x.a, on_invalid: drop"), ["a"])["a"]
    assert matched.dead is None
    assert matched.late is None


@pytest.mark.parametrize(
    ("items", "topics", "key", "message"),
    [
        (("topic: a, table: x.a",), ["b"], "tables", "b is matched by no"),
        (
            ("topic: /a.*/, table: x.a", "topic: /.*b/, table: x.b"),
            ["ab"],
            "tables[1].topic",
            "in lines 5 and 6",
        ),
        (('topic: /.*/, table: "x.{topic}"',), ["a.b", "a_b"], "tables[0].table", "both become"),
        (('topic: /.*/, table: "x.{topic}"',), ["A", "a"], "tables[0].table", "both become"),
        (
            ("topic: /a.*/, table: x.b", 'topic: /b/, table: "x.{topic}"'),
            ["a1", "a2", "b"],
            "tables[1].table",
            "both become x.b",
        ),
        (
            ('topic: /.*/, table: "x.{topic}"',),
            ["a", "a__dead"],
            "tables[0].table",
            "reserved for x.a",
        ),
        (
            ('topic: /.*/, table: "x.{topic}"',),
            ["_a"],
            "tables[0].table",
            "no table name",
        ),
    ],
)
def test_topics_that_do_not_fit(
    items: tuple[str, ...], topics: list[str], key: str, message: str
) -> None:
    job = load(*items)
    with pytest.raises(JobFileInvalid) as caught:
        match_topics(job, topics)
    found = caught.value.fields["problems"]
    assert isinstance(found, list)
    assert len(found) == 1, found
    assert found[0]["key"] == key
    assert found[0]["file"] == "clicks.yaml"
    assert message in found[0]["message"]


def test_selected_topics_are_the_named_and_the_matched() -> None:
    job = load(
        "topic: named, table: x.a", "topic: /web.*/, table: x.b", "topic: /__.*/, table: x.c"
    )
    existing = ["web1", "other", "__consumer_offsets", "myweb"]
    assert select_topics(job, existing) == ("named", "web1")


def test_many_items_are_compared_quickly() -> None:
    job = load(*(f"topic: t{n}, table: x.t{n}" for n in range(150)))
    assert len(match_topics(job, [f"t{n}" for n in range(150)])) == 150


@pytest.mark.parametrize(
    ("more", "key", "message"),
    [
        ("mask: {user: null}", "tables[0].mask", "user is not a column of the schema"),
        ("mask: {ts: last4}", "tables[0].mask", "ts is BIGINT, and last4 is for STRING"),
        ("mask: {ts: md5}", "tables[0].mask", "ts: md5 is no mask"),
        ("mask: {ts: null}, event_time: {column: ts}", "tables[0].mask", "ts is the event time"),
    ],
)
def test_a_mask_that_cannot_be_applied_is_refused(more: str, key: str, message: str) -> None:
    _, where, found, _ = only(text(f"topic: a, table: x.a, {more}"))
    assert (where, message in found) == (key, True)


def test_a_plain_null_is_a_mask() -> None:
    assert load("topic: a, table: x.a, mask: {ts: null}").tables[0].mask == {"ts": "null"}
