"""What a job file changes in the rows of topics, and in the topics: reported once, and recorded."""

import json
from dataclasses import replace
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
    jobs_of,
    landed_world,
    open_sink,
)

from ashore.errors import SchemaConflict
from ashore.fleet.server.pages.log_view import describe_entry
from ashore.jobs.file import Job, match_topics, parse_job
from ashore.log.progress import Quiet
from ashore.log.query import PlanState
from ashore.log.store.reader import read_log
from ashore.plans.graph import released_plan, write_stored
from ashore.proof.status.status import read_status
from ashore.topics.loop.assembly import JobAssembly
from ashore.topics.loop.definitions import plan_define
from ashore.topics.loop.job import rules_of
from ashore.topics.loop.sinks import REMOVED, find_removed
from ashore.topics.open_job import OpenJob
from ashore.topics.use.table_changes import check_table_changes, describe_pending


@pytest.fixture
def world() -> World:
    return landed_world()


def test_a_topic_that_the_job_drops_is_reported_once_and_its_return_too() -> None:
    world = World()
    for topic in ("clicks", "orders"):
        world.source.create(topic)
        world.send(topic)
    both = jobs_of({}, {"topic": "orders", "table": "ods.orders"})
    world.run(both)
    assert world.run(job_of()) == [LEFT.format("orders", "ods.orders", "ods.orders")]
    assert world.defined()[-1].changes == (LEFT.format("orders", "ods.orders", "ods.orders"),)
    assert world.run(job_of()) == []
    [again] = world.run(both)
    assert again.startswith("ods.orders: topic orders lands in")


def test_a_table_of_an_expression_whose_topic_is_gone_for_a_while_is_not_dropped() -> None:
    world = World()
    world.source.create("clicks")
    world.source.create("orders")
    job = job_of(topic="/clicks|orders/", table="ods.{topic}")
    world.run(job)
    world.source.delete("orders")
    assert world.run(job) == []
    assert read_log(world.storage, NAME).tables["ods.orders"].topics == ("orders",)


OLD_LATE = "rehome, after 2.0 h, future_max 1.0 h"
LATE = "side, after 1.0 h, future_max 1.0 h"
RULES = [
    ({"event_time": {"column": "ts", "unit": "s"}}, "event_time changed from `ts, ms` to `ts, s`"),
    (
        {"late": {"policy": "side", "after": "1h"}},
        f"late changed from `{OLD_LATE}` to `{LATE}`",
    ),
    ({"on_invalid": "drop"}, "on_invalid changed from `dead_letter` to `drop`"),
]
FROM_NOW_ON = "; it applies to records read from now on"


@pytest.mark.parametrize(("change", "words"), RULES)
def test_other_rows_of_the_same_topic_are_reported_once_with_both_values(
    world: World, change: dict[str, Any], words: str
) -> None:
    text = f"ods.clicks: {words}{FROM_NOW_ON}"
    assert world.run(job_of(**change)) == [text]
    assert world.defined()[-1].changes == (text,)
    assert describe_entry(world.defined()[-1]) == text
    assert world.run(job_of(**change)) == []
    [back] = world.run(job_of())
    assert back.startswith(f"ods.clicks: {words.partition(' ')[0]} changed from `")


def test_a_log_that_does_not_know_the_rules_learns_them_without_a_word(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World()
    world.source.create("clicks")
    world.send()
    with monkeypatch.context() as patch:
        patch.setattr("ashore.topics.loop.job.rules_of", lambda _items: ())
        world.run(job_of())
    assert world.defined()[-1].tables[0].rules == ()
    assert world.run(job_of(where="id > 1")) == []
    assert dict(world.defined()[-1].tables[0].rules)["where"] == "id > 1"
    [back] = world.run(job_of())
    assert back.startswith("ods.clicks: where changed from `id > 1` to")


def test_items_of_one_table_that_differ_name_their_topics() -> None:
    world = World()
    for topic in ("clicks", "orders"):
        world.source.create(topic)
    world.run(jobs_of({}, {"topic": "orders", "where": "id > 1"}))
    [note] = world.run(jobs_of({}, {"topic": "orders", "where": "id > 2"}))
    assert note.startswith("ods.clicks: where of topic orders ")
    assert note.endswith(f"from `id > 1` to `id > 2`{FROM_NOW_ON}")


def test_keys_that_only_shape_files_are_not_reported(world: World) -> None:
    assert world.run(job_of(roll={"size": "1MB"}, seal={"delay": "1m"})) == []


def test_what_spark_computes_and_what_retention_drops_are_rules_too() -> None:
    old = job_of(partition_by=["date"], retention="90d")
    new = job_of(partition_by=["date"], retention="7d", where="id > 1", select=["id", "ts"])
    known = {each.table: each for each in define_job(old).tables}
    notes = plan_define(known, job_tables(new, known)).notes
    assert all(each.startswith("ods.clicks: ") and each.endswith(FROM_NOW_ON) for each in notes)
    assert [each.removesuffix(FROM_NOW_ON).split(" ", 2)[1:] for each in notes] == [
        ["retention", "changed from `90.0 d` to `7.0 d`"],
        ["select", "changed from none to `id, ts`"],
        ["where", "changed from none to `id > 1`"],
    ]


def test_a_table_of_sql_that_a_topic_fills_from_now_on_is_compared_and_reported(
    world: World,
) -> None:
    written = replace(
        RESULT,
        table="ods.orders",
        schema="id INT, s STRING NOT NULL",
        format="jsonl",
        partition_by=(),
    )
    open_sink(world, written, name="ods__orders")
    item = {"topic": "orders", "table": "ods.orders"}
    with pytest.raises(SchemaConflict, match="are jsonl, new files"):
        world.run(job_of(**item, format="parquet"))
    notes = world.run(job_of(**item))
    taken = "ods.orders was written by SQL and is landed from topic orders from now on"
    assert f"{taken}; its earlier rows stay" in notes
    assert any("column ts BIGINT is added" in each for each in notes)
    assert world.run(job_of(**item)) == []


def test_a_table_of_a_topic_that_sql_writes_from_now_on_is_compared_and_reported(
    world: World,
) -> None:
    result = replace(RESULT, table="ods.clicks", format="jsonl", partition_by=())
    with pytest.raises(SchemaConflict, match="are jsonl, new files"):
        open_sink(world, replace(result, format="parquet"), name="ods__clicks")
    rows = replace(result, schema="id INT, s STRING NOT NULL, ts BIGINT")
    with pytest.raises(SchemaConflict, match="lack the columns of `provenance`"):
        open_sink(world, rows, name="ods__clicks")
    notes = open_sink(world, rows, "ana", name="ods__clicks")
    assert notes[0].startswith("ods.clicks was landed from a topic")
    assert open_sink(world, rows, name="ods__clicks") == []


def test_a_job_that_lands_nothing_any_more_reports_it_once(world: World) -> None:
    document = document_of(land=False, on_invalid="drop")
    document["tables"].append({"table": "ods.big"})
    document["sql"] = "INSERT INTO ods.big SELECT * FROM clicks"
    job = parse_job(json.dumps(document))
    assert JobAssembly(job, world.environment(Quiet(), "")).has_topics, "to report what it left"
    assert world.run(job) == [LEFT.format("clicks", "ods.clicks", "ods.clicks")]
    assert not JobAssembly(job, world.environment(Quiet(), "")).has_topics


def test_a_look_before_a_start_has_what_the_start_reports(world: World) -> None:
    def look(job: Job) -> tuple[str, ...]:
        resolved = match_topics(job, ["clicks"])
        return check_table_changes(job, resolved, read_log(world.storage, NAME)).reported

    assert look(job_of()) == ()
    changed = job_of(on_invalid="drop", table="ods.visits")
    assert list(look(changed)) == world.run(changed)
    selected = job_of(table="ods.visits", on_invalid="drop", select=["id"])
    [note] = look(selected)
    assert note.startswith("ods.visits: select changed from none")
    assert note.endswith(f"`id`{FROM_NOW_ON}")


def test_a_table_that_is_renamed_with_other_rules_has_both_reported(world: World) -> None:
    renamed = job_of(on_invalid="drop", table="ods.visits")
    [moved, rule] = world.run(renamed)
    assert moved.startswith("topic clicks was landed")
    assert "ods.clicks and is landed in ods.visits" in moved
    text = "ods.visits, compared with ods.clicks: on_invalid changed from `dead_letter` to `drop`"
    assert rule == f"{text}{FROM_NOW_ON}"
    assert world.run(renamed) == []
    text = "ods.clicks, compared with ods.visits: on_invalid changed from `drop` to `dead_letter`"
    assert f"{text}{FROM_NOW_ON}" in world.run(job_of())


def test_an_insert_that_the_job_file_no_longer_has_is_reported(world: World) -> None:
    def find(job: Job) -> tuple[str, ...]:
        return find_removed(world.storage, job)

    queried = document_of(land=False, on_invalid="drop")
    queried["tables"].append({"table": "ods.result"})
    queried["sql"] = "INSERT INTO ods.result SELECT * FROM clicks"
    assert find(job_of()) == ()
    open_sink(world, RESULT)
    open_sink(world, RESULT, name="topic__results")
    assert find(parse_job(json.dumps(queried)))[0].startswith("topic results was filled")
    [table, topic] = find(job_of())
    assert table == REMOVED.format("ods.result")
    assert topic == REMOVED.format("topic results")
    sink = JobAssembly(job_of(), world.environment(Quiet(), "")).sink(QUERY, RESULT, 1_000)
    sink.open()
    sink.take_plan(PlanState("d" * 64, write_stored(released_plan("one"))))
    assert find(job_of()) == (topic,), "a migration has dropped the other one"


def test_status_has_the_rules_of_rows_and_what_the_next_start_reports(world: World) -> None:
    def opened(job: Job) -> OpenJob:
        return OpenJob(job, world.storage, world.source, world.clock)

    [main] = read_status(opened(job_of())).to_dict()["slices"]
    assert {each["table"]: each["rules"] for each in main["tables"]} == {
        "ods.clicks": dict(rules_of([*job_of().tables]))
    }
    assert describe_pending(opened(job_of())) == ()
    changed = job_of(on_invalid="drop", table="ods.visits")
    assert list(describe_pending(opened(changed))) == world.run(changed)
    [refused] = describe_pending(opened(job_of(table="ods.visits", format="parquet")))
    assert refused.startswith("a start is refused: ")
    assert "are jsonl, new files" in refused
