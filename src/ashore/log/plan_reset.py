"""How the times of a log go back that are too far ahead.

What it is: `plan_reset`, from a fold and the entries of its log.
What it promises: pure. What a log goes back to is what it said with the last batch that was not
ahead; what was landed by a clock that was is counted, partition by partition.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from ashore.base.clock import is_ahead
from ashore.log.entries import Entry, Prepare, ResetClock, Seal
from ashore.log.files import PartitionKey
from ashore.log.fold import Fold


@dataclass(frozen=True, slots=True)
class ClockReset:
    """What an entry sets back, and what stays as it was landed."""

    body: ResetClock
    log_ms: int  # the highest time of the log
    batches: int  # that were landed with a time above `body.now_ms`
    rows: tuple[tuple[PartitionKey, int], ...]  # that they landed, by partition: they stay there
    seals: tuple[tuple[PartitionKey, int], ...]  # versions that were sealed then: they stay


def plan_reset(
    fold: Fold, history: Iterable[Entry], now_ms: int, by: str, why: str
) -> ClockReset | None:
    """Return the reset that a log needs; None: no time of it is ahead."""
    if not is_ahead(fold.latest_ms, now_ms):
        return None
    batches = 0
    watermarks: dict[str, int] = {}
    rows: Counter[PartitionKey] = Counter()
    seals: dict[PartitionKey, int] = {}
    for entry in history:
        match entry.body:
            case Prepare() as body if body.time.now_ms > now_ms:
                batches += 1
                for file in body.files:
                    rows[body.targets[file.target].key] += file.rows
            case Prepare() as body:
                watermarks |= dict(body.time.watermarks)
            case Seal() as body:
                late = [each for each in body.partitions if each.now_ms > now_ms]
                seals |= {(each.table, each.partition): each.version for each in late}
            case ResetClock() as body:
                watermarks = dict(body.watermarks)
            case _:
                pass
    kept = {
        table: min(watermark_ms, fold.watermarks[table])
        for table, watermark_ms in watermarks.items()
        if table in fold.watermarks
    }
    body = ResetClock(now_ms, tuple(sorted(kept.items())), by, why)
    return ClockReset(
        body, fold.latest_ms, batches, tuple(sorted(rows.items())), tuple(sorted(seals.items()))
    )
