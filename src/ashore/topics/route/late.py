"""Which time a record is filed under.

What it is: the late policy of a table, applied to the event times of a batch.
What it promises: every row gets a time, so every row has a bucket. It depends on nothing but the
arguments: a batch that is written again is filed the same way.

A record is *late* if it happened more than `after_ms` before the watermark, the highest event time
that was landed before this batch; *future* if it happened more than `future_max_ms` after the
batch's `now_ms`; *untimed* if it has no event time. In a query Spark decides what is late, by the
watermark of `queries/spark/sql/views`. The policy for them:

| policy | late                 | future               | untimed        |
|--------|----------------------|----------------------|----------------|
| rehome | current bucket       | current bucket       | current bucket |
| keep   | own bucket, see below| current bucket       | current bucket |
| side   | side, current bucket | side, current bucket | current bucket |

`keep` reaches back `keep_ms` from `now_ms`, as far as the log remembers sealed partitions: what is
older goes to the side, current bucket.

The current bucket is that of `now_ms`. Side rows get it too, so that a late table has no more
partitions than time has passed, whatever the records say.
"""

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from ashore.topics.route.event_time import NEAR_1970_MS

POLICIES = ("rehome", "keep", "side")


@dataclass(frozen=True, slots=True)
class Lateness:
    """A late policy and the times of one batch. Raises ValueError for an unknown policy."""

    policy: str
    after_ms: int
    future_max_ms: int
    now_ms: int
    watermark_ms: int | None  # None: nothing was landed yet, nothing is late
    keep_ms: int | None = None  # how far back `keep` reaches; None: as far as there is

    def __post_init__(self) -> None:
        if self.policy not in POLICIES:
            raise ValueError(f"late: policy {self.policy} is not one of {', '.join(POLICIES)}")


@dataclass(frozen=True, slots=True)
class Placement:
    """What the rows of a batch are filed under."""

    bucket_ms: pa.Int64Array  # never null
    side: pa.BooleanArray | None  # rows for the late table; None: none
    late: int
    future: int
    untimed: int
    near_1970: int = 0  # in `NEAR_1970_MS`: wherever they are filed


def place(event_ms: pa.Int64Array, lateness: Lateness) -> Placement:
    """Return the bucket time of each row. `event_ms` as from `event_millis`."""
    after = lateness.now_ms + lateness.future_max_ms
    before = None
    if lateness.watermark_ms is not None:
        before = lateness.watermark_ms - lateness.after_ms
    limits = pc.min_max(event_ms)
    least, most = limits["min"].as_py(), limits["max"].as_py()
    oldest = None
    if lateness.policy == "keep" and lateness.keep_ms is not None:
        oldest = lateness.now_ms - lateness.keep_ms
    floors = [each for each in (before, oldest) if each is not None]
    is_usual = least is not None and most <= after and all(least >= each for each in floors)
    near_1970 = _count_near_1970(event_ms, least)
    if is_usual and not event_ms.null_count:
        return Placement(event_ms, None, 0, 0, 0, near_1970)

    none = pa.scalar(False)
    is_late = pc.less(event_ms, before) if before is not None else pc.and_(event_ms.is_null(), none)
    is_late = pc.fill_null(is_late, none)
    is_future = pc.and_not(pc.fill_null(pc.greater(event_ms, after), none), is_late)
    untimed = event_ms.is_null()
    moved = pc.or_(is_future, untimed)
    side = None
    if lateness.policy != "keep":
        moved = pc.or_(moved, is_late)
    if lateness.policy == "side":
        side = pc.or_(is_late, is_future)
    if oldest is not None:
        side = pc.fill_null(pc.less(event_ms, oldest), none)
        moved = pc.or_(moved, side)
    bucket_ms = pc.if_else(moved, pa.scalar(lateness.now_ms, pa.int64()), event_ms)
    return Placement(
        bucket_ms,
        side if side is not None and side.true_count else None,
        late=is_late.true_count,
        future=is_future.true_count,
        untimed=untimed.true_count,
        near_1970=near_1970,
    )


def _count_near_1970(event_ms: pa.Int64Array, least: int | None) -> int:
    """Return how many times are near 1970; `least`: the lowest one, which mostly answers it."""
    low, high = NEAR_1970_MS
    if least is None or least >= high:
        return 0
    inside = pc.and_(pc.greater_equal(event_ms, low), pc.less(event_ms, high))
    return int(inside.true_count)
