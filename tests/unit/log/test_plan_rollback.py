"""Taking a query's table back: what goes, what is refused, and what a fold makes of it."""

from dataclasses import replace

import pytest
from tests.strategies import Chain, Part, key_of

from ashore.errors import LogDamaged
from ashore.log.entries import (
    Commit,
    Query,
    Retire,
    RetiredPartition,
    Rollback,
    Seal,
    SealedPartition,
    Skip,
)
from ashore.log.names import SliceName
from ashore.log.plan_commit import Publishing, find_moves, plan_commit
from ashore.log.plan_rollback import NoRollback, Wish, plan_rollback
from ashore.log.positions import OffsetRange, ShardRange
from ashore.log.query_history import LandedBatch, read_landed_batches

KEY, OTHER = key_of(0), key_of(1)
NAME = SliceName("job", "insert")


def chain_of(batches: int) -> Chain:
    """A log of so many batches: ten offsets and a file each, in hour 8 or 9 by turns."""
    chain = Chain.started(KEY, OTHER)
    for number in range(batches):
        land(chain, number)
    return chain


def land(chain: Chain, number: int, lineage: str = "") -> None:
    query = Query("q", number, lineage or f"lineage-{number}")
    chain.add(chain.query_batch(query, Part(KEY, 10, {8 + number % 2: 4})))
    chain.add(Commit("query"))


def wish(batch: int) -> Wish:
    return Wish(batch, "ana", "the SQL was wrong")


def plan(chain: Chain, batch: int) -> Rollback:
    body = plan_rollback(chain.fold, batches_of(chain), wish(batch))
    assert isinstance(body, Rollback), body
    return body


def refusal(chain: Chain, batch: int, batches: dict[int, LandedBatch] | None = None) -> str:
    found = plan_rollback(
        chain.fold, batches_of(chain) if batches is None else batches, wish(batch)
    )
    assert isinstance(found, NoRollback)
    assert found.hint
    return found.text


def batches_of(chain: Chain, first: int = 0) -> dict[int, LandedBatch]:
    return read_landed_batches(chain.entries, first)


def test_what_came_after_the_batch_is_given_back() -> None:
    chain = chain_of(5)
    before = chain_of(3).fold
    body = plan(chain, 2)
    assert body.shards == (ShardRange(KEY, OffsetRange(30, 50)),)
    assert [each.batch for each in body.files] == [3, 4]
    assert (body.query.lineage, body.before, body.by) == ("lineage-2", "lineage-1", "ana")

    chain.add(body)

    fold = chain.fold
    assert fold.query == before.query
    assert {key: state.next for key, state in fold.shards.items()} == {KEY: 30, OTHER: 0}
    counts = {key: (state.rows, state.files) for key, state in fold.partitions.items()}
    assert counts == {key: (each.rows, each.files) for key, each in before.partitions.items()}
    assert fold.next_batch == 5
    steps = plan_commit(NAME, fold, Publishing(True))
    moves = find_moves(steps)
    assert len(moves) == 2
    for place in moves:
        assert place.leaves
        assert "/_aside-insert-" in place.final
        assert place.final.endswith(place.pending.rpartition("/")[2])


def test_it_goes_on_from_there_and_back_again() -> None:
    chain = chain_of(5)
    chain.add(plan(chain, 2))
    chain.add(Commit("recovery"))
    land(chain, 3, "other")
    found = batches_of(chain)
    assert [each.query.lineage for each in found.values()] == [
        *(f"lineage-{number}" for number in range(3)),
        "other",
    ]
    body = plan(chain, 0)
    assert [each.batch for each in body.files] == [1, 2, 5]
    chain.add(body)
    assert chain.fold.shards[KEY].next == 10


def test_all_but_the_first_batch_can_go() -> None:
    chain = chain_of(2)
    assert plan(chain, 0).before == ""


def test_files_that_are_gone_on_purpose_are_not_named() -> None:
    chain = chain_of(2)
    parts = (Part(KEY, 10, {8: 4}), Part(OTHER, 10, {9: 4}))
    body = chain.query_batch(Query("q", 2, "lineage-2"), *parts)
    chain.add(body)
    lost, *_, kept = body.files
    chain.add(Skip((), chain.fold.end, (lost.unique,), (), "ana", "the disk is gone"))
    land(chain, 3)
    retired = body.targets[kept.target]
    chain.add(Retire((RetiredPartition(*retired.key),), "ana", "too old"))
    names = {each.file.unique for each in plan(chain, 1).files}
    assert not names & {lost.unique, kept.unique}
    chain.add(plan(chain, 1))


def test_what_cannot_be_rolled_back_is_refused() -> None:
    chain = chain_of(3)
    assert "no batch" in refusal(Chain.started(KEY), 0)
    assert "not after batch 2" in refusal(chain, 2)
    assert "does not have batch 0" in refusal(chain, 1, batches_of(chain, 1))
    partition = next(iter(chain.fold.partitions.values()))
    sealed = SealedPartition(partition.table, partition.partition, 1, 4, 4, 1)
    chain.add(Seal((sealed,), (), ()))
    chain.add(Commit("idle"))
    assert "is sealed" in refusal(chain, 0)


def test_rows_in_a_topic_are_not_taken_back() -> None:
    chain = chain_of(1)
    body = chain.query_batch(Query("q", 1, "lineage-1"), Part(KEY, 10, {}))
    chain.add(replace(body, shards=tuple(replace(each, table="") for each in body.shards)))
    chain.add(Commit("query"))
    assert "in a topic" in refusal(chain, 0)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"shards": (ShardRange(KEY, OffsetRange(30, 40)),)}, "not the end"),
        ({"shards": (ShardRange(key_of(7), OffsetRange(0, 0)),)}, "not the end"),
        ({"query": Query("q", 4, "lineage-4")}, "from batch 4 to 4"),
        ({"query": Query("other", 2, "lineage-2")}, "not its own"),
        ({"entry": 99}, "rolls back to entry 99"),
    ],
)
def test_a_rollback_that_does_not_follow_damages_the_log(
    changes: dict[str, object], reason: str
) -> None:
    chain = chain_of(5)
    body = replace(plan(chain, 2), **changes)
    with pytest.raises(LogDamaged, match=reason):
        chain.add(body)


def test_files_that_the_partition_does_not_have_damage_the_log() -> None:
    chain = chain_of(5)
    body = plan(chain, 2)
    more = replace(body.files[0], file=replace(body.files[0].file, rows=1000))
    with pytest.raises(LogDamaged, match="has no such files"):
        chain.add(replace(body, files=(more, *body.files[1:])))


def test_a_rollback_forgets_the_watermark_and_the_next_batch_has_its_own():
    """It is that of the checkpoint, which is rolled back too."""
    chain = chain_of(1)
    for number, watermark_ms in [(1, 500), (2, 900)]:
        batch = chain.query_batch(Query("q", number, f"lineage-{number}"), Part(KEY, 10, {8: 4}))
        time = replace(batch.time, watermarks=(("ods.clicks", watermark_ms),))
        chain.add(replace(batch, time=time))
        chain.add(Commit("query"))
    assert chain.fold.watermarks == {"ods.clicks": 900}
    chain.add(plan(chain, 1))
    assert chain.fold.watermarks == {}
