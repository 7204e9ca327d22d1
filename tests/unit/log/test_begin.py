"""A log that begins after a batch of a query: what may come before, and what may follow."""

from dataclasses import replace

import pytest
from tests.strategies import Chain, Part, key_of

from ashore.errors import LogDamaged
from ashore.log.entries import Begin, Commit, Joined, Plan, Query, Rollback, next_version
from ashore.log.plan_query import (
    CheckpointPosition,
    CutAlike,
    DiscardRows,
    QueryBatch,
    Refusal,
    Refuse,
    Start,
    WriteRows,
    plan_query_batch,
    plan_start,
)
from ashore.log.plan_rollback import NoRollback, Wish, plan_rollback
from ashore.log.positions import OffsetRange, ShardRange
from ashore.log.query import PlanState, QueryState, link
from ashore.log.query_history import read_landed_batches
from ashore.log.snapshot import read_snapshot, write_snapshot

KEY = key_of(0)
BATCH, OFFSET = 7, 100
BEGIN = Begin(
    query=Query("q", BATCH, "lineage-7"),
    shards=(Joined(KEY, "id", OFFSET, "savepoint"),),
    digest="plan",
    document="{}",
    owner="clicks/ods__old",
    savepoint="/saved/savepoint-7-0000000000000000",
    by="ana",
    why="the table is moved",
)


def begun(body: Begin = BEGIN) -> Chain:
    chain = Chain()
    chain.open()
    chain.add(body)
    return chain


def land(chain: Chain, number: int, lineage: str = "") -> None:
    query = Query("q", number, lineage or f"lineage-{number}")
    chain.add(chain.query_batch(query, Part(KEY, 10, {8: 4})))
    chain.add(Commit("query"))


def landed(*numbers: int) -> Chain:
    chain = begun()
    for number in numbers:
        land(chain, number)
    return chain


# ---- the fold


def test_what_follows_goes_on_from_it_and_nothing_before_is_said_to_be_here() -> None:
    chain = begun()
    fold = chain.fold
    assert fold.query == QueryState("q", 7, "lineage-7", "", first=8, since="lineage-7")
    assert fold.plan == PlanState("plan", "{}")
    assert (fold.shards[KEY].first, fold.shards[KEY].next) == (OFFSET, OFFSET)
    assert (fold.next_batch, fold.partitions, fold.shards[KEY].fetched) == (0, {}, 0)
    land(chain, 8)
    land(chain, 9)
    assert chain.fold.query == QueryState("q", 9, "lineage-9", "lineage-8", 8, "lineage-7")
    assert (chain.fold.next_batch, chain.fold.shards[KEY].next) == (2, OFFSET + 20)


def test_a_snapshot_remembers_it() -> None:
    chain = landed(8)
    assert replace(read_snapshot(write_snapshot(chain.fold)), base=-1) == chain.fold


def test_a_savepoint_whose_plan_is_not_known_begins_without_one() -> None:
    assert begun(replace(BEGIN, digest="", document="")).fold.plan is None


@pytest.mark.parametrize("number", [0, 7, 9])
def test_another_batch_than_the_next_does_not_follow(number: int) -> None:
    with pytest.raises(LogDamaged, match="does not follow"):
        land(begun(), number)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(replace(BEGIN, query=Query("q", -1, "l")), id="no batch"),
        pytest.param(replace(BEGIN, query=Query("", 7, "l")), id="no query"),
        pytest.param(replace(BEGIN, query=Query("q", 7, "")), id="no lineage"),
        pytest.param(replace(BEGIN, document=""), id="half a plan"),
        pytest.param(replace(BEGIN, shards=BEGIN.shards * 2), id="a shard twice"),
    ],
)
def test_a_beginning_that_says_too_little_is_no_entry(body: Begin) -> None:
    with pytest.raises(LogDamaged, match=r"\(begin\) does not follow"):
        begun(body)


def joined(chain: Chain) -> None:
    chain.join(key_of(1))


def planned(chain: Chain) -> None:
    chain.add(Plan("plan", "{}"))


def versioned(chain: Chain) -> None:
    chain.add(next_version(chain.fold, "d", "{}"))


def of_a_query(chain: Chain) -> None:
    chain.add(chain.query_batch(Query("q", 0, "lineage-0")))


def of_topics(chain: Chain) -> None:
    chain.add(chain.batch())


def once_more(chain: Chain) -> None:
    chain.add(BEGIN)


@pytest.mark.parametrize("before", [joined, planned, versioned, of_a_query, of_topics, once_more])
def test_it_is_the_first_entry_about_a_query(before) -> None:
    chain = Chain()
    chain.open()
    before(chain)
    with pytest.raises(LogDamaged, match="something before"):
        chain.add(replace(BEGIN, shards=()))


def test_a_version_after_it_names_the_batch_that_comes_next() -> None:
    assert next_version(begun().fold, "d", "{}").batch == 8


# ---- plans


def batch(number: int, start: int, end: int) -> QueryBatch:
    ranges = (ShardRange(KEY, OffsetRange(start, end)),)
    return QueryBatch("q", number, "plan", ranges)


def test_the_next_batch_is_linked_to_it() -> None:
    first = batch(8, 100, 110)
    lineage = link("lineage-7", "plan", first.ranges)
    assert plan_query_batch(begun().fold, first) == WriteRows(lineage, ())
    chain = begun()
    land(chain, 8, lineage)
    assert plan_query_batch(chain.fold, first) == DiscardRows(lineage)
    land(chain, 9)
    assert plan_query_batch(chain.fold, first) == DiscardRows(lineage), "two batches behind"
    other = plan_query_batch(chain.fold, batch(8, 100, 109))
    assert isinstance(other, Refuse)
    assert other.why is Refusal.OTHER_LINEAGE


@pytest.mark.parametrize(
    ("given", "why"),
    [
        pytest.param(batch(7, 90, 100), Refusal.FORGOTTEN, id="the batch of the savepoint"),
        pytest.param(batch(0, 0, 10), Refusal.FORGOTTEN, id="the first of all"),
        pytest.param(batch(9, 100, 110), Refusal.GAP, id="the one after the next"),
        pytest.param(batch(8, 90, 110), Refusal.RANGES, id="what another table has"),
        pytest.param(
            replace(batch(8, 100, 110), query_id="p"), Refusal.OTHER_QUERY, id="another query"
        ),
    ],
)
def test_what_does_not_follow_it_is_refused(given: QueryBatch, why: Refusal) -> None:
    found = plan_query_batch(begun().fold, given)
    assert isinstance(found, Refuse)
    assert found.why is why


@pytest.mark.parametrize(
    ("numbers", "position", "expected"),
    [
        ((), ("q", 7, 7), Start()),
        ((), ("q", 8, 7), Start()),
        ((8,), ("q", 8, 7), Start()),
        ((8, 9), ("q", 7, 7), CutAlike(8, 9)),
        ((8, 9), ("q", 8, 8), CutAlike(9, 9)),
    ],
)
def test_starts(numbers: tuple[int, ...], position: tuple, expected: object) -> None:
    assert plan_start(landed(*numbers).fold.query, CheckpointPosition(*position)) == expected


@pytest.mark.parametrize("numbers", [(), (8,), (8, 9)])
@pytest.mark.parametrize("position", [("q", 7, 6), ("q", 6, 6), ("q", 0, -1), ("q", -1, -1)])
def test_a_checkpoint_of_before_is_refused(numbers: tuple[int, ...], position: tuple) -> None:
    found = plan_start(landed(*numbers).fold.query, CheckpointPosition(*position))
    assert isinstance(found, Refuse)
    assert found.why is Refusal.FORGOTTEN
    assert "begins after batch 7, " in found.text


def test_the_table_is_rolled_back_to_its_first_batch_and_no_further() -> None:
    chain = landed(8, 9, 10)
    batches = read_landed_batches(chain.entries, 7)
    body = plan_rollback(chain.fold, batches, Wish(8, "ana", "wrong"))
    assert isinstance(body, Rollback)
    assert (body.query.batch_id, body.before) == (8, "lineage-7")
    chain.add(body)
    assert chain.fold.query == QueryState("q", 8, "lineage-8", "lineage-7", 8, "lineage-7")
    land(chain, 9, "other")
    for number in (7, 0):
        refused = plan_rollback(chain.fold, batches, Wish(number, "ana", "wrong"))
        assert isinstance(refused, NoRollback)
        assert "begins with batch 8" in refused.text
        chain.closing()


def test_a_rollback_to_before_it_is_no_entry() -> None:
    chain = landed(8, 9)
    body = plan_rollback(chain.fold, read_landed_batches(chain.entries, 7), Wish(8, "ana", "wrong"))
    assert isinstance(body, Rollback)
    with pytest.raises(LogDamaged, match="from batch 9 to 7"):
        chain.add(replace(body, query=BEGIN.query))
