"""One topic or table that stops a job: the error names it, and the topics that wait for it."""

import json
from collections.abc import Callable

import pytest
from tests.unit.topics.shop import TABLE, World

from ashore.errors import (
    AnswerUnknown,
    AshoreError,
    BatchFailed,
    FileConflict,
    FilesLost,
    OffsetsGone,
    SchemaConflict,
    SourceUnreachable,
    StorageError,
    StreamMissing,
    StreamReplaced,
    TableOwned,
)
from ashore.jobs.file import Job, parse_job
from ashore.log.positions import StreamShard
from ashore.log.store.owner import claim_tables
from ashore.topics.loop.waiting_topics import find_waiting, naming_waiting, show_waiting

TABLES = {"clicks": "ods.clicks", "orders": "ods.orders", "users": "ods.users"}
STAGED = "ods.db/orders/.ashore/shop/main/1/0-00.in-progress"


def wide_job(**changes: object) -> Job:
    """Return a job of three topics; `changes` are those of the table of clicks."""
    tables = [{**TABLE, **changes}] + [
        {**TABLE, "topic": topic, "table": f"ods.{topic}"} for topic in ("orders", "users")
    ]
    source = {
        "kafka": {"bootstrap_servers": "127.0.0.1:9092"},
        "first_start": {"default": "earliest"},
    }
    document = {"job": "shop", "lake": "file:///lake", "source": source, "tables": tables}
    return parse_job(json.dumps(document))


def gap(world: World) -> None:
    for _ in range(3):
        world.send("clicks")
    world.source.expire(StreamShard("clicks", "0"), 3)


def replace_topic(world: World) -> None:
    world.source.delete_and_recreate("clicks", 1)


@pytest.mark.parametrize(
    ("spoil", "changes", "error"),
    [
        (gap, {}, OffsetsGone),
        (replace_topic, {}, StreamReplaced),
        (lambda world: world.source.delete("clicks"), {}, StreamMissing),
        (lambda _world: None, {"format": "parquet"}, SchemaConflict),
    ],
)
def test_the_error_of_a_job_names_the_topics_that_wait(
    spoil: Callable[[World], object], changes: dict[str, object], error: type[AshoreError]
) -> None:
    world = World()
    for topic in TABLES:
        world.source.create(topic)
        world.send(topic)
    world.run(wide_job())
    spoil(world)
    with pytest.raises(error) as caught:
        world.run(wide_job(**changes))
    assert "clicks" in caught.value.message
    assert caught.value.message.endswith(" for it: orders, users")
    assert str(caught.value) == caught.value.message
    assert caught.value.to_dict()["waiting"] == ["orders", "users"]


def test_a_table_of_another_job_stops_the_topics_of_all_others() -> None:
    world = World()
    for topic in TABLES:
        world.source.create(topic)
    claim_tables(world.storage, ["ods.clicks__dead"], "other", 1)
    with pytest.raises(TableOwned) as caught, naming_waiting(TABLES):
        world.run(wide_job())
    assert caught.value.fields["waiting"] == ["orders", "users"]


@pytest.mark.parametrize(
    ("error", "waiting"),
    [
        (FilesLost("gone", paths=[STAGED]), ["clicks", "users"]),
        (FileConflict("other bytes", paths=["ods.db/orders__late/a-1.jsonl"]), ["clicks", "users"]),
        (OffsetsGone("gone", streams=["clicks", "users"]), ["orders"]),
        (OffsetsGone("gone", streams=sorted(TABLES)), []),  # none is left to wait
        (StreamReplaced("of another job", stream="payments"), []),
        (FilesLost("gone", paths=["ods.db/orders_2/a"]), []),
        (SourceUnreachable("no broker answers"), []),
        (AnswerUnknown("no answer", path=STAGED), []),  # the lake is away, and no table of it
    ],
)
def test_topics_wait_for_what_an_error_names(error: AshoreError, waiting: list[str]) -> None:
    assert find_waiting(error, TABLES) == waiting


@pytest.mark.parametrize(
    "error",
    [
        StorageError(f"cannot create {STAGED}: Permission denied", path=STAGED),
        BatchFailed(f"batch 7 failed: cannot create {STAGED}: Permission denied"),
        StorageError("cannot list ods.db/orders__dead: Permission denied"),
    ],
)
def test_an_error_of_the_lake_names_the_table_and_its_topic(error: AshoreError) -> None:
    before = error.message
    with pytest.raises(type(error)) as caught, naming_waiting(TABLES), naming_waiting(TABLES):
        raise error
    message = caught.value.message
    assert message.startswith(f"{before} (table ods.orders of topic orders)")
    assert message.endswith(" for it: clicks, users")
    shown = caught.value.to_dict()
    assert (shown["tables"], shown["topics"]) == (["ods.orders"], ["orders"])
    assert shown["waiting"] == ["clicks", "users"]


@pytest.mark.parametrize(
    "error",
    [
        AnswerUnknown(f"no answer for {STAGED} within 60 s", path=STAGED),
        StorageError("cannot list .ashore/shop/main/log: Permission denied"),
        StorageError("cannot list pods.db/orders_2: Permission denied"),
        BatchFailed("batch 7 failed: no broker answers"),
    ],
)
def test_an_error_of_no_table_of_the_job_names_none(error: AshoreError) -> None:
    before = error.message
    with pytest.raises(type(error)) as caught, naming_waiting(TABLES):
        raise error
    assert caught.value.message == before


def test_many_topics_are_counted() -> None:
    assert show_waiting([]) == ""
    topics = [f"t{number}" for number in range(7)]
    assert show_waiting(topics).endswith(": t0, t1, t2, t3, t4 and 2 more")


def test_an_error_is_completed_once() -> None:
    with pytest.raises(StreamReplaced) as caught, naming_waiting(TABLES), naming_waiting(TABLES):
        raise StreamReplaced("topic users was replaced", stream="users")
    message = caught.value.message
    assert message.startswith("topic users was replaced; ")
    assert message.endswith(" for it: clicks, orders")
