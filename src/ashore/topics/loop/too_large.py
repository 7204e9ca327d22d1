"""Offsets that a batch could not be read with, since they exceed the limits of the job.

What it is: `Oversized`, what a slice has found too large and its log is not past yet.
What it promises: what comes before such offsets is landed first, and nothing beyond them. Nothing
is kept: a start finds them again.
"""

from collections.abc import Mapping
from dataclasses import replace

from ashore.errors import RecordsTooLarge
from ashore.log.fold import Fold
from ashore.log.plan_batch import BatchPlan, ShardOffsets
from ashore.log.positions import OffsetRange, ShardKey, ShardRange
from ashore.topics.read.limits import refused_range


class Oversized:
    """See the module."""

    def __init__(self) -> None:
        self._found: dict[ShardKey, tuple[OffsetRange, RecordsTooLarge]] = {}

    def note(self, error: RecordsTooLarge, plan: BatchPlan) -> None:
        """Remember the offsets that a batch of `plan` was refused with; raise `error` for others.

        The next plan is smaller by them, so that this ends.
        """
        shard, refused = refused_range(error)
        for each in plan.ranges:
            planned = each.offsets
            if (each.key.stream, each.key.shard) == shard and planned.overlaps(refused):
                start = max(planned.start, refused.start)  # a batch of Kafka may begin before
                self._found[each.key] = OffsetRange(start, refused.end), error
                return
        raise error

    def cut(self, offsets: Mapping[ShardKey, ShardOffsets]) -> dict[ShardKey, ShardOffsets]:
        """Return offsets that end where something too large begins."""
        return {
            key: replace(there, end=min(there.end, self._found[key][0].start))
            if key in self._found
            else there
            for key, there in offsets.items()
        }

    def reached(
        self, fold: Fold, offsets: Mapping[ShardKey, ShardOffsets]
    ) -> tuple[ShardRange, RecordsTooLarge] | None:
        """Return what is too large and comes next in the log; forget what the log is past."""
        for key, (refused, error) in list(self._found.items()):
            if key not in offsets or fold.shards[key].next >= refused.end:
                del self._found[key]
            elif fold.shards[key].next >= refused.start:
                end = min(refused.end, offsets[key].end)
                return ShardRange(key, OffsetRange(fold.shards[key].next, end)), error
        return None

    def enlarge(self, plan: BatchPlan, offsets: Mapping[ShardKey, ShardOffsets]) -> BatchPlan:
        """Return the plan with what `cut` has left out: the source has more."""
        cut = self.cut(offsets)
        more = sum(there.end - cut[key].end for key, there in offsets.items())
        return replace(plan, left=plan.left + more, is_behind=plan.is_behind or more > 0)
