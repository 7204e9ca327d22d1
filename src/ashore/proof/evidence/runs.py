"""Sets of offsets as runs: sorted, disjoint, half-open intervals in two arrays.

What it promises: pure; no function changes its arguments. A million nearly contiguous offsets are a
handful of runs.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ashore.log.positions import OffsetRange

Offsets = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """A set of offsets. `starts[i]` to, without, `ends[i]`; neighbours do not touch."""

    starts: Offsets
    ends: Offsets

    @property
    def size(self) -> int:
        """The number of offsets."""
        return int((self.ends - self.starts).sum())

    @property
    def start(self) -> int:
        """The lowest offset. Requires: there is one."""
        return int(self.starts[0])

    @property
    def end(self) -> int:
        """The first offset above all. Requires: there is one."""
        return int(self.ends[-1])

    def clip(self, start: int, end: int) -> "Runs":
        """Return the offsets from `start` up to, without, `end`."""
        return _kept(np.maximum(self.starts, start), np.minimum(self.ends, end))

    def without(self, start: int, end: int) -> "Runs":
        """Return the offsets that are not from `start` up to, without, `end`."""
        left, right = np.minimum(self.ends, start), np.maximum(self.starts, end)
        starts = np.concatenate((self.starts, right))
        order = np.argsort(starts, kind="stable")
        return _kept(starts[order], np.concatenate((left, self.ends))[order])

    def first(self, count: int) -> list[int]:
        """Return the lowest offsets, at most `count` of them."""
        found: list[int] = []
        for start, end in zip(
            self.starts[:count].tolist(), self.ends[:count].tolist(), strict=True
        ):
            found.extend(range(start, min(end, start + count - len(found))))
        return found

    def ranges(self) -> list[OffsetRange]:
        """Return the runs one by one."""
        pairs = zip(self.starts.tolist(), self.ends.tolist(), strict=True)
        return [OffsetRange(start, end) for start, end in pairs]


def _kept(starts: Offsets, ends: Offsets) -> Runs:
    is_kept = starts < ends
    return Runs(starts[is_kept], ends[is_kept])


NO_OFFSETS: Offsets = np.empty(0, np.int64)
NO_RUNS = Runs(NO_OFFSETS, NO_OFFSETS)


def runs_of(offsets: Offsets) -> tuple[Runs, Runs]:
    """Return the set of `offsets`, in any order, and the set of those that come again.

    The number of repetitions is `len(offsets)` less the size of the first.
    """
    if not len(offsets):
        return NO_RUNS, NO_RUNS
    ordered = np.sort(offsets)
    steps = np.diff(ordered)
    breaks = np.flatnonzero(steps > 1)
    starts = ordered[np.concatenate(([0], breaks + 1))]
    ends = ordered[np.concatenate((breaks, [len(ordered) - 1]))] + 1
    twice = np.unique(ordered[1:][steps == 0])
    return Runs(starts, ends), runs_of(twice)[0] if len(twice) else NO_RUNS


def unite(parts: Sequence[Runs]) -> tuple[Runs, int, Runs]:
    """Return the union, how many offsets come again (each time counts), and which they are."""
    starts = np.concatenate([part.starts for part in parts]) if parts else NO_OFFSETS
    if not len(starts):
        return NO_RUNS, 0, NO_RUNS
    order = np.argsort(starts, kind="stable")
    starts = starts[order]
    ends = np.concatenate([part.ends for part in parts])[order]
    reach = np.maximum.accumulate(ends)
    # All earlier runs begin at or before this one, so what they cover of it is its beginning.
    again = _kept(starts[1:], np.minimum(ends[1:], reach[:-1]))
    breaks = np.flatnonzero(starts[1:] > reach[:-1])
    union = Runs(
        starts[np.concatenate(([0], breaks + 1))], reach[np.concatenate((breaks, [len(reach) - 1]))]
    )
    return union, again.size, again


def subtract(offsets: OffsetRange, runs: Runs) -> Runs:
    """Return the offsets of the range that are not in `runs`."""
    inside = runs.clip(offsets.start, offsets.end)
    return _kept(
        np.concatenate(([offsets.start], inside.ends)),
        np.concatenate((inside.starts, [offsets.end])),
    )


def intersect(left: Runs, right: Runs) -> Runs:
    """Return the offsets that are in both."""
    return unite([left, right])[2]


def bridge(runs: Runs, gap: int) -> Runs:
    """Return fewer and longer runs: those that are at most `gap` offsets apart become one."""
    if not len(runs.starts):
        return runs
    breaks = np.flatnonzero(runs.starts[1:] - runs.ends[:-1] > gap)
    return Runs(
        runs.starts[np.concatenate(([0], breaks + 1))],
        runs.ends[np.concatenate((breaks, [len(runs.ends) - 1]))],
    )


def offsets_within(offsets: Offsets, runs: Runs) -> Offsets:
    """Return those of `offsets` that are in `runs`, in their order."""
    if not len(runs.starts):
        return offsets[:0]
    run = np.searchsorted(runs.starts, offsets, side="right") - 1
    inside: Offsets = offsets[(run >= 0) & (offsets < runs.ends[run])]
    return inside
