"""Step 1 of a batch: which offsets are read next, and how they are divided among tasks.

What it is: `plan_batch`, from the fold, the source's offsets and the job's limits.
What it promises: pure. Ranges begin at the log's next offsets and end at or below the source's
stable end. A topic partition with most of the backlog becomes many pieces, small ranges share
tasks, so that tasks are even. A small backlog never waits for a large one. The batch's time never
goes back, nor does a watermark.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from ashore.errors import check
from ashore.log.fold import Fold, ShardState
from ashore.log.positions import BatchTime, OffsetRange, ShardKey, ShardRange

TASK_RECORDS_MIN = 20_000  # below this a task costs more than it saves
TASK_RECORDS_MAX = 2_000_000  # above this a failed task costs too much to repeat
BYTES_UNKNOWN = 1_000  # a record's size before the first batch has shown one


@dataclass(frozen=True, slots=True)
class ShardOffsets:
    """What the source has of one shard."""

    earliest: int  # the first offset that it still has
    end: int  # one past the last stable record (for Kafka: the last stable offset)
    leader_epoch: int | None = None  # of the leader that reported this end; None: not known


@dataclass(frozen=True, slots=True)
class Limits:
    """What bounds a batch."""

    records: int
    size_bytes: int
    parallelism: int  # tasks that can run side by side


@dataclass(frozen=True, slots=True)
class Feed:
    """The table that a stream feeds, and what its watermark waits for."""

    table: str
    idle_after_ms: int  # a shard without records for so long does not hold a watermark up


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """One batch to be read.

    `large` ranges are read in even pieces of at most `piece_records` offsets, one task a piece;
    `small` ranges, whole, by `shared_tasks` tasks together.
    """

    batch: int
    time: BatchTime
    ranges: tuple[ShardRange, ...]
    large: tuple[ShardRange, ...]
    piece_records: int
    small: tuple[ShardRange, ...]
    shared_tasks: int
    is_behind: bool  # the source has more than the limits allow: the next batch follows at once
    left: int = 0  # offsets that stay behind
    leader_epochs: tuple[
        tuple[ShardKey, int], ...
    ] = ()  # that reported the ends, before anything is read

    @property
    def size(self) -> int:
        """The number of offsets in the batch."""
        return sum(each.offsets.size for each in self.ranges)

    @property
    def tasks(self) -> int:
        """The number of tasks."""
        pieces = (math.ceil(each.offsets.size / self.piece_records) for each in self.large)
        return sum(pieces) + self.shared_tasks


@dataclass(frozen=True, slots=True)
class Nothing:
    """The source has nothing new."""


@dataclass(frozen=True, slots=True)
class Gaps:
    """Offsets that the source no longer has. Nothing is read before they are skipped."""

    ranges: tuple[ShardRange, ...]


@dataclass(frozen=True, slots=True)
class WentBack:
    """A shard that ends below what was landed: its stream is not the one that the log knows."""

    key: ShardKey
    next: int
    end: int


def find_unreadable(fold: Fold, offsets: Mapping[ShardKey, ShardOffsets]) -> Gaps | WentBack | None:
    """Return why no batch can be planned from where the log stands. Arguments as `plan_batch`."""
    gaps: list[ShardRange] = []
    for key, there in sorted(offsets.items()):
        state = fold.shards[key]
        if there.end < state.next:
            return WentBack(key, state.next, there.end)
        if there.earliest > state.next:
            gaps.append(ShardRange(key, OffsetRange(state.next, there.earliest)))
    return Gaps(tuple(gaps)) if gaps else None


class LandedShard(Protocol):
    """A shard as far as it was landed, by any computation from the log."""

    @property
    def key(self) -> ShardKey:
        """Which shard."""
        ...

    @property
    def next(self) -> int:
        """The offset that comes next."""
        ...

    @property
    def leader_epoch(self) -> int | None:
        """Of the leader that reported it; None: not known."""
        ...


Logged = TypeVar("Logged", bound=LandedShard)


def find_doubtful(
    landed: Iterable[Logged], offsets: Mapping[ShardKey, ShardOffsets]
) -> tuple[Logged, ...]:
    """Return the shards that have had another leader since their last range was planned.

    Only the source knows whether they still hold what was read. A leader never cuts its
    own history: where it is the same one, nothing has to be asked; nor where the source does not
    reach to the next offset, or has dropped it: that is reported elsewhere.
    """
    return tuple(
        each
        for each in landed
        if (there := offsets.get(each.key)) is not None
        and there.earliest <= each.next <= there.end
        and None not in (each.leader_epoch, there.leader_epoch)
        and each.leader_epoch != there.leader_epoch
    )


def leaders_of(
    keys: Iterable[ShardKey], offsets: Mapping[ShardKey, ShardOffsets]
) -> tuple[tuple[ShardKey, int], ...]:
    """Return the leader epochs under which offsets of shards were read, as entries hold them."""
    return tuple(
        (key, leader_epoch)
        for key in keys
        if (leader_epoch := offsets[key].leader_epoch) is not None
    )


def plan_batch(
    fold: Fold,
    offsets: Mapping[ShardKey, ShardOffsets],
    feeds: Mapping[str, Feed],
    limits: Limits,
    now_ms: int,
) -> BatchPlan | Nothing | Gaps | WentBack:
    """Plan the next batch.

    Arguments:
        fold: of the slice's log.
        offsets: of every joined shard of a current generation that the job reads.
        feeds: by stream, the table that it feeds.
        limits: of the job.
        now_ms: the driver's clock.

    """
    unreadable = find_unreadable(fold, offsets)
    if unreadable is not None:
        return unreadable
    starts = {key: fold.shards[key].next for key in sorted(offsets)}
    backlog = {
        key: OffsetRange(start, offsets[key].end)
        for key, start in starts.items()
        if offsets[key].end > start
    }
    if not backlog:
        return Nothing()
    allowed = min(limits.records, _records_within(limits.size_bytes, fold, list(backlog)))
    waiting = {key: fold.shards[key].active_ms for key in backlog}
    ranges = divide_backlog(backlog, allowed, waiting)
    total = sum(each.size for each in backlog.values())
    left = total - sum(each.offsets.size for each in ranges)
    return divide_among_tasks(
        BatchPlan(
            batch=fold.next_batch,
            time=plan_time(fold, feeds, now_ms, frozenset(backlog)),
            ranges=ranges,
            large=(),
            piece_records=1,
            small=(),
            shared_tasks=0,
            is_behind=left > 0,
            left=left,
            leader_epochs=leaders_of([each.key for each in ranges], offsets),
        ),
        limits.parallelism,
    )


def plan_time(
    fold: Fold, feeds: Mapping[str, Feed], now_ms: int, waiting: Collection[ShardKey]
) -> BatchTime:
    """Return the time of what is planned now. `waiting`: shards that have records to read."""
    now_ms = max(now_ms, fold.now_ms)
    return BatchTime(now_ms, plan_watermarks(fold, feeds, now_ms, waiting))


def plan_watermarks(
    fold: Fold,
    feeds: Mapping[str, Feed],
    now_ms: int,
    waiting: Collection[ShardKey] = (),
) -> tuple[tuple[str, int], ...]:
    """Return per table the lowest of its shards' highest event times, never below the last one.

    A shard that has had no records for its table's `idle_after_ms`, and has none waiting, is idle
    and does not count: after a day of standstill a backlog is not late. Where all shards of a table
    are idle, the watermark advances without them, `idle_after_ms` behind the clock. A table that
    has a shard which is not idle and has no event time yet keeps what it had.
    """
    per_feed: dict[Feed, list[ShardState]] = {}
    for state in fold.current().values():
        if state.key.stream in feeds:
            per_feed.setdefault(feeds[state.key.stream], []).append(state)
    watermarks = dict(fold.watermarks)
    for feed, states in per_feed.items():
        active = [
            state.event_max_ms
            for state in states
            if state.key in waiting or now_ms - state.active_ms < feed.idle_after_ms
        ]
        known = [event_ms for event_ms in active if event_ms is not None]
        if len(known) < len(active):
            continue
        found = min(known, default=now_ms - feed.idle_after_ms)
        watermarks[feed.table] = max(found, watermarks.get(feed.table, found))
    return tuple(sorted(watermarks.items()))


def _records_within(size_bytes: int, fold: Fold, keys: Sequence[ShardKey]) -> int:
    """Estimate how many records fit, from the sizes of all records fetched so far."""
    fetched = sum(fold.shards[key].fetched for key in keys)
    size = sum(fold.shards[key].size_bytes for key in keys)
    average = size / fetched if fetched else BYTES_UNKNOWN
    return max(1, int(size_bytes / max(average, 1)))


def divide_backlog(
    backlog: Mapping[ShardKey, OffsetRange], allowed: int, waiting: Mapping[ShardKey, int]
) -> tuple[ShardRange, ...]:
    """Cut the backlog to `allowed` offsets, max-min fair.

    Each shard gets an equal part; what it does not need goes to the others, so that a small backlog
    never waits for a large one. What does not divide evenly goes to those that have waited longest.

    `waiting`: when each shard was last read, by any clock.
    """
    cut: dict[ShardKey, int] = {}
    large = sorted(backlog, key=lambda key: backlog[key].size, reverse=True)
    while large and backlog[large[-1]].size <= allowed // len(large):
        smallest = large.pop()
        cut[smallest] = backlog[smallest].size
        allowed -= cut[smallest]
    large.sort(key=lambda key: (waiting[key], key))
    for place, key in enumerate(large):
        cut[key] = allowed // len(large) + (place < allowed % len(large))
    return tuple(
        ShardRange(key, OffsetRange(offsets.start, offsets.start + cut[key]))
        for key, offsets in backlog.items()
        if cut[key]
    )


def divide_among_tasks(plan: BatchPlan, parallelism: int) -> BatchPlan:
    """Return the plan with its ranges divided into those of one task and those that share tasks."""
    tasks_wanted = max(math.ceil(plan.size / TASK_RECORDS_MAX), 1)
    tasks_wanted = parallelism * math.ceil(tasks_wanted / parallelism)
    tasks = min(math.ceil(plan.size / TASK_RECORDS_MIN), tasks_wanted)
    piece = math.ceil(plan.size / tasks)
    # A range of more than half a piece is a task of its own, unless one task is enough for all.
    large_above = piece / 2 if tasks > 1 else piece
    large = tuple(each for each in plan.ranges if each.offsets.size > large_above)
    small = tuple(each for each in plan.ranges if each.offsets.size <= large_above)
    shared = math.ceil(sum(each.offsets.size for each in small) / piece)
    return replace(plan, large=large, piece_records=piece, small=small, shared_tasks=shared)


def check_batch(plan: BatchPlan, fold: Fold) -> None:
    """Raise InvariantBroken unless the plan continues the fold. Read again before an append."""
    check(plan.batch == fold.next_batch, "the plan is for another batch")
    for each in plan.ranges:
        check(each.offsets.start == fold.shards[each.key].next, f"{each} does not continue the log")
    divided = sorted([*plan.large, *plan.small])
    check(divided == sorted(plan.ranges), "the plan's tasks do not cover its ranges")
