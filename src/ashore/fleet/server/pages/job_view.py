"""One job on a page: where it stands, what it did last, what is in its way.

What it is: `view_job`, from what was last seen of it and what its log says of the last batches.
What it promises: pure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ashore.base.units import format_duration
from ashore.fleet.records.values import BatchSeen
from ashore.fleet.server.observation import SeenJob, Supervised
from ashore.fleet.server.pages.drawing import Axis, chart
from ashore.fleet.server.pages.fleet_view import JobRow, view_row
from ashore.fleet.server.pages.waterfall import step_waterfall, waterfall
from ashore.log.plan_retire import Kept
from ashore.log.plan_seal import Blocked
from ashore.log.store.walk import RecentBatch
from ashore.proof.status.status import DeferredStatus, JobStatus, SliceStatus

SHOWN = 200  # topic partitions, tables, blocked seals


@dataclass(frozen=True, slots=True)
class SliceView:
    """A slice: its numbers, and its last batches."""

    status: SliceStatus
    batches: tuple[RecentBatch, ...]
    waterfall: str  # SVG
    rate: str  # SVG: records per second, batch by batch
    hidden: int  # topic partitions that are not shown
    skew: tuple[tuple[str, int], ...]  # topic partitions that lag most


@dataclass(frozen=True, slots=True)
class JobView:
    """A job with all that its page shows."""

    name: str
    path: str
    row: JobRow
    status: JobStatus | None
    slices: tuple[SliceView, ...]
    lag: str  # SVG: over time
    blocked: tuple[Blocked, ...]
    kept: tuple[Kept, ...]
    deferred: tuple[DeferredStatus, ...]
    supervised: Supervised | None
    problem: str  # why the last batches are not shown; empty: they are


def view_job(
    seen: SeenJob, batches: Mapping[str, Sequence[RecentBatch]], problem: str = ""
) -> JobView:
    """Return the page of a job. `batches`: the last ones of each slice."""
    status = seen.row.status
    slices = () if status is None else status.slices
    now_ms = seen.seen_ms if status is None else status.now_ms
    steps = {each.slice: each.batches for each in seen.steps}
    return JobView(
        name=seen.name,
        path=str(seen.path),
        row=view_row(seen),
        status=status,
        slices=tuple(
            _view_slice(each, batches.get(each.slice, ()), steps.get(each.slice, ()), now_ms)
            for each in slices
        ),
        lag=_lag_chart(seen),
        blocked=() if status is None else status.blocked_seals[:SHOWN],
        kept=() if status is None else status.kept[:SHOWN],
        deferred=tuple(each for found in slices for each in found.deferred_by_action),
        supervised=seen.supervised,
        problem=problem,
    )


def _view_slice(
    status: SliceStatus,
    batches: Sequence[RecentBatch],
    steps: Sequence[BatchSeen],
    now_ms: int,
) -> SliceView:
    lags = [(f"{each.stream}/{each.shard}", each.lag or 0) for each in status.shards]
    most = sorted(lags, key=lambda each: -each[1])[:5]
    return SliceView(
        status=status,
        batches=tuple(batches),
        waterfall=step_waterfall(steps) or waterfall(batches, now_ms),
        rate=_rate_chart(batches),
        hidden=max(0, len(status.shards) - SHOWN),
        skew=tuple(each for each in most if each[1]),
    )


def _rate_chart(batches: Sequence[RecentBatch]) -> str:
    """Return records per second of each batch, since the one before."""
    points = [
        (after.prepared_ms, after.fetched * 1000 / (after.prepared_ms - before.prepared_ms))
        for before, after in pairwise(batches)
        if after.prepared_ms > before.prepared_ms
    ]
    if len(points) < 2:
        return ""
    times, rates = zip(*points, strict=True)
    span = format_duration(times[-1] - times[0])
    axis = Axis("records per second, batch by batch", f"{max(rates):,.0f}")
    return chart(times, rates, axis, (f"{span} before", "the last batch"))


def _lag_chart(seen: SeenJob) -> str:
    known = [each for each in seen.samples if each.lag is not None]
    if len(known) < 2:
        return ""
    times = [each.at_ms for each in seen.samples]
    axis = Axis(
        "lag in offsets, as this server saw it", f"{max(each.lag or 0 for each in known):,}"
    )
    span = format_duration(times[-1] - times[0])
    return chart(times, [each.lag for each in seen.samples], axis, (f"{span} before", "now"))
