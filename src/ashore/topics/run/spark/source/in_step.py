"""Ends of a batch at which no topic partition is ahead of another.

What it is: `StepPlanner`, from the backlog of all partitions to what a batch reads of each, by a
few records that it looks at.
What it promises: Spark has one watermark for all partitions, the newest event time read minus the
allowed lateness. A batch has no event time above its *bound*: the lowest, over the partitions that
hold others back, of the newest event time read when the batch is done. So a record that is in time
within its partition is not late for Spark, whatever the limits of a batch are. A partition holds
others back if it has unread records or is not idle. The partition that is furthest behind advances
with each batch, unless one without unread records holds it back. Record timestamps are not trusted,
unless they are the event time. Nothing is kept between runs of a query.

Each partition ends before its first record above the bound. A search finds it: it divides what was
not looked at until there is little left, then reads backwards from what it found. It is certain
where records that are older than the bound by the allowed lateness were met, for then none before
them is above the bound. Where that is too far back, it stops after BACK_PART of the range.
"""

import logging
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ashore.base.clock import Clock
from ashore.log.plan_batch import divide_backlog
from ashore.log.positions import OffsetRange, ShardKey, ShardRange, StreamShard
from ashore.topics.run.spark.source.partition_times import EventTimes, PartitionTimes
from ashore.topics.run.spark.source.source_options import StepRule

NO_TIME_MS = -(2**62)  # below all event times
BACK_PART = 16
SPARE_PART = 16
WIDER = 8  # times, where a look has met no event time
BOUND_TRIALS = 40  # halve years to milliseconds

ReadTimes = Callable[[Mapping[StreamShard, OffsetRange]], Mapping[StreamShard, EventTimes]]
Search = Generator[OffsetRange, None, int]

_log = logging.getLogger(__name__)


class ShardSpan(NamedTuple):
    """What there is of a topic partition: its first offset, the one read next, its stable end."""

    earliest: int
    next: int
    end: int


class HoldBack(NamedTuple):
    """A topic partition, and the event time up to which it lets others be read."""

    shard: StreamShard
    event_ms: int | None  # None: none of its event times is known

    def to_json(self) -> dict[str, object]:
        """Return it as the progress of a query shows it."""
        place: dict[str, object] = {
            "topic": self.shard.stream,
            "partition": int(self.shard.shard),
        }
        return place if self.event_ms is None else {**place, "eventTimeMs": self.event_ms}


class _LastEnd(NamedTuple):
    """Where a partition ends."""

    end: int
    since_s: float
    is_of_former_run: bool  # all of it was read before this run, which has seen no record


@dataclass(frozen=True, slots=True)
class LookSizes:
    """How many offsets are looked at.

    Arguments:
        run: for one event time.
        chunk: at once, where a search reads all.
        back: by a search that reads backwards; BACK_PART of a large range.

    """

    run: int = 256
    chunk: int = 2_048
    back: int = 2_048


class StepPlanner:
    """Plans in step as long as a query runs. Used by one thread.

    `read_times`: the event times of all committed records of ranges, each of which Kafka has.
    """

    def __init__(
        self,
        rule: StepRule,
        clock: Clock,
        read_times: ReadTimes,
        sizes: LookSizes = LookSizes(),
    ) -> None:
        self._rule = rule
        self._clock = clock
        self._read_times = read_times
        self._sizes = sizes
        self._times: dict[ShardKey, PartitionTimes] = {}
        self._last: dict[ShardKey, _LastEnd] = {}
        self.waits_for: HoldBack | None = None  # the partition that others wait for

    def divide(
        self, spans: Mapping[ShardKey, ShardSpan], allowed: int, *, is_last: bool
    ) -> tuple[ShardRange, ...]:
        """Return what a batch reads, `allowed` offsets at most. Raises as `read_times`.

        `spans`: of all partitions. `is_last`: nothing is read that comes after their ends, so that
        only unread records hold others back.
        """
        self._note(spans)
        holding = {
            key
            for key, span in spans.items()
            if span.next < span.end or not (is_last or self._is_idle(key))
        }
        backlog = {
            key: OffsetRange(span.next, span.end)
            for key, span in spans.items()
            if span.next < span.end
        }
        if len(holding) <= 1 or not backlog:
            self._hold(None)
            return divide_backlog(backlog, allowed, dict.fromkeys(backlog, 0)) if backlog else ()
        self._look({key: self._around_next(key, spans[key]) for key in holding})
        most = self._share(backlog, allowed)
        self._look_for_newest(most, spans)
        reached = {
            key: newest_ms
            for key in holding
            if (newest_ms := self._reached(key, spans[key], most, is_last=is_last)) is not None
        }
        if not reached:
            self._hold(None)
            return _ranges(most, spans)
        holder = min(reached, key=lambda key: (reached[key], key))
        ends = self._search(most, spans, reached[holder])
        firsts = (self._times[key].first_from(ends.get(key, backlog[key].start)) for key in backlog)
        others_wait = any(each is not None and each > reached[holder] for each in firsts)
        self._hold(_hold_back(holder, reached[holder]) if others_wait else None)
        return _ranges(ends, spans)

    def _note(self, spans: Mapping[ShardKey, ShardSpan]) -> None:
        now_s, believed_ms = self._clock.monotonic_s(), self._clock.now_ms()
        for key, span in spans.items():
            times = self._times.get(key)
            if times is None or times.next_offset > span.next:  # a query that began again
                times = self._times[key] = PartitionTimes(span.next)
            times.continue_at(span.next, believed_ms + self._rule.future_max_ms)
            last = self._last.get(key)
            if last is None or last.end != span.end:
                self._last[key] = _LastEnd(span.end, now_s, last is None and span.next == span.end)

    def _is_idle(self, key: ShardKey) -> bool:
        """Return whether no record has come for long: before this run, by the event times."""
        last = self._last[key]
        if (self._clock.monotonic_s() - last.since_s) * 1000 >= self._rule.idle_after_ms:
            return True
        newest_ms = self._times[key].newest_before(last.end) if last.is_of_former_run else None
        return newest_ms is not None and (
            newest_ms < self._clock.now_ms() - self._rule.idle_after_ms
        )

    def _hold(self, found: HoldBack | None) -> None:
        if found is not None and (self.waits_for is None or self.waits_for.shard != found.shard):
            stream, shard = found.shard
            _log.info("other partitions wait for %s/%s", stream, shard)
        self.waits_for = found

    # ---- what is looked at

    def _look(self, looks: Mapping[ShardKey, OffsetRange]) -> None:
        """Look at what was not looked at of ranges, all in one reading."""
        unseen = {
            key: found
            for key, each in looks.items()
            if each.size and (found := self._times[key].find_unseen(each)) is not None
        }
        if not unseen:
            return
        shards = {StreamShard(key.stream, key.shard): key for key in unseen}
        times = self._read_times({shard: unseen[key] for shard, key in shards.items()})
        for shard, key in shards.items():
            self._times[key].add(unseen[key], times[shard])

    def _around_next(self, key: ShardKey, span: ShardSpan) -> OffsetRange:
        start = span.next
        if not self._times[key].knows_past:
            start = max(span.earliest, start - self._sizes.run)
        return OffsetRange(min(start, span.next), min(span.end, span.next + self._sizes.run))

    def _look_for_newest(
        self, most: Mapping[ShardKey, int], spans: Mapping[ShardKey, ShardSpan]
    ) -> None:
        """Look for the newest event times of what a batch may read, and for the record after it."""
        size = self._sizes.run
        missing = {key: spans[key] for key in most}
        while missing:
            before = {
                key: OffsetRange(max(span.next, most[key] - size), most[key])
                for key, span in missing.items()
            }
            after = {
                key: min(span.end, most[key] + self._sizes.run) for key, span in missing.items()
            }
            self._look({key: OffsetRange(each.start, after[key]) for key, each in before.items()})
            missing = {
                key: span
                for key, span in missing.items()
                if before[key].start > span.next
                and self._times[key].newest_within(before[key]) is None
            }
            size *= WIDER

    # ---- how far a batch may go

    def _share(self, backlog: Mapping[ShardKey, OffsetRange], allowed: int) -> dict[ShardKey, int]:
        """Return an end for each partition, within the limit: what is behind gets the most."""
        if allowed < sum(each.size for each in backlog.values()):
            backlog = {key: _cut_to(each, allowed) for key, each in backlog.items()}
            run = self._sizes.run
            self._look(
                {
                    key: OffsetRange(max(each.start, each.end - run), each.end)
                    for key, each in backlog.items()
                }
            )
            backlog = self._cap(backlog, allowed)
        first_ms = {key: self._times[key].first_from(each.start) for key, each in backlog.items()}
        waiting = {key: NO_TIME_MS if each is None else each for key, each in first_ms.items()}
        ranges = divide_backlog(backlog, allowed, waiting)
        return {each.key: each.offsets.end for each in ranges}

    def _cap(
        self, backlog: Mapping[ShardKey, OffsetRange], allowed: int
    ) -> Mapping[ShardKey, OffsetRange]:
        """Leave out what is ahead of a common event time up to which `allowed` offsets go."""
        curves = {key: self._times[key].estimate_curve(each) for key, each in backlog.items()}
        known = {key: curve for key, curve in curves.items() if len(curve.offsets)}
        if not known:
            return backlog

        def sizes_at(event_ms: float) -> dict[ShardKey, int]:
            sizes = {}
            for key, (offsets, millis) in known.items():
                end = np.interp(event_ms, millis, offsets, right=backlog[key].end)
                sizes[key] = int(end) - backlog[key].start
            return sizes

        low = float(min(curve.millis[0] for curve in known.values()))
        high = float(max(curve.millis[-1] for curve in known.values())) + 1
        for _ in range(BOUND_TRIALS):
            middle = (low + high) / 2
            is_less = sum(sizes_at(middle).values()) < allowed
            low, high = (middle, high) if is_less else (low, middle)
        # A little more, as an estimate may be too low; and what is furthest behind always advances.
        sizes = {
            key: size + size // SPARE_PART + int(known[key].millis[0] <= high)
            for key, size in sizes_at(high).items()
        }
        return {key: _cut_to(each, sizes.get(key, each.size)) for key, each in backlog.items()}

    def _reached(
        self, key: ShardKey, span: ShardSpan, most: Mapping[ShardKey, int], *, is_last: bool
    ) -> int | None:
        """Return the newest event time of a partition when `most` is read; None: any may be."""
        end, times = most.get(key, span.next), self._times[key]
        has_rest = end < span.end
        if not has_rest and (is_last or self._is_idle(key)):
            return None
        # The record after it counts: what is in time after that one is not older.
        known = [times.newest_before(end), times.first_from(end)]
        nothing = NO_TIME_MS if has_rest else None
        return max((each for each in known if each is not None), default=nothing)

    # ---- where a partition exceeds the bound

    def _search(
        self, most: Mapping[ShardKey, int], spans: Mapping[ShardKey, ShardSpan], bound_ms: int
    ) -> dict[ShardKey, int]:
        """Return for each partition its first offset above the bound, looking at all in turn."""
        ends: dict[ShardKey, int] = {}
        searches = {
            key: self._find_above(self._times[key], OffsetRange(spans[key].next, end), bound_ms)
            for key, end in most.items()
        }
        while searches:
            looks = {}
            for key, search in list(searches.items()):
                try:
                    looks[key] = next(search)
                except StopIteration as found:
                    ends[key] = found.value
                    del searches[key]
            self._look(looks)
        return ends

    def _find_above(self, times: PartitionTimes, within: OffsetRange, bound_ms: int) -> Search:
        """Yield what has to be looked at; return the first offset above, or the range's end."""
        run, chunk = self._sizes.run, self._sizes.chunk
        older_ms = bound_ms - self._rule.after_ms

        def look() -> tuple[int, OffsetRange, bool]:
            """Return what is found so far, what is unseen before it, whether it is certain."""
            found = times.first_above(within, bound_ms)
            end = within.end if found is None else found
            start = max(within.start, times.seen_start(end))
            gap = OffsetRange(max(within.start, min(start, times.seen_end(start))), start)
            first_ms = times.newest_within(OffsetRange(start, min(end, start + run)))
            is_old = end - start >= run and first_ms is not None and first_ms <= older_ms
            return end, gap, start <= within.start or is_old

        end, gap, is_certain = look()
        trial = 0
        while gap.size > chunk and not is_certain:
            middle = _guess(times, gap, bound_ms) if trial % 2 == 0 else None
            size = run if middle is None else chunk
            middle = gap.start + gap.size // 2 if middle is None else middle - size // 2
            start = max(gap.start, min(middle, gap.end - size))
            yield OffsetRange(start, start + size)
            end, gap, is_certain = look()
            trial += 1
        left = max(self._sizes.back, within.size // BACK_PART)
        while left > 0 and not is_certain:
            seen = OffsetRange(max(within.start, gap.end - chunk), gap.end)
            yield seen
            left -= seen.size
            end, gap, is_certain = look()
        return end


def _guess(times: PartitionTimes, gap: OffsetRange, bound_ms: int) -> int | None:
    """Return where a gap may exceed the bound, if times rise evenly in it; None: not known."""
    low_ms = times.newest_before(gap.start + 1)
    high_ms = times.first_from(gap.end)
    if low_ms is None or high_ms is None or not low_ms <= bound_ms < high_ms:
        return None
    return gap.start + int(gap.size * (bound_ms - low_ms) / (high_ms - low_ms))


def _cut_to(offsets: OffsetRange, size: int) -> OffsetRange:
    return OffsetRange(offsets.start, min(offsets.end, offsets.start + size))


def _hold_back(key: ShardKey, event_ms: int) -> HoldBack:
    shard = StreamShard(key.stream, key.shard)
    return HoldBack(shard, None if event_ms == NO_TIME_MS else event_ms)


def _ranges(
    ends: Mapping[ShardKey, int], spans: Mapping[ShardKey, ShardSpan]
) -> tuple[ShardRange, ...]:
    return tuple(
        ShardRange(key, OffsetRange(spans[key].next, end))
        for key, end in ends.items()
        if end > spans[key].next
    )
