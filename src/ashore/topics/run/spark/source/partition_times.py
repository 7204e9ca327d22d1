"""What is known of the event times of one topic partition.

What it is: `PartitionTimes`, the offsets that were looked at, from where reading continues, with
the event times there; and the newest event time that is known of the records before.
What it promises: pure. An event time that is too far ahead counts as none, by the newest event time
that is believed when it is asked, not when it was looked at.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ashore.log.positions import OffsetRange

Numbers = npt.NDArray[np.int64]


class EventTimes(NamedTuple):
    """Event times in ms, by ascending offsets. A record without one is left out."""

    offsets: Numbers
    millis: Numbers


NO_TIMES = EventTimes(np.array([], np.int64), np.array([], np.int64))


class PartitionTimes:
    """Grows by `add`, and forgets by `continue_at` what was read. `next_offset`: read next."""

    def __init__(self, next_offset: int = 0) -> None:
        self._next = next_offset
        self._believed_ms = 0
        self._before_ms: int | None = None  # the newest time before `_next`, as far as it is known
        self._seen: list[OffsetRange] = []  # ascending, apart from each other, from `_next` on
        self._times = NO_TIMES
        self.knows_past = False  # whether what is right before `_next` was looked at

    @property
    def next_offset(self) -> int:
        """The offset that is read next."""
        return self._next

    def continue_at(self, offset: int, believed_ms: int) -> None:
        """Forget what is below `offset`, but for its newest time; believe times up to a limit."""
        self._believed_ms = believed_ms
        if offset <= self._next:
            return
        read = self._times.offsets < offset
        self._note_before(self._times.millis[read])
        self.knows_past = self.seen_start(offset) < offset
        self._times = EventTimes(self._times.offsets[~read], self._times.millis[~read])
        self._seen = [
            OffsetRange(max(each.start, offset), each.end)
            for each in self._seen
            if each.end > offset
        ]
        self._next = offset

    def add(self, looked: OffsetRange, found: EventTimes) -> None:
        """Take the event times of all records of a range."""
        if looked.start < self._next:
            self.knows_past = True
            self._note_before(found.millis[found.offsets < self._next])
            looked = OffsetRange(self._next, max(self._next, looked.end))
            rest = found.offsets >= self._next
            found = EventTimes(found.offsets[rest], found.millis[rest])
        if not looked.size:
            return
        known = (self._times.offsets < looked.start) | (self._times.offsets >= looked.end)
        offsets = np.concatenate([self._times.offsets[known], found.offsets])
        order = np.argsort(offsets, kind="stable")
        millis = np.concatenate([self._times.millis[known], found.millis])
        self._times = EventTimes(offsets[order], millis[order])
        self._seen = _join(sorted([*self._seen, looked], key=lambda each: each.start))

    def find_unseen(self, within: OffsetRange) -> OffsetRange | None:
        """Return the range without what was looked at at both of its ends; None: all was."""
        start, end = within.start, within.end
        for each in self._seen:
            if each.start <= start < each.end:
                start = each.end
        for each in reversed(self._seen):
            if each.start < end <= each.end:
                end = each.start
        return OffsetRange(start, end) if start < end else None

    def seen_start(self, offset: int) -> int:
        """Return from where on all was looked at up to `offset`: `offset` itself if nothing was."""
        starts = (each.start for each in self._seen if each.start < offset <= each.end)
        return next(starts, offset)

    def seen_end(self, offset: int) -> int:
        """Return where the last range before `offset` ends that was looked at."""
        return max((each.end for each in self._seen if each.end <= offset), default=self._next)

    def newest_before(self, offset: int) -> int | None:
        """Return the newest event time that is known below `offset`."""
        newest = self.newest_within(OffsetRange(self._next, max(self._next, offset)))
        known = [each for each in (newest, self._before_ms) if each is not None]
        return max(known, default=None)

    def newest_within(self, within: OffsetRange) -> int | None:
        """Return the newest event time that is known of a range."""
        _, millis = self._believed(within)
        return int(millis.max()) if len(millis) else None

    def first_from(self, offset: int) -> int | None:
        """Return the event time of the next record that has one, if all up to it was looked at."""
        end = next((each.end for each in self._seen if each.start <= offset < each.end), offset)
        _, millis = self._believed(OffsetRange(offset, end))
        return int(millis[0]) if len(millis) else None

    def first_above(self, within: OffsetRange, bound_ms: int) -> int | None:
        """Return the first offset of a range that is known to be above an event time."""
        offsets, millis = self._believed(within)
        above = offsets[millis > bound_ms]
        return int(above[0]) if len(above) else None

    def estimate_curve(self, within: OffsetRange) -> EventTimes:
        """Return offsets of a range with the newest event time so far, where it rises."""
        offsets, millis = self._believed(within)
        if not len(offsets):
            return NO_TIMES
        newest = np.maximum.accumulate(millis)
        rises = np.concatenate([[True], newest[1:] > newest[:-1]])
        return EventTimes(offsets[rises], newest[rises])

    def _believed(self, within: OffsetRange) -> EventTimes:
        first, last = np.searchsorted(self._times.offsets, [within.start, within.end])
        offsets, millis = self._times.offsets[first:last], self._times.millis[first:last]
        believed = millis <= self._believed_ms
        return EventTimes(offsets[believed], millis[believed])

    def _note_before(self, millis: Numbers) -> None:
        believed = millis[millis <= self._believed_ms]
        if len(believed):
            newest = int(believed.max())
            self._before_ms = newest if self._before_ms is None else max(newest, self._before_ms)


def _join(ranges: list[OffsetRange]) -> list[OffsetRange]:
    joined = ranges[:1]
    for each in ranges[1:]:
        if each.start <= joined[-1].end:
            joined[-1] = OffsetRange(joined[-1].start, max(joined[-1].end, each.end))
        else:
            joined.append(each)
    return joined
