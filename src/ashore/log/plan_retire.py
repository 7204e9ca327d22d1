"""Which table partitions a running job drops because they are old, and what speaks against it.

What it is: `plan_retire`, from the fold, the rules of tables, and what lies in their directories.
What it promises: pure, and from the log alone. The age of a partition counts from the newest event
time that has landed, and from no later than the last batch's `now`: a clock that is wrong drops
nothing, nor is anything dropped of a table that nothing comes to. Nothing is filed under a
partition that was dropped: later batches are of no earlier `now` and watermark, and by these what
would belong there is filed elsewhere (I7 of `model/retention.py`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ashore.log.files import PartitionKey
from ashore.log.fold import Fold
from ashore.log.plan_seal import partition_end_ms

PARTITIONS_MAX = 100  # in one entry


@dataclass(frozen=True, slots=True)
class RetireRule:
    """How old the partitions of one table may become."""

    table: str
    main: str  # the table itself, or the one whose late or dead-letter table it is
    streams: frozenset[str]  # that feed it
    columns: tuple[str, ...]  # that it is partitioned by
    timezone: str
    retention_ms: int
    late_ms: int  # how far behind the watermark a record is filed under its own time
    is_sealed: bool  # whether its partitions are sealed

    @property
    def is_side(self) -> bool:
        """Whether rows are filed under the time of their batch: none of them comes late."""
        return self.table != self.main


@dataclass(frozen=True, slots=True)
class Kept:
    """A partition that is older than its table's retention, and why it stays for now."""

    table: str
    partition: str
    why: str
    orphans: int = 0  # files of others in it: it is not dropped


@dataclass(frozen=True, slots=True)
class RetirePlan:
    """Which partitions go now, the oldest first, and which of the old ones stay for now."""

    partitions: tuple[PartitionKey, ...]
    kept: tuple[Kept, ...]


def plan_retire(
    fold: Fold, rules: Iterable[RetireRule], found: Mapping[PartitionKey, int]
) -> RetirePlan:
    """Plan what goes. `found`: partitions, with how many files of others are in them."""
    due: list[tuple[int, PartitionKey]] = []
    kept: list[Kept] = []
    for rule in rules:
        for key, orphans in sorted(found.items()):
            end_ms = partition_end_ms(key[1], rule.timezone) if key[0] == rule.table else None
            if end_ms is None or end_ms + rule.retention_ms > fold.now_ms:
                continue
            why = _find_obstacle(fold, rule, key, end_ms)
            if why:
                kept.append(Kept(*key, why))
            elif orphans:
                why = f"it has {orphans:,} files that this job did not write"
                kept.append(Kept(*key, why, orphans))
            else:
                due.append((end_ms, key))
    return RetirePlan(tuple(key for _, key in sorted(due)[:PARTITIONS_MAX]), tuple(kept))


def find_cutoff(fold: Fold, rule: RetireRule) -> int | None:
    """Return the time by which a partition has ended if it is old; None: none is.

    What has ended by then may have to stay all the same.
    """
    newest_ms = _newest_event_ms(fold, rule)
    return None if newest_ms is None else min(newest_ms, fold.now_ms) - rule.retention_ms


def _newest_event_ms(fold: Fold, rule: RetireRule) -> int | None:
    times = (
        state.event_max_ms for key, state in fold.current().items() if key.stream in rule.streams
    )
    return max((event_ms for event_ms in times if event_ms is not None), default=None)


def _find_obstacle(fold: Fold, rule: RetireRule, key: PartitionKey, end_ms: int) -> str:
    """Return what keeps a partition that is old by the last batch's time; empty: nothing."""
    cutoff_ms = find_cutoff(fold, rule)
    if cutoff_ms is None:
        return "no record with an event time has landed"
    if end_ms > cutoff_ms:
        return "it is not old enough, counted from the newest record that has landed"
    watermark_ms = fold.watermarks.get(rule.main)
    if not rule.is_side and (watermark_ms is None or watermark_ms < end_ms + rule.late_ms):
        return "records may still arrive in it: the watermark is not far enough past its end"
    state = fold.partitions.get(key)
    if rule.is_sealed and state is not None and state.rows != state.sealed_rows:
        return "it is not sealed, or rows have arrived since"
    return ""
