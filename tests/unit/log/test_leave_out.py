"""Records that a query leaves out: what the log keeps of them, and for how long."""

from dataclasses import replace

import pytest
from tests.strategies import Chain, Part, key_of

from ashore.errors import InvariantBroken, LogDamaged
from ashore.log.entries import Commit, LeaveOut, Plan, Prepare, Query
from ashore.log.entries.batch import fold_prepare
from ashore.log.files import DataFile, FileSpan, Role, Target
from ashore.log.fold import Refused
from ashore.log.plan_query import DiscardRows, QueryBatch, Refuse, WriteRows, plan_query_batch
from ashore.log.plan_rollback import Wish, plan_rollback
from ashore.log.positions import OffsetRange, ShardRange
from ashore.log.query import Letter, choose_letters, link
from ashore.log.query_history import read_landed_batches
from ashore.log.snapshot import read_snapshot, write_snapshot

KEY, OTHER = key_of(0), key_of(1)
DEAD = Target("ods.big__dead", Role.DEAD, "", (), "value BINARY", "parquet")


def letter(offset: int, reason: str = "no number") -> Letter:
    return Letter(KEY, offset, reason)


def planned(digest: str = "plan") -> Chain:
    chain = Chain.started(KEY, OTHER)
    chain.add(Plan(digest, "{}"))
    return chain


def ranges(number: int) -> tuple[ShardRange, ...]:
    return (ShardRange(KEY, OffsetRange(10 * number, 10 * number + 10)),)


def batch(chain: Chain, number: int, plan: str = "plan") -> QueryBatch:
    """A batch of ten offsets as a start would run it."""
    left_out = choose_letters(chain.fold.left_out, ranges(number))
    return QueryBatch("q", number, plan, ranges(number), left_out=left_out)


def prepare(chain: Chain, number: int, plan: str = "plan", *, dead: int | None = None) -> Prepare:
    """The entry of such a batch, with its dead letters: all that it leaves out."""
    decided = plan_query_batch(chain.fold, batch(chain, number, plan))
    assert isinstance(decided, WriteRows), decided
    body = chain.query_batch(Query("q", number, decided.lineage), Part(KEY, 10, {}))
    count = len(batch(chain, number, plan).left_out) if dead is None else dead
    if not count:
        return body
    (read,) = body.shards
    span = FileSpan(0, read.offsets.start, read.offsets.end, count)
    file = DataFile(0, 0, f"{number:016x}", count, 9, "9" * 16, (span,), None, None)
    read = replace(read, fetched=count, dead=count)
    return replace(body, shards=(read,), targets=(DEAD,), files=(file,))


def land(chain: Chain, number: int, plan: str = "plan") -> None:
    chain.add(prepare(chain, number, plan))
    chain.add(Commit("query"))


def test_a_batch_and_each_run_of_it_leave_out_the_same() -> None:
    chain = planned()
    land(chain, 0)
    chain.add(LeaveOut((letter(12), letter(25))))
    first = batch(chain, 1)
    assert first.left_out == (letter(12),)
    land(chain, 1)
    assert chain.fold.left_out == (letter(12), letter(25)), "it may run again for its state"
    assert isinstance(plan_query_batch(chain.fold, first), DiscardRows)
    without = plan_query_batch(chain.fold, replace(first, left_out=()))
    assert isinstance(without, Refuse)
    land(chain, 2)
    assert chain.fold.left_out == (letter(25),)
    land(chain, 3)
    assert chain.fold.left_out == ()
    past = read_landed_batches(chain.entries, 0)
    assert [past[number].left_out for number in range(4)] == [(), (letter(12),), (letter(25),), ()]
    for number in range(4):
        before = past[number - 1].query.lineage if number else ""
        lineage = link(before, "plan", ranges(number), past[number].left_out)
        assert lineage == past[number].query.lineage


def test_a_batch_that_has_not_left_it_out_is_not_written() -> None:
    chain = planned()
    chain.add(LeaveOut((letter(3),)))
    with pytest.raises(InvariantBroken):
        plan_query_batch(chain.fold, replace(batch(chain, 0), left_out=()))


def test_what_is_left_out_is_dead_in_its_batch() -> None:
    chain = planned()
    chain.add(LeaveOut((letter(3), letter(4))))
    for count in (0, 1):
        with pytest.raises(Refused, match="2 left out"):
            fold_prepare(chain.fold, prepare(chain, 0, dead=count), 9)
    fold_prepare(chain.fold, prepare(chain, 0, dead=3), 9)  # one was too far ahead


def test_a_snapshot_has_it() -> None:
    chain = planned()
    chain.add(LeaveOut((letter(3),)))
    assert read_snapshot(write_snapshot(chain.fold)).left_out == (letter(3),)


def test_other_sql_reads_again_what_no_batch_has_read() -> None:
    chain = planned()
    chain.add(LeaveOut((letter(3),)))
    chain.add(Plan("plan", '{"planner": "later"}'))
    assert chain.fold.left_out == (letter(3),), "the SQL is the same"
    land(chain, 0)
    chain.add(LeaveOut((letter(13),)))
    chain.add(Plan("other", "{}"))
    assert chain.fold.left_out == (letter(3),)
    land(chain, 1, "other")
    past = read_landed_batches(chain.entries, 0)
    assert (past[0].left_out, past[1].left_out) == ((letter(3),), ())


def test_a_rollback_counts_no_dead_letter_of_what_it_undoes() -> None:
    chain = planned()
    chain.add(LeaveOut((letter(3), letter(13), letter(25), letter(27))))
    for number in range(3):
        land(chain, number)
    counted = chain.fold.shards[KEY]
    assert (counted.fetched, counted.dead) == (4, 4)
    body = plan_rollback(chain.fold, read_landed_batches(chain.entries, 0), Wish(1, "ana", "wrong"))
    assert body.dead == ((KEY, 2),)
    for wrong in (((KEY, 5),), ((KEY, -1),), ((OTHER, 1),)):
        with pytest.raises(LogDamaged, match="dead letters"):
            chain.add(replace(body, dead=wrong))
    chain.add(body)
    counted = chain.fold.shards[KEY]
    assert (counted.fetched, counted.dead) == (2, 2)
    chain.add(Commit("recovery"))
    land(chain, 2)
    assert chain.fold.shards[KEY].dead == 4


def test_a_rollback_keeps_what_was_left_out_since() -> None:
    chain = planned()
    chain.add(LeaveOut((letter(3), letter(13), letter(25), letter(47))))
    for number in range(4):
        land(chain, number)
    assert chain.fold.left_out == (letter(47),)
    body = plan_rollback(chain.fold, read_landed_batches(chain.entries, 0), Wish(1, "ana", "wrong"))
    chain.add(body)
    assert chain.fold.left_out == (letter(13), letter(25), letter(47))
    chain.add(Commit("recovery"))
    assert isinstance(plan_query_batch(chain.fold, batch(chain, 1)), DiscardRows)
    land(chain, 2)
    past = read_landed_batches(chain.entries, 0)
    assert (past[1].left_out, past[2].left_out) == ((letter(13),), (letter(25),))


@pytest.mark.parametrize(
    ("records", "why"),
    [
        ((), "leaves out nothing"),
        ((letter(9),), "to be read"),
        ((Letter(key_of(7), 30, "no"),), "to be read"),
        ((letter(30), letter(30, "again")), "left out twice"),
        ((letter(12),), "left out twice"),
    ],
)
def test_what_does_not_follow_is_damage(records: tuple[Letter, ...], why: str) -> None:
    chain = planned()
    land(chain, 0)
    chain.add(LeaveOut((letter(12),)))
    with pytest.raises(LogDamaged, match=why):
        chain.add(LeaveOut(records))


def test_a_slice_without_a_plan_leaves_nothing_out() -> None:
    with pytest.raises(LogDamaged, match="without a plan"):
        Chain.started(KEY).add(LeaveOut((letter(3),)))
