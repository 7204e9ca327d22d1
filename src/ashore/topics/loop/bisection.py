"""A batch whose worker processes die, taken apart until the record that kills them is alone.

What it is: step 2 in halves of halves, where a record makes a library in C end its process.
What it promises: one such record costs about as many further runs as its batch's size has binary
digits. What is returned covers the whole order, as one run would. Nothing is prepared meanwhile,
so a failure or a kill in the midst leaves only staged files that no entry names.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace

from ashore.errors import WorkerCrashed
from ashore.log.plan_batch import BatchPlan
from ashore.log.positions import OffsetRange, ShardRange
from ashore.topics.decode.reasons import CRASH, describe
from ashore.topics.write.batch import BatchOrder, BatchRunner, TaskResult

Report = Callable[[str], None]


def run_apart(
    runner: BatchRunner, order: BatchOrder, plan: BatchPlan, report: Report
) -> list[TaskResult]:
    """Run step 2; a batch that kills its workers, in halves. `report`: of each bad record.

    A record that kills a worker by itself is invalid and not decoded: `on_invalid` applies. Raises
    WorkerCrashed where workers die without decoding too, and what `BatchRunner.run` raises.
    If interrupted: staged files remain; no entry names them.
    """
    results: list[TaskResult] = []
    left = [(order, plan)]  # the next part is the last one
    while left:
        part, its_plan = left.pop()
        try:
            results += runner.run(part, its_plan)
        except WorkerCrashed:
            if its_plan.size > 1:
                halves = [_narrowed(part, its_plan, half) for half in halve(its_plan.ranges)]
                left += reversed(halves)
            elif not part.is_decoded:
                raise
            else:
                (alone,) = part.ranges
                report(f"{alone.key} offset {alone.offsets.start}: {describe(CRASH)}")
                left.append((replace(part, is_decoded=False), its_plan))
    return results


def halve(ranges: Iterable[ShardRange]) -> tuple[tuple[ShardRange, ...], tuple[ShardRange, ...]]:
    """Return two parts of about the same size that hold all offsets, each once.

    Requires: two offsets at least.
    """
    whole = tuple(ranges)
    left_size = sum(each.offsets.size for each in whole) // 2
    parts: tuple[list[ShardRange], list[ShardRange]] = ([], [])
    for each in whole:
        start, end = each.offsets.start, each.offsets.end
        cut = min(end, start + left_size)
        left_size -= cut - start
        for part, first, last in ((parts[0], start, cut), (parts[1], cut, end)):
            if first < last:
                part.append(ShardRange(each.key, OffsetRange(first, last)))
    return tuple(parts[0]), tuple(parts[1])


def _narrowed(
    order: BatchOrder, plan: BatchPlan, ranges: tuple[ShardRange, ...]
) -> tuple[BatchOrder, BatchPlan]:
    """Return the part of a batch that has these ranges, for as many tasks as its size deserves."""
    is_large = {each.key for each in plan.large}
    large = tuple(each for each in ranges if each.key in is_large)
    small = tuple(each for each in ranges if each.key not in is_large)
    streams = {each.key.stream for each in ranges}
    tables = tuple(each for each in order.tables if each[0] in streams)
    return (
        replace(order, ranges=ranges, tables=tables),
        replace(plan, ranges=ranges, large=large, small=small),
    )
