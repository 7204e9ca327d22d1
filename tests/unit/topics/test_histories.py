"""A partition that was cut below what was landed, and has grown on, is not read on from there."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from tests.crash.harness import CLICKS, NAME, World, memory_world

from ashore.errors import HistoryTruncated
from ashore.log.entries import Prepare, Skip
from ashore.log.fold import ShardState
from ashore.log.plan_batch import ShardOffsets
from ashore.log.positions import StreamShard
from ashore.log.store.reader import read_history, read_log
from ashore.topics.loop.gaps import SkipWish, find_skip, skip
from ashore.topics.loop.joins import LAG_S, Histories
from ashore.topics.loop.slice_loop import SliceLoop
from ashore.topics.loop.worker import Tick
from ashore.topics.read.source import Position
from ashore_lab.testing import FaultyStorage, RecordedSource

CLICKS_0 = StreamShard(CLICKS, "0")


class Asked(RecordedSource):
    """Counts how often it is asked about histories."""

    asked = 0
    is_mute = False  # an old broker tells of no leader

    def read_offsets(self, shards: Sequence[StreamShard]) -> dict[StreamShard, ShardOffsets]:
        found = super().read_offsets(shards)
        if not self.is_mute:
            return found
        return {shard: replace(each, leader_epoch=None) for shard, each in found.items()}

    def find_truncated(self, positions: dict[StreamShard, Position]) -> dict[StreamShard, str]:
        self.asked += 1
        return super().find_truncated(positions)


def landed_job() -> tuple[World, Asked, SliceLoop]:
    """A job that has landed everything, and its source."""
    world = memory_world()
    source = Asked(clock=world.clock)
    source.__dict__.update(world.source.__dict__)
    loop = world.start_on(FaultyStorage(world.machine), source=source).loop
    while loop.tick() is not Tick.IDLE:
        pass
    return world, source, loop


def state_of(loop: SliceLoop) -> ShardState:
    [state] = [
        each for key, each in loop.log.fold.current().items() if (key.stream, key.shard) == CLICKS_0
    ]
    return state


def grow(source: RecordedSource, count: int) -> None:
    source.append(CLICKS_0, *[b'{"id": 1}'] * count)


def regrown(source: RecordedSource, loop: SliceLoop) -> None:
    """Cut the partition two offsets below what was landed, and let it grow beyond."""
    source.elect(CLICKS_0, cut_at=state_of(loop).next - 2)
    grow(source, 5)


def test_each_batch_says_which_leader_reported_its_end() -> None:
    world, source, loop = landed_job()
    assert state_of(loop).leader_epoch == 0
    source.elect(CLICKS_0)
    grow(source, 3)
    assert loop.tick() is Tick.LANDED
    assert state_of(loop).leader_epoch == 1
    last = [each for each in read_history(world.machine, NAME) if isinstance(each.body, Prepare)]
    assert [read.leader_epoch for read in last[-1].body.shards] == [1]
    assert source.asked == 1


@pytest.mark.parametrize("is_idle", [False, True])
def test_another_leader_with_the_same_history_is_asked_once(is_idle: bool) -> None:
    _, source, loop = landed_job()
    source.elect(CLICKS_0)
    if not is_idle:
        source.append(StreamShard(CLICKS, "1"), b'{"id": 1}')
    for _ in range(3):
        loop.tick()
    assert source.asked == 1
    source.elect(CLICKS_0)
    loop.tick()
    assert source.asked == 2


def test_the_same_leader_is_not_asked() -> None:
    _, source, loop = landed_job()
    grow(source, 3)
    assert loop.tick() is Tick.LANDED
    assert source.asked == 0


@pytest.mark.parametrize("extra", [0, 100])
def test_what_was_cut_and_has_grown_on_is_refused(extra: int) -> None:
    world, source, loop = landed_job()
    before = read_log(world.machine, NAME)
    regrown(source, loop)
    grow(source, extra)
    began_s = world.clock.monotonic_s()
    with pytest.raises(HistoryTruncated, match=f"offset {state_of(loop).next}") as refused:
        loop.tick()
    assert world.clock.monotonic_s() - began_s >= LAG_S  # a broker may lag
    assert f"ashore skip JOB.yaml {CLICKS}/0 --to {state_of(loop).next}" in refused.value.hint
    assert read_log(world.machine, NAME).shards == before.shards
    with pytest.raises(HistoryTruncated):
        Histories(source).check(before, offsets_of(source, before))


def offsets_of(source, fold):
    shards = {key: StreamShard(key.stream, key.shard) for key in fold.current()}
    found = source.read_offsets(list(shards.values()))
    return {key: found[shard] for key, shard in shards.items()}


def test_what_was_cut_while_it_was_read_is_refused_by_the_next_plan() -> None:
    # The leader that told the end counts, not the one that is there after the reading.
    _, source, loop = landed_job()
    next_offset = state_of(loop).next
    grow(source, 4)
    run = loop.parts.runner.run

    def cut_meanwhile(order, plan):
        results = run(order, plan)
        source.elect(CLICKS_0, cut_at=next_offset + 2)
        grow(source, 4)
        return results

    loop.parts.runner.run = cut_meanwhile
    loop.tick()
    loop.parts.runner.run = run
    assert state_of(loop).next == next_offset + 4
    with pytest.raises(HistoryTruncated):
        loop.tick()


def test_somebody_may_go_on_all_the_same() -> None:
    world, source, loop = landed_job()
    wish = SkipWish(CLICKS_0, state_of(loop).next, "ana", "what was cut is in the table")
    committer = world.start_on(FaultyStorage(world.machine), source=source).loop.parts.committer()
    assert find_skip(world.machine, NAME, source, wish) is None
    regrown(source, loop)
    found = skip(committer, source, wish)
    assert found is not None
    assert found.offsets.size == 0
    *_, last = read_history(world.machine, NAME)
    leaders = ((found.key, 1),)
    assert last.body == Skip((found,), None, (), (), "ana", "what was cut is in the table", leaders)
    assert find_skip(world.machine, NAME, source, wish) is None, "once is enough"
    again = world.start_on(FaultyStorage(world.machine), source=source).loop
    assert again.tick() is Tick.LANDED
    assert (state_of(again).leader_epoch, state_of(again).next) == (1, wish.to + 3)


def test_what_is_cut_again_after_somebody_went_on_is_refused_again() -> None:
    world, source, loop = landed_job()
    regrown(source, loop)
    wish = SkipWish(CLICKS_0, state_of(loop).next, "ana", "what was cut is in the table")
    again = world.start_on(FaultyStorage(world.machine), source=source).loop
    assert skip(again.parts.committer(), source, wish) is not None
    regrown(source, again)
    with pytest.raises(HistoryTruncated):
        world.start_on(FaultyStorage(world.machine), source=source).loop.tick()


def test_a_gap_that_a_job_skips_names_the_leader_after_it() -> None:
    _, source, loop = landed_job()
    loop.plan = replace(loop.plan, skips_gaps=True)
    source.elect(CLICKS_0)
    grow(source, 10)
    source.expire(CLICKS_0, state_of(loop).next + 5)
    fold = loop.log.fold
    loop._plan(source.describe_streams(sorted({key.stream for key in fold.shards})))
    assert state_of(loop).leader_epoch == 1


def test_a_log_that_knows_no_leader_goes_on_as_before() -> None:
    _, source, loop = landed_job()
    fold = loop.log.fold
    unknown = {key: replace(state, leader_epoch=None) for key, state in fold.shards.items()}
    source.elect(CLICKS_0)
    before = replace(fold, shards=unknown)
    Histories(source).check(before, offsets_of(source, before))
    assert source.asked == 0


def test_a_range_without_a_leader_leaves_none_known() -> None:
    _, source, loop = landed_job()
    source.elect(CLICKS_0)
    source.is_mute = True
    grow(source, 3)
    assert loop.tick() is Tick.LANDED
    assert (source.asked, state_of(loop).leader_epoch) == (0, None)
    source.is_mute = False
    grow(source, 3)
    assert loop.tick() is Tick.LANDED
    assert (source.asked, state_of(loop).leader_epoch) == (0, 1)
