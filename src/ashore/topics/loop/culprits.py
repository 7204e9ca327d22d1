"""Records of a query's batch that its SQL cannot compute, found by halves.

What it is: `find_culprits`, which runs parts of a batch until each record to blame is alone.
What it promises: a record is blamed only where it fails alone. One of them costs about as many runs
as the batch's size has binary digits, half of them again. No more are looked for than the caller
allows. Nothing is written.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ashore.log.positions import ShardRange
from ashore.log.query import Letter
from ashore.topics.loop.bisection import halve

Compute = Callable[[Sequence[ShardRange]], str | None]


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of the batch that is left to look at."""

    ranges: tuple[ShardRange, ...]
    is_known_bad: bool  # since the whole of it is, and the rest of that is not

    @property
    def size(self) -> int:
        return sum(each.offsets.size for each in self.ranges)


def find_culprits(ranges: Sequence[ShardRange], compute: Compute, count_max: int) -> list[Letter]:
    """Return records that fail alone, in the order of `ranges`; no more than `count_max`, plus one.

    Arguments:
        ranges: of the batch, which cannot be computed as a whole.
        compute: computes the rows of some offsets and drops them; returns why that cannot be
            done, None: it can. Row by row: what it says of offsets it says of some record.
        count_max: how many are of use. One more is returned where there are more.

    Raises what `compute` raises.

    """
    found: list[Letter] = []
    left = [_Part(tuple(ranges), is_known_bad=True)]  # the next part is the last one
    while left and len(found) <= count_max:
        part = left.pop()
        if part.size == 1:
            reason = compute(part.ranges)
            if reason is not None:
                (alone,) = part.ranges
                found.append(Letter(alone.key, alone.offsets.start, reason))
        elif part.size and (part.is_known_bad or compute(part.ranges) is not None):
            first, second = halve(part.ranges)
            is_first_good = compute(first) is None
            left.append(_Part(second, is_known_bad=is_first_good))
            if not is_first_good:
                left.append(_Part(first, is_known_bad=True))
    return found
