"""What becomes of each batch of a streaming query, and of each start."""

from dataclasses import replace

import pytest
from tests.strategies import Chain, Part, key_of

from ashore.log.entries import Commit, Query
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
from ashore.log.positions import OffsetRange, ShardRange
from ashore.log.query import QueryState, link

KEY, OTHER = key_of(0), key_of(1)


def batch(number: int, *, plan: str = "plan", size: int = 10, query_id: str = "q") -> QueryBatch:
    offsets = OffsetRange(10 * number, 10 * number + size)
    return QueryBatch(query_id, number, plan, (ShardRange(KEY, offsets),))


def lineages(count: int) -> dict[int, str]:
    found, before = {}, ""
    for number in range(count):
        before = found[number] = link(before, "plan", batch(number).ranges)
    return found


def chain_of(batches: int) -> Chain:
    """A log that holds so many batches of a query, ten offsets each."""
    chain, linked = Chain.started(KEY), lineages(batches)
    for number in range(batches):
        chain.add(chain.query_batch(Query("q", number, linked[number]), Part(KEY, 10, {})))
        chain.add(Commit("query"))
    return chain


def why(decision: object) -> Refusal:
    assert isinstance(decision, Refuse), decision
    assert decision.text
    return decision.why


@pytest.mark.parametrize("batches", [0, 1, 5])
def test_the_next_batch_is_written(batches: int):
    decision = plan_query_batch(chain_of(batches).fold, batch(batches))
    assert decision == WriteRows(lineages(batches + 1)[batches], ())


def test_a_batch_may_read_nothing_and_bring_new_shards():
    fold = chain_of(2).fold
    nothing = replace(batch(2), ranges=())
    assert isinstance(plan_query_batch(fold, nothing), WriteRows)
    new = replace(nothing, ranges=(ShardRange(OTHER, OffsetRange(0, 4)),))
    decision = plan_query_batch(fold, new)
    assert isinstance(decision, WriteRows)
    assert decision.unknown == (OTHER,)


@pytest.mark.parametrize("number", [0, 1])
def test_the_rows_of_a_replay_are_thrown_away(number: int):
    assert plan_query_batch(chain_of(2).fold, batch(number)) == DiscardRows(lineages(2)[number])


def test_older_batches_are_recognised_by_what_the_history_says():
    fold = chain_of(6).fold
    for number in range(6):
        decision = plan_query_batch(fold, batch(number), lineages(6))
        assert decision == DiscardRows(lineages(6)[number])
    assert why(plan_query_batch(fold, batch(3))) is Refusal.FORGOTTEN
    assert why(plan_query_batch(fold, batch(4))) is Refusal.FORGOTTEN  # batch 3's is not known


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        (batch(2, query_id="other"), Refusal.OTHER_QUERY),
        (batch(0, query_id="other"), Refusal.OTHER_QUERY),
        (batch(3), Refusal.GAP),
        (batch(1, size=9), Refusal.OTHER_LINEAGE),
        (batch(1, plan="another"), Refusal.OTHER_LINEAGE),
        (replace(batch(1), ranges=()), Refusal.OTHER_LINEAGE),
        (replace(batch(3), batch_id=2), Refusal.RANGES),
        (replace(batch(1), batch_id=2), Refusal.RANGES),
    ],
)
def test_everything_else_is_refused(wrong: QueryBatch, expected: Refusal):
    assert why(plan_query_batch(chain_of(2).fold, wrong)) is expected


def test_a_log_without_batches_takes_the_first_only():
    assert why(plan_query_batch(chain_of(0).fold, batch(1))) is Refusal.GAP


def test_the_lineage_depends_on_all_that_came_before():
    assert link("", "plan", batch(0).ranges) != link("", "other", batch(0).ranges)
    assert link("a", "plan", batch(1).ranges) != link("b", "plan", batch(1).ranges)
    two = (ShardRange(KEY, OffsetRange(0, 1)), ShardRange(OTHER, OffsetRange(0, 1)))
    empty = ShardRange(key_of(2), OffsetRange(7, 7))
    assert link("", "p", two) == link("", "p", (empty, *reversed(two)))


KNOWN = QueryState("q", 5, "l5", "l4")


@pytest.mark.parametrize(
    ("known", "position", "expected"),
    [
        (None, (None, -1, -1), Start()),
        (None, ("q", 0, -1), Start()),  # killed in its first batch
        (KNOWN, ("q", 5, 5), Start()),  # an orderly stop
        (KNOWN, ("q", 5, 4), Start()),  # killed after the log's last batch
        (KNOWN, ("q", 6, 5), Start()),  # killed in the batch after it
        (KNOWN, ("q", 4, 4), CutAlike(5, 5)),
        (KNOWN, ("q", 4, 3), CutAlike(4, 5)),
        (KNOWN, ("q", 0, 0), CutAlike(1, 5)),
    ],
)
def test_starts(known: QueryState | None, position: tuple, expected: object):
    assert plan_start(known, CheckpointPosition(*position)) == expected


@pytest.mark.parametrize(
    ("known", "position", "expected"),
    [
        (None, ("q", 0, 0), Refusal.GAP),
        (KNOWN, (None, -1, -1), Refusal.EMPTY_CHECKPOINT),
        (KNOWN, ("other", 5, 5), Refusal.OTHER_QUERY),
        (KNOWN, ("other", 0, -1), Refusal.OTHER_QUERY),
        (KNOWN, ("q", 6, 6), Refusal.GAP),
        (KNOWN, ("q", 7, 5), Refusal.GAP),
        (KNOWN, ("q", 5, 2), Refusal.GAP),  # Spark would go on from 5 and leave out 3 and 4
        (KNOWN, ("q", -1, -1), Refusal.FORGOTTEN),
        (KNOWN, ("q", 0, -1), Refusal.FORGOTTEN),
    ],
)
def test_refused_starts(known: QueryState | None, position: tuple, expected: Refusal):
    assert why(plan_start(known, CheckpointPosition(*position))) is expected
