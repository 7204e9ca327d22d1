"""Every offset of a plan is read by one task, and tasks are about even."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.topics.orders import CLICKS

from ashore.log.plan_batch import BatchPlan
from ashore.log.positions import BatchTime, OffsetRange, ShardKey, ShardRange
from ashore.topics.loop.splits import plan_splits

CHOSEN = {"clicks"}
SIZES = st.lists(st.integers(1, 40), max_size=8)


def ranges_of(stream: str, sizes: list[int]) -> tuple[ShardRange, ...]:
    return tuple(
        ShardRange(ShardKey("kafka", stream, 1, str(shard)), OffsetRange(7, 7 + size))
        for shard, size in enumerate(sizes)
    )


def a_plan(large: tuple[ShardRange, ...], small: tuple[ShardRange, ...], piece: int) -> BatchPlan:
    tasks = -(-sum(each.offsets.size for each in small) // piece)
    return BatchPlan(1, BatchTime(0), (*large, *small), large, piece, small, tasks, is_behind=False)


@given(SIZES, SIZES, SIZES, st.integers(1, 50))
def test_every_offset_is_in_one_split(
    large: list[int], small: list[int], others: list[int], piece: int
) -> None:
    split = len(large)
    ranges = ranges_of("clicks", [*large, *small])
    plan = a_plan(ranges[:split], ranges[split:] + ranges_of("others", others), piece)

    splits = plan_splits(plan, CHOSEN)

    read = [
        (each.key, offset)
        for split in splits
        for each in split
        for offset in range(each.offsets.start, each.offsets.end)
    ]
    wanted = {
        (each.key, offset)
        for each in ranges
        for offset in range(each.offsets.start, each.offsets.end)
    }
    assert len(read) == len(set(read))
    assert set(read) == wanted
    assert all(split for split in splits)


def test_splits_are_even() -> None:
    small = ranges_of("clicks", [30, 10, 10, 10])
    large = (ShardRange(ShardKey("kafka", "clicks", 1, "9"), OffsetRange(0, 90)),)

    splits = plan_splits(a_plan(large, small, 30), CHOSEN)

    sizes = [sum(each.offsets.size for each in split) for split in splits]
    assert sizes == [30, 30, 30, 30, 30]


def test_other_streams_are_in_no_split() -> None:
    assert plan_splits(a_plan((), ranges_of("others", [5]), 10), CHOSEN) == []


def test_a_stream_is_in_one_split_where_that_is_even() -> None:
    """200 tables of 64 partitions: each task writes half of the tables, not all of them."""
    streams = [f"clicks-{number}" for number in range(200)]
    small = tuple(each for stream in streams for each in ranges_of(stream, [3] * 64))
    plan = replace(a_plan((), small, 200 * 64 * 3 // 2), shared_tasks=2)

    splits = plan_splits(plan, dict.fromkeys(streams, CLICKS))

    assert [len({each.key.stream for each in split}) for split in splits] == [100, 100]
    assert [sum(each.offsets.size for each in split) for split in splits] == [100 * 64 * 3] * 2


def test_a_stream_that_would_make_splits_uneven_is_divided() -> None:
    streams = ("a", "b", "c")
    small = tuple(each for stream in streams for each in ranges_of(stream, [5] * 10))
    plan = replace(a_plan((), small, 75), shared_tasks=2)

    splits = plan_splits(plan, dict.fromkeys(streams, CLICKS))

    assert [sum(each.offsets.size for each in split) for split in splits] == [75, 75]
    assert [len({each.key.stream for each in split}) for split in splits] == [2, 2]
