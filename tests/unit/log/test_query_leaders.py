"""A query does not read on in a topic partition that was cut below what it has landed."""

from dataclasses import replace

import pytest
from tests.crash.harness import CLICKS, NAME
from tests.crash.query_job import Query, QueryWorld, query_world
from tests.crash.test_rollback import GoingBack, back_world

from ashore.errors import BatchFailed, HistoryTruncated, OffsetsWentBack, Stopped
from ashore.log.entries import Prepare, Rollback, Skip
from ashore.log.fold import ShardState
from ashore.log.names import query_source
from ashore.log.positions import ShardKey, StreamShard
from ashore.log.store.reader import read_history, read_log
from ashore.topics.loop.gaps import SkipWish, find_skip, skip
from ashore.topics.loop.joins import LAG_S, find_truncated, history_truncated
from ashore.topics.loop.worker import Tick

CLICKS_0 = StreamShard(CLICKS, "0")
KEY = ShardKey("kafka:result", CLICKS, 1, "0")


def landed_query() -> tuple[QueryWorld, Query]:
    """A query that has landed all that there was."""
    world = query_world()
    query = world.start().loop
    drain(query)
    return world, query


def drain(query: Query) -> None:
    while query.tick() is not Tick.IDLE:
        pass


def grow(world: QueryWorld, count: int = 3) -> None:
    world.source.append(CLICKS_0, *[b'{"id": 1}'] * count)


def regrow(world: QueryWorld, cut_at: int, count: int = 5) -> None:
    world.source.elect(CLICKS_0, cut_at=cut_at)
    grow(world, count)


def state_of(query: Query) -> ShardState:
    return query.sink.fold.shards[KEY]


def test_each_batch_says_which_leader_had_its_range() -> None:
    world, query = landed_query()
    bodies = [each.body for each in read_history(world.machine, NAME)]
    reads = [read for each in bodies if isinstance(each, Prepare) for read in each.shards]
    assert {read.leader_epoch for read in reads} == {0}
    assert state_of(query).leader_epoch == 0


def test_another_leader_ends_the_run_and_is_recorded_by_the_next_one() -> None:
    world, query = landed_query()
    world.source.elect(CLICKS_0)
    grow(world)
    with pytest.raises(BatchFailed, match=f"{CLICKS}/0 has a new leader"):
        query.tick()
    assert query.tick() is Tick.LANDED
    assert state_of(query).leader_epoch == 1
    grow(world)
    assert query.tick() is Tick.LANDED, "this leader was there when the run began"


def test_a_leader_that_comes_while_a_batch_runs_ends_the_run_before_the_next() -> None:
    # What the run has read ahead of the batch may be what the new leader does not have.
    world, query = landed_query()
    grow(world, 6)
    compute = query._compute

    def elect_meanwhile(batch):
        rows = list(compute(batch))
        regrow(world, cut_at=state_of(query).next + 4)
        return rows

    query._compute = elect_meanwhile
    assert query.tick() is Tick.LANDED
    query._compute = compute
    with pytest.raises(BatchFailed):
        query.tick()
    assert query.tick() is Tick.LANDED
    assert state_of(query).leader_epoch == 1


def test_what_was_cut_and_has_grown_on_is_refused() -> None:
    world, query = landed_query()
    before, next_offset = read_log(world.machine, NAME), state_of(query).next
    regrow(world, cut_at=next_offset - 2)
    began_s = world.clock.monotonic_s()
    with pytest.raises(HistoryTruncated, match=f"offset {next_offset}") as refused:
        query.tick()
    assert world.clock.monotonic_s() - began_s >= LAG_S, "a broker may lag"
    assert f"--to {next_offset} --table " in refused.value.hint
    assert read_log(world.machine, NAME) == before

    again = world.start().loop
    again.sink.open()
    with pytest.raises(HistoryTruncated):
        again.sink.check_histories()


def test_a_cut_below_what_was_landed_is_seen_before_anything_new_comes() -> None:
    world, query = landed_query()
    world.source.elect(CLICKS_0, cut_at=state_of(query).next - 2)
    with pytest.raises(OffsetsWentBack):
        query.sink.check_histories()
    grow(world, 2)
    with pytest.raises(HistoryTruncated):
        query.sink.check_histories()


def test_a_batch_that_was_planned_beyond_what_is_left_waits_for_it() -> None:
    world, query = landed_query()
    landed = state_of(query).next
    grow(world)
    batch = query.next_batch()
    assert batch is not None
    world.source.elect(CLICKS_0, cut_at=landed + 1)
    with pytest.raises(OffsetsWentBack, match=f"ends at {landed + 1}"):
        query.tick()
    grow(world, 4)
    assert query.tick() is Tick.LANDED
    assert state_of(query).leader_epoch == 1


def test_a_batch_that_runs_again_for_its_state_is_not_built_of_other_records() -> None:
    world, query = landed_query()
    world.checkpoint.commits.remove(max(world.checkpoint.commits))  # killed before Spark knew
    regrow(world, cut_at=state_of(query).next - 2)
    again = world.start().loop
    with pytest.raises(HistoryTruncated):
        again.tick()


def test_somebody_may_go_on_all_the_same() -> None:
    world, query = landed_query()
    wish = SkipWish(CLICKS_0, state_of(query).next, "ana", "what was cut is in the table")
    assert find_skip(world.machine, NAME, world.source, wish) is None
    regrow(world, cut_at=wish.to - 2)
    with pytest.raises(Stopped, match=f"continues at offset {wish.to}"):
        find_skip(world.machine, NAME, world.source, replace(wish, to=wish.to - 1))
    found = skip(world.start().loop.sink._entries._committer, world.source, wish)
    assert found is not None
    *_, last = read_history(world.machine, NAME)
    assert last.body == Skip((found,), None, (), (), "ana", wish.why, ((KEY, 1),))
    again = world.start().loop
    again.sink.open()
    again.sink.check_histories()
    assert again.tick() is Tick.LANDED


def test_a_topic_that_is_read_twice_is_asked_about_at_both_places() -> None:
    world, query = landed_query()
    once = state_of(query)
    twice = replace(once, key=replace(KEY, source=query_source(NAME, 2)), next=once.next - 4)
    regrow(world, cut_at=once.next - 2)
    assert list(find_truncated(world.source, [twice, once])) == [once]
    assert list(find_truncated(world.source, [once, twice])) == [once]


def test_a_query_that_goes_back_behind_the_cut_reads_on_and_in_front_of_it_does_not() -> None:
    world = back_world()
    before = read_log(world.machine, NAME).shards[KEY]
    going = world.start().loop
    assert isinstance(going, GoingBack)
    going.tick()
    (rollback,) = [
        e.body for e in read_history(world.machine, NAME) if isinstance(e.body, Rollback)
    ]
    assert dict(rollback.leader_epochs) == {each.key: 0 for each in rollback.shards}
    back = read_log(world.machine, NAME).shards[KEY]
    assert (back.next < before.next, back.leader_epoch) == (True, 0)
    regrow(world, cut_at=back.next)
    again = world.start().loop
    again.sink.open()
    again.sink.check_histories()
    regrow(world, cut_at=back.next - 1)
    with pytest.raises(HistoryTruncated):
        again.sink.check_histories()


@pytest.mark.parametrize(
    ("insert", "shown"), [("ods__big", "ods.big"), ("topic__big", "TABLE"), ("a__b__c", "TABLE")]
)
def test_the_way_out_names_the_table_where_it_can_be_told(insert: str, shown: str) -> None:
    key = replace(KEY, source=f"kafka:{insert}")
    assert f"--table {shown} " in history_truncated(key, 7, "it is shorter").hint
