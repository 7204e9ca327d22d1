"""A broker whose metadata lag stops no job: what it tells is looked at again."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pytest
from tests.crash.harness import CLICKS, World, memory_world, recorded_rows, reference

from ashore.errors import OffsetsWentBack, StreamMissing, StreamReplaced
from ashore.log.plan_batch import BatchPlan, ShardOffsets
from ashore.log.positions import OffsetRange, ShardKey, ShardRange, StreamShard
from ashore.topics.loop.joins import LAG_S, look_again
from ashore.topics.loop.slice_loop import SliceLoop
from ashore.topics.loop.worker import Tick
from ashore.topics.read.source import StreamInfo
from ashore.topics.write.batch import BatchOrder, TaskResult
from ashore_lab.testing import FakeClock, FaultyStorage, RecordedSource
from ashore_lab.testing.runner import RecordedRunner

Streams = dict[str, StreamInfo]
CLICKS_0 = StreamShard(CLICKS, "0")


def absent(streams: Streams) -> Streams:
    return {name: info for name, info in streams.items() if name != CLICKS}


def smaller(streams: Streams) -> Streams:
    return {**streams, CLICKS: replace(streams[CLICKS], shards=("0",))}


def replaced(streams: Streams) -> Streams:
    return {**streams, CLICKS: replace(streams[CLICKS], stream_id="another")}


def true(streams: Streams) -> Streams:
    return streams


class Lagging(RecordedSource):
    """A source whose answers are told by a broker that lags, as often as a test says."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock=clock)
        self.lags: list[Callable[[Streams], Streams]] = []  # of the next descriptions
        self.ends_back = 0  # how many of the next answers say an end that went back

    def describe_streams(self, streams: Sequence[str]) -> Streams:
        reported = super().describe_streams(streams)
        return self.lags.pop(0)(reported) if self.lags and CLICKS in reported else reported

    def read_offsets(self, shards: Sequence[StreamShard]) -> dict[StreamShard, ShardOffsets]:
        found: Mapping[StreamShard, ShardOffsets] = super().read_offsets(shards)
        if not self.ends_back or CLICKS_0 not in found:
            return dict(found)
        self.ends_back -= 1
        return {**found, CLICKS_0: ShardOffsets(0, 1)}


def lagging_job() -> tuple[World, Lagging, SliceLoop]:
    """A job that has landed its first batch, and its source."""
    world = memory_world()
    source = Lagging(world.clock)
    source.__dict__.update({**source.__dict__, **world.source.__dict__})
    loop = world.start_on(FaultyStorage(world.machine), source=source).loop
    assert loop.tick() is Tick.BEHIND
    return world, source, loop


def finish(world: World, loop: SliceLoop) -> None:
    while loop.tick() is not Tick.IDLE:
        pass
    loop.close("drained")
    expected = reference(memory_world())
    assert recorded_rows(world.source) == expected.rows
    expected.check(world.machine)


@pytest.mark.parametrize("calls", [1, 3])
def test_fewer_shards_are_looked_at_again(calls: int) -> None:
    world, source, loop = lagging_job()
    source.lags = [smaller] * calls
    assert loop.tick() is not Tick.IDLE
    assert not source.lags
    finish(world, loop)


def test_so_is_an_end_that_went_back() -> None:
    world, source, loop = lagging_job()
    source.ends_back = 2
    assert loop.tick() is not Tick.IDLE
    finish(world, loop)


def test_after_some_seconds_they_are_believed() -> None:
    world, source, loop = lagging_job()
    source.lags = [smaller] * 1000
    began_s = world.clock.monotonic_s()
    with pytest.raises(OffsetsWentBack, match="partition 1"):
        loop.tick()
    assert LAG_S <= world.clock.monotonic_s() - began_s < LAG_S + 1
    source.lags, source.ends_back = [], 1000
    with pytest.raises(OffsetsWentBack, match="ends at 1"):
        loop.tick()


@pytest.mark.parametrize("lags", [[absent], [true, absent]], ids=["before", "after it was read"])
def test_a_stream_that_is_not_there_is_missing_and_not_another(
    lags: list[Callable[[Streams], Streams]],
) -> None:
    world, source, loop = lagging_job()
    source.lags = list(lags)
    with pytest.raises(StreamMissing, match=CLICKS):  # which a job rides out
        loop.tick()
    finish(world, loop)


@pytest.mark.parametrize("lags", [[replaced], [true, replaced]], ids=["before", "while it is read"])
def test_another_identity_stops_at_once(lags: list[Callable[[Streams], Streams]]) -> None:
    world, source, loop = lagging_job()
    source.lags = list(lags)
    began_s = world.clock.monotonic_s()
    with pytest.raises(StreamReplaced, match=CLICKS):
        loop.tick()
    assert world.clock.monotonic_s() == began_s


@pytest.mark.parametrize("are_all", [True, False])
def test_identities_by_which_tasks_have_read_are_not_asked_for_again(
    monkeypatch: pytest.MonkeyPatch, are_all: bool
) -> None:
    _, source, loop = lagging_job()
    run, expected = RecordedRunner.run, source.describe_streams([CLICKS])[CLICKS].stream_id

    def run_by_id(runner: RecordedRunner, order: BatchOrder, plan: BatchPlan) -> list[TaskResult]:
        assert order.ids[CLICKS] == expected
        first, *others = run(runner, order, plan)
        return [replace(first, is_by_id=are_all), *(replace(o, is_by_id=True) for o in others)]

    monkeypatch.setattr(RecordedRunner, "run", run_by_id)
    source.lags = [true, replaced]
    if are_all:
        assert loop.tick() is not Tick.IDLE
        assert source.lags == [replaced]
    else:
        with pytest.raises(StreamReplaced, match=CLICKS):
            loop.tick()


def test_a_task_has_read_by_ids_only_if_it_says_so_of_each_range() -> None:
    first, second = (
        ShardRange(ShardKey("kafka", CLICKS, 1, shard), OffsetRange(0, 5)) for shard in "01"
    )
    told = {
        (StreamShard(CLICKS, "0"), OffsetRange(0, 5)),
        (StreamShard(CLICKS, "1"), OffsetRange(0, 4)),
    }
    nothing = TaskResult(0, (), (), (), ())
    assert nothing.having_read([first], by_id=told).is_by_id
    assert not nothing.having_read([first, second], by_id=told).is_by_id
    assert not nothing.having_read([first]).is_by_id
    result = nothing.having_read([first], by_id=told)
    assert TaskResult.from_bytes(result.to_bytes()) == result


def test_what_is_looked_at_again_is_reported_once() -> None:
    reported: list[str] = []

    def look() -> None:
        raise OffsetsWentBack("ends at 1")

    with pytest.raises(OffsetsWentBack):
        look_again(FakeClock(), look, reported.append)
    assert len(reported) == 1
    assert reported[0].startswith("ends at 1; retrying")
