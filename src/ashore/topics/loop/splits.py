"""How the ranges of a plan are dealt out to tasks.

What it is: splits, each read by one task.
What it promises: pure; every offset is in one split, and splits are about even.
"""

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise
from typing import TypeAlias

from ashore.log.plan_batch import BatchPlan, divide_among_tasks
from ashore.log.positions import BatchTime, OffsetRange, ShardRange

Split: TypeAlias = tuple[ShardRange, ...]


def plan_splits(plan: BatchPlan, streams: Collection[str]) -> list[Split]:
    """Return what each task reads: together all ranges of the plan that are of `streams`."""
    large = [each for each in plan.large if each.key.stream in streams]
    small = [each for each in plan.small if each.key.stream in streams]
    return split_ranges(plan, large, small)


def split_evenly(ranges: tuple[ShardRange, ...], parallelism: int) -> list[Split]:
    """Return what each task reads of ranges that belong to no batch. `parallelism`: of tasks."""
    if not ranges:
        return []
    whole = BatchPlan(
        batch=0,
        time=BatchTime(0, ()),
        ranges=ranges,
        large=(),
        piece_records=1,
        small=(),
        shared_tasks=0,
        is_behind=False,
    )
    plan = divide_among_tasks(whole, parallelism)
    return split_ranges(plan, plan.large, plan.small)


def split_ranges(
    plan: BatchPlan, large: Iterable[ShardRange], small: Sequence[ShardRange]
) -> list[Split]:
    """Return what each task reads. `large`, `small`: the ranges of the plan, or some of them."""
    splits: list[Split] = [
        (piece,) for each in large for piece in _cut_evenly(each, plan.piece_records)
    ]
    return splits + _spread(small, count_tasks(small, plan))


def _cut_evenly(whole: ShardRange, most: int) -> list[ShardRange]:
    start, size = whole.offsets.start, whole.offsets.size
    count = math.ceil(size / most)
    bounds = [start + size * number // count for number in range(count + 1)]
    return [ShardRange(whole.key, OffsetRange(*each)) for each in pairwise(bounds)]


def _spread(ranges: Sequence[ShardRange], count: int) -> list[Split]:
    """Deal ranges out to tasks, evenly; the ranges of a stream to one task where that is even.

    Each task that has something of a stream writes a file of its table.
    """
    splits: list[list[ShardRange]] = [[] for _ in range(min(count, len(ranges)))]
    sizes = [0] * len(splits)
    fair = math.ceil(_size(ranges) / max(1, len(splits)))

    def deal(lot: Sequence[ShardRange]) -> None:
        least = sizes.index(min(sizes))
        splits[least] += lot
        sizes[least] += _size(lot)

    by_stream: defaultdict[str, list[ShardRange]] = defaultdict(list)
    for each in ranges:
        by_stream[each.key.stream].append(each)
    for stream in sorted(by_stream.values(), key=_size, reverse=True):
        if min(sizes) + _size(stream) <= fair:
            deal(stream)
        else:
            for each in sorted(stream, key=lambda each: -each.offsets.size):
                deal([each])
    return [tuple(sorted(split)) for split in splits if split]


def count_tasks(small: Sequence[ShardRange], plan: BatchPlan) -> int:
    """Return how many of the plan's shared tasks some of its small ranges get."""
    return max(1, round(plan.shared_tasks * _size(small) / max(1, _size(plan.small))))


def _size(ranges: Sequence[ShardRange]) -> int:
    return sum(each.offsets.size for each in ranges)
