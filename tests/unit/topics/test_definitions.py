"""A job's tables against those that its log knows: what is refused, told, accepted, recorded."""

import json
from dataclasses import replace
from itertools import combinations, product
from typing import Any

import pytest
from tests.unit.topics.shop import (
    LEFT,
    NAME,
    QUERY,
    RESULT,
    World,
    define_job,
    document_of,
    job_of,
    job_tables,
    landed_world,
    open_sink,
)

from ashore.errors import AshoreError, JobFileInvalid, SchemaConflict
from ashore.fleet.server.log_follower import notices_of
from ashore.fleet.server.pages.log_view import describe_entry
from ashore.jobs.file import Job, parse_job
from ashore.log.entries import Define, Prepare
from ashore.log.query_history import tables_in
from ashore.log.store.reader import read_history, read_log
from ashore.topics.loop.definitions import define, definition_of, plan_define
from ashore.topics.loop.job import columns_of
from ashore.topics.loop.registrar import catalog_tables
from ashore.topics.write.batch import OutputSpec
from ashore_lab.testing import RecordedSource


@pytest.fixture
def world() -> World:
    return landed_world()


REFUSED = [
    ({"schema": "id STRING, s STRING NOT NULL, ts BIGINT"}, "from INT to STRING"),
    ({"schema": "id SMALLINT, s STRING NOT NULL, ts BIGINT"}, "from INT to SMALLINT"),
    ({"partition_by": ["s"]}, r"by \(\), .* by \(s\)"),
    ({"format": "parquet"}, "are jsonl, .* parquet"),
]
RISKY = [
    ({"schema": "id INT, ts BIGINT"}, "column s is dropped"),
    ({"schema": "id INT NOT NULL, s STRING NOT NULL, ts BIGINT"}, "id is NOT NULL"),
    ({"timezone": "Asia/Shanghai"}, "zone UTC, .* Asia/Shanghai"),
    ({"provenance": False}, "lack the columns of `provenance`"),
    ({"generation": False}, "lack the column kafka_generation"),
    (
        {"topic": "orders"},
        "rows of topic clicks, .*; orders would land",
    ),
]
ALLOWED = [
    ({"schema": "id INT, s STRING NOT NULL, ts BIGINT, more STRING"}, "more STRING is added"),
    ({"schema": "id BIGINT, s STRING NOT NULL, ts BIGINT"}, "from INT to BIGINT: widened"),
    ({"schema": "id INT, s STRING, ts BIGINT"}, "s is no longer NOT NULL"),
    ({"topic": "/clicks|orders/"}, "topic orders lands in"),
    ({"provenance": "headers"}, "kafka_headers is added"),
]


def test_a_first_start_records_the_table_and_another_one_nothing(world: World) -> None:
    assert world.run(job_of()) == []
    [first] = world.defined()
    [table] = first.tables
    assert (table.table, table.topics, table.format) == ("ods.clicks", ("clicks",), "jsonl")
    assert [(each.name, each.type, each.nullable) for each in table.columns] == [
        ("id", "INT", True), ("s", "STRING", False), ("ts", "BIGINT", True),
    ]  # fmt: skip


@pytest.mark.parametrize("accepted_by", ["", "ana"])
@pytest.mark.parametrize(("change", "said"), REFUSED)
def test_what_no_reader_can_stand_is_refused_whoever_accepts_it(
    world: World, change: dict[str, Any], said: str, accepted_by: str
) -> None:
    end = read_log(world.storage, NAME).end
    with pytest.raises(SchemaConflict, match=said) as refused:
        world.run(job_of(**change), accepted_by)
    assert "another table" in refused.value.hint
    assert "--accept-schema" not in refused.value.hint
    assert read_log(world.storage, NAME).end == end  # who runs the job is not fenced


@pytest.mark.parametrize(("change", "said"), RISKY)
def test_what_is_risky_is_refused_until_somebody_accepts_it(
    world: World, change: dict[str, Any], said: str
) -> None:
    end = read_log(world.storage, NAME).end
    with pytest.raises(SchemaConflict, match=said) as refused:
        world.run(job_of(**change))
    assert "--accept-schema" in refused.value.hint
    assert read_log(world.storage, NAME).end == end
    [reported] = world.run(job_of(**change), "ana")
    assert reported.endswith("accepted by ana")
    last = world.defined()[-1]
    assert (last.by, len(last.accepted)) == ("ana", 1)
    assert world.run(job_of(**change)) == []  # accepted once


@pytest.mark.parametrize(("change", "said"), ALLOWED)
def test_what_readers_can_stand_is_reported_and_recorded_before_it_is_written(
    world: World, change: dict[str, Any], said: str
) -> None:
    [reported] = world.run(job_of(**change), "ana")
    assert said in reported
    assert "union_by_name" in reported
    history = [entry.body for entry in read_history(world.storage, NAME)]
    defined = [index for index, body in enumerate(history) if isinstance(body, Define)]
    written = [index for index, body in enumerate(history) if isinstance(body, Prepare)]
    assert len(defined) == 2
    assert defined[-1] < written[-1]
    assert history[defined[-1]].by == ""
    assert world.run(job_of(**change)) == []


@pytest.mark.parametrize(
    "changes", list(combinations([*ALLOWED, *RISKY, *REFUSED], 2)), ids=lambda _each: ""
)
def test_two_changes_are_judged_as_the_worse_of_them(changes: tuple[Any, Any]) -> None:
    (first, _), (second, _) = changes
    if first.keys() & second.keys() and first != second:
        return  # they cannot be made both
    if {"s"} == set(second.get("partition_by", ())) and " s " not in first.get("schema", " s "):
        return
    known = define_job(job_of())
    for each, accepted_by in product([first, second], ["", "ana"]):
        if _raises(known, job_of(**each), accepted_by):
            assert _raises(known, job_of(**{**first, **second}), accepted_by)


def _raises(before: Define, job: Job, accepted_by: str) -> bool:
    known = {each.table: each for each in before.tables}
    try:
        define(plan_define(known, job_tables(job, known)), lambda _text: None, accepted_by)
    except SchemaConflict:
        return True
    return False


ADDED = "the column kafka_generation is added, and generation to its dead letters: older rows"


def generations(world: World) -> list[bool]:
    return [each.generation for define in world.defined() for each in define.tables]


def test_a_new_table_has_generations_and_one_that_the_log_knows_only_if_asked() -> None:
    world = World()
    for topic in ("clicks", "orders"):
        world.source.create(topic)
        world.send(topic)
    old = job_of(generation=False)
    world.run(old)
    assert world.run(job_of()) == []  # an upgrade changes no table
    world.run(job_of(schema="id BIGINT, s STRING NOT NULL, ts BIGINT"))
    assert generations(world) == [False, False]
    [note] = world.run(job_of(generation=True, schema="id BIGINT, s STRING NOT NULL, ts BIGINT"))
    assert ADDED in note
    [widened] = world.run(job_of(topic="/clicks|orders/", table="ods.{topic}", schema=WIDE))
    assert widened.startswith("ods.clicks: column more STRING is added")
    tables = read_log(world.storage, NAME).tables
    assert {name: each.generation for name, each in tables.items()} == {
        "ods.clicks": True,
        "ods.orders": True,
    }


WIDE = "id BIGINT, s STRING NOT NULL, ts BIGINT, more STRING"


def test_a_table_of_a_log_without_definitions_gets_no_generation(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files of a release that defined no tables are there already."""
    world = World()
    world.source.create("clicks")
    world.send()
    no_define = replace(plan_define({}, []), tables=())
    with monkeypatch.context() as patch:
        patch.setattr("ashore.topics.loop.slice_loop.plan_define", lambda *_: no_define)
        world.run(job_of())
    world.send()
    world.run(job_of())
    assert generations(world) == [False]


def test_a_schema_keeps_its_own_column_of_that_name() -> None:
    world = World()
    world.source.create("clicks")
    world.send()
    own = "id INT, s STRING NOT NULL, ts BIGINT, Kafka_Generation INT"
    world.run(job_of(schema=own))
    assert generations(world) == [False]
    with pytest.raises(JobFileInvalid, match="also added by generation"):
        parse_job(json.dumps(document_of(schema=own, generation=True)), check_schema=columns_of)


def test_a_topic_that_is_gone_for_a_while_still_feeds_its_table() -> None:
    world = World()
    world.source.create("clicks")
    world.source.create("orders")
    job = job_of(topic="/clicks|orders/")
    world.send()
    world.run(job)
    world.source = RecordedSource()
    world.source.create("other")
    world.source.create("orders")  # the identity that it had
    assert world.run(job) == []
    [defined] = world.defined()
    assert defined.tables[0].topics == ("clicks", "orders")


MOVE = "topic clicks was landed in {} and is landed in {} from now on; earlier rows stay in {}"


def test_a_table_that_is_renamed_is_reported_once_and_the_way_back_too(world: World) -> None:
    visits, clicks = job_of(table="ods.visits"), job_of()
    assert world.run(visits) == [MOVE.format("ods.clicks", "ods.visits", "ods.clicks")]
    assert world.run(visits) == []
    last = {each.table: each.topics for each in world.defined()[-1].tables}
    assert last == {"ods.visits": ("clicks",), "ods.clicks": ()}
    [back, again] = world.run(clicks)
    assert back == MOVE.format("ods.visits", "ods.clicks", "ods.visits")
    assert again.startswith("ods.clicks: topic clicks lands in")
    assert world.run(clicks) == []


def test_a_table_that_is_renamed_and_changed_is_compared_with_none(world: World) -> None:
    job = job_of(table="ods.visits", format="parquet")
    [moved] = world.run(job)
    assert moved.startswith("topic clicks was landed")
    with pytest.raises(SchemaConflict):  # what its own rows are is known all the same
        world.run(job_of(format="parquet"))


def test_topics_of_an_expression_that_get_a_table_of_their_own_are_reported(world: World) -> None:
    world = World()
    for topic in ("clicks", "orders"):
        world.source.create(topic)
        world.send(topic)
    world.run(job_of(topic="/clicks|orders/", table="ods.all"))
    [left, moved] = world.run(job_of(topic="orders", table="ods.orders"))
    assert left == LEFT.format("clicks", "ods.all", "ods.all")
    assert moved.startswith("topic orders was landed")
    assert "ods.all and is landed in ods.orders" in moved
    assert world.run(job_of(topic="orders", table="ods.orders")) == []


def test_a_notice_of_an_entry_has_the_move_with_both_names(world: World) -> None:
    world.run(job_of(table="ods.visits"))
    known: dict[str, Any] = {}
    notices = []
    for entry in read_history(world.storage, NAME):
        notices += [fields for _, fields in notices_of(entry, "main", known)]
        known |= {each.table: each for each in tables_in(entry.body)}
    assert [each["changes"] for each in notices] == [
        [], [MOVE.format("ods.clicks", "ods.visits", "ods.clicks")],
    ]  # fmt: skip
    assert [describe_entry(each) for each in world.defined()] == [
        "columns of ods.clicks (topic clicks)",
        MOVE.format("ods.clicks", "ods.visits", "ods.clicks"),
    ]


def test_a_log_of_an_earlier_release_learns_of_its_tables_at_the_first_start(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = World(source=world.source)
    with monkeypatch.context() as earlier:
        earlier.setattr("ashore.topics.loop.job_streams.define_tables", lambda *_: [])
        old.run(job_of())
    assert old.defined() == []
    assert old.run(job_of(format="jsonl")) == []
    assert len(old.defined()) == 1


# ---- tables that SQL writes


@pytest.mark.parametrize(
    ("changed", "is_accepted"),
    [
        (replace(RESULT, schema="n INT"), None),
        (replace(RESULT, format="orc"), None),
        (replace(RESULT, partition_by=()), None),
        (replace(RESULT, schema="m BIGINT"), True),
        (replace(RESULT, timezone="Europe/Berlin"), True),
        (replace(RESULT, schema="n BIGINT, m BIGINT"), False),
    ],
)
def test_the_table_of_a_query_is_compared_too(
    changed: OutputSpec, is_accepted: bool | None
) -> None:
    world = World()
    assert open_sink(world, RESULT) == open_sink(world, RESULT) == []
    end = read_log(world.storage, QUERY).end
    if is_accepted is not False:
        with pytest.raises(SchemaConflict):
            open_sink(world, changed)
        assert read_log(world.storage, QUERY).end == end
    if is_accepted is None:
        return
    assert open_sink(world, changed, "ana")
    fold = read_log(world.storage, QUERY)
    assert fold.tables["ods.result"] == definition_of(changed)
    assert fold.unclosed is None
    assert open_sink(world, changed) == []


def test_errors_are_ones_that_stop_a_job() -> None:
    assert issubclass(SchemaConflict, AshoreError)
    assert SchemaConflict.exit_code == 4


def test_headers_of_the_dead_letters_of_a_query_are_added_and_not_taken_away(
    world: World,
) -> None:
    plain = replace(RESULT, leaves_aside=True)
    with_headers = replace(plain, headers_aside=True)
    open_sink(world, plain)
    [note] = open_sink(world, with_headers)
    assert "column headers is added" in note
    with pytest.raises(SchemaConflict, match="lack the column headers"):
        open_sink(world, plain)
    tables = catalog_tables(with_headers, "file:///lake", "shop")
    assert ["headers" in each.columns.names for each in tables] == [False, True]
    assert not any("kafka_headers" in each.columns.names for each in tables)
