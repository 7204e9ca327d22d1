"""`reset_clock`: the times of the log go back to what the time is.

What it promises: time goes back in no other entry. Nothing that was landed or sealed changes with
it: rows stay in their partitions, versions of sealed partitions continue. Who did it and why stand
in the log for ever.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from ashore.log.files import PartitionKey
from ashore.log.fold import Changes, Fold, PartitionState, ShardState
from ashore.log.positions import ShardKey
from ashore.log.rules import require


@dataclass(frozen=True, slots=True)
class ResetClock:
    """The times of the log go back, after a clock that was ahead."""

    kind: ClassVar[str] = "reset_clock"
    now_ms: int  # no time of the log is above it from here on
    watermarks: tuple[tuple[str, int], ...]  # table, ms; other tables have none until a batch
    by: str
    why: str


def fold_reset_clock(fold: Fold, body: ResetClock) -> Changes:
    """Return what a `reset_clock` changes in the fold. Raises Refused."""
    require(0 <= body.now_ms < fold.latest_ms, "it sets nothing back")
    tables = {table for table, _ in body.watermarks}
    require(len(tables) == len(body.watermarks), "a table is in it twice")
    for table, watermark_ms in body.watermarks:
        is_back = table in fold.watermarks and watermark_ms <= fold.watermarks[table]
        require(is_back, f"{table}: the watermark does not go back")
    return {
        "now_ms": min(fold.now_ms, body.now_ms),
        "watermarks": dict(body.watermarks),
        "shards": _set_back(fold.shards, body.now_ms),
        "partitions": _set_seals_back(fold.partitions, body.now_ms),
    }


def _set_back(shards: Mapping[ShardKey, ShardState], now_ms: int) -> dict[ShardKey, ShardState]:
    """Return shards none of which was active, or had an event, after `now_ms`.

    A highest event time was accepted by a clock that was ahead, and would become the watermark.
    """
    return {
        key: replace(
            state,
            active_ms=min(state.active_ms, now_ms),
            event_max_ms=None if state.event_max_ms is None else min(state.event_max_ms, now_ms),
        )
        for key, state in shards.items()
    }


def _set_seals_back(
    partitions: Mapping[PartitionKey, PartitionState], now_ms: int
) -> dict[PartitionKey, PartitionState]:
    """Return partitions none of which was sealed after `now_ms`, so that late rows are reported."""
    return {
        key: replace(state, sealed_ms=now_ms) if state.sealed_ms > now_ms else state
        for key, state in partitions.items()
    }
