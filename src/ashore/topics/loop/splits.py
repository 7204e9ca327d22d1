"""How the ranges of a plan are dealt out to tasks.

What it is: splits, each read by one task, for all streams that Spark does not decode.
What it promises: pure; every offset of these streams is in one split, and splits are about even.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TypeAlias

from ashore.log.plan_batch import BatchPlan
from ashore.log.positions import OffsetRange, ShardRange
from ashore.topics.write.batch import LandingSpec

Split: TypeAlias = tuple[ShardRange, ...]


def plan_splits(plan: BatchPlan, tables: Mapping[str, LandingSpec]) -> list[Split]:
    """Return what each task reads by itself: together all ranges that Spark does not decode."""
    large = [each for each in plan.large if not tables[each.key.stream].is_decoded_by_spark]
    small = [each for each in plan.small if not tables[each.key.stream].is_decoded_by_spark]
    return split_ranges(plan, large, small)


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
