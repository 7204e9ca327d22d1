"""One job on a page: where it stands, what it did last, what is in its way.

What it is: `view_job`, from what was last seen of it and what its log says of the last batches.
What it promises: pure. In the picture of batches parts differ by shape as well as by colour, and
each has its words.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from xml.sax.saxutils import escape

from ashore.base.units import format_duration
from ashore.fleet.records.history import JobSample, split_at_gaps, thin
from ashore.fleet.records.server_files import BatchSeen
from ashore.fleet.server.condition import SeenJob
from ashore.fleet.server.pages.drawing import chart, named
from ashore.fleet.server.pages.fleet_page import view_row
from ashore.fleet.server.pages.flow_svg import draw_flow, view_flow
from ashore.fleet.server.pages.supervision import offered_verbs
from ashore.log.store.walk import RecentBatch
from ashore.proof.status.status import SliceStatus

WIDTH, LABEL, ROW, TOP = 720, 130, 20, 8
BAR_MIN = 2.0
LEGEND = "solid: planned, read and written; outlined: moved, until the log says so"


def waterfall(batches: Sequence[RecentBatch], now_ms: int) -> str:
    """Return the picture; empty without a batch. `now_ms`: what is not closed lasts until then."""
    if not batches:
        return ""
    first = batches[0].planned_ms
    last = max(_end(each, now_ms) for each in batches)
    scale = (WIDTH - LABEL - 10) / max(1, last - first)
    height = TOP + ROW * len(batches) + 24
    label = f"the last {len(batches)} batches over {format_duration(last - first)}"
    parts = [f'<svg class="waterfall" viewBox="0 0 {WIDTH} {height}" {named(label)}>']
    for place, each in enumerate(batches):
        parts += _row(each, TOP + ROW * place, first, scale, now_ms)
    parts.append(f'<text x="{LABEL}" y="{height - 8}">{escape(LEGEND)}</text></svg>')
    return "\n".join(parts)


def _end(batch: RecentBatch, now_ms: int) -> int:
    return max(batch.prepared_ms, now_ms if batch.closed_ms is None else batch.closed_ms)


def _row(batch: RecentBatch, y: float, first: int, scale: float, now_ms: int) -> Iterator[str]:
    written = max(0, batch.prepared_ms - batch.planned_ms)
    moved = max(0, _end(batch, now_ms) - batch.prepared_ms)
    yield f'<text x="0" y="{y + 14}">batch {batch.batch:,}</text>'
    words = f"planned, read and written in {format_duration(written)}: {batch.fetched:,} records"
    yield _bar("write", LABEL + (batch.planned_ms - first) * scale, y, written * scale, words)
    end = "not closed yet, for" if batch.closed_ms is None else "moved and closed in"
    words = f"{end} {format_duration(moved)}: {batch.files:,} files"
    yield _bar("move", LABEL + (batch.prepared_ms - first) * scale, y, moved * scale, words)


def _bar(kind: str, x: float, y: float, width: float, words: str) -> str:
    return (
        f'<rect class="{kind}" x="{x:.1f}" y="{y + 3}" width="{max(BAR_MIN, width):.1f}" '
        f'height="{ROW - 6}"><title>{escape(words)}</title></rect>'
    )


SHAPES = {"plan": "plan", "write": "write", "prepare": "prepare", "move": "move"}
STEPS_LEGEND = "filled: write; striped: plan; thick: prepare; outlined: move; thin: other steps"


def step_waterfall(batches: Sequence[BatchSeen]) -> str:
    """Return the picture of batches by the steps that their process has reported."""
    timed = [each for each in batches if each.steps]
    if not timed:
        return ""
    firsts = [each.at_ms - sum(step.took_ms for step in each.steps) for each in timed]
    first, last = min(firsts), max(each.at_ms for each in timed)
    scale = (WIDTH - LABEL - 10) / max(1, last - first)
    height = TOP + ROW * len(timed) + 24
    label = f"the steps of the last {len(timed)} batches over {format_duration(last - first)}"
    parts = [f'<svg class="waterfall" viewBox="0 0 {WIDTH} {height}" {named(label)}>', STRIPES]
    for place, (each, began) in enumerate(zip(timed, firsts, strict=True)):
        y, at = TOP + ROW * place, began
        number = "?" if each.batch is None else f"{each.batch:,}"
        parts.append(f'<text x="0" y="{y + 14}">batch {number}</text>')
        for step in each.steps:
            words = f"{step.step}: {format_duration(step.took_ms)}"
            x = LABEL + (at - first) * scale
            parts.append(_bar(SHAPES.get(step.step, "other"), x, y, step.took_ms * scale, words))
            at += step.took_ms
    parts.append(f'<text x="{LABEL}" y="{height - 8}">{escape(STEPS_LEGEND)}</text></svg>')
    return "\n".join(parts)


STRIPES = (
    '<defs><pattern id="stripes" width="6" height="6" patternUnits="userSpaceOnUse">'
    '<path class="stripe" d="M0,6 L6,0"/></pattern></defs>'
)


SHOWN = 200  # topic partitions, tables, blocked seals


def view_job(
    seen: SeenJob,
    batches: Mapping[str, Sequence[RecentBatch]],
    samples: Sequence[JobSample],
    over: str,
    problem: str = "",
) -> dict[str, object]:
    """Return what the page of a job shows, by the names of its template.

    Arguments:
        seen: the job.
        batches: the last ones of each slice.
        samples: see `view_history`, as `over`.
        over: the time that charts show.
        problem: why the last batches are not shown; empty: they are.

    """
    status = seen.row.status
    slices = () if status is None else status.slices
    now_ms = seen.seen_ms if status is None else status.now_ms
    steps = {each.slice: each.batches for each in seen.steps}
    row = view_row(seen)
    return {
        "seen": seen,
        "row": row,
        "status": status,
        "supervised": seen.supervised,
        "verbs": offered_verbs(seen.supervised),
        "slices": [
            _view_slice(each, batches.get(each.slice, ()), steps.get(each.slice, ()), now_ms)
            for each in slices
        ],
        "flow": "" if status is None else draw_flow(view_flow(status, row.state)),
        "blocked": () if status is None else status.blocked_seals[:SHOWN],
        "retained": () if status is None else status.kept[:SHOWN],
        "deferred": [each for found in slices for each in found.deferred_by_action],
        "problem": problem,
        **view_history(samples, over, row.lag, seen.seen_ms),
    }


def _view_slice(
    status: SliceStatus, batches: Sequence[RecentBatch], steps: Sequence[BatchSeen], now_ms: int
) -> dict[str, object]:
    lags = [(f"{each.stream}/{each.shard}", each.lag or 0) for each in status.shards]
    most = sorted(lags, key=lambda each: -each[1])[:5]
    return {
        "status": status,
        "batches": batches,
        "waterfall": step_waterfall(steps) or waterfall(batches, now_ms),
        "rate": _rate_chart(batches),
        "hidden": max(0, len(status.shards) - SHOWN),
        "most_lag": [each for each in most if each[1]],
    }


def _rate_chart(batches: Sequence[RecentBatch]) -> str:
    points = [
        (after.prepared_ms, after.fetched * 1000 / (after.prepared_ms - before.prepared_ms))
        for before, after in pairwise(batches)
        if after.prepared_ms > before.prepared_ms
    ]
    if len(points) < 2:
        return ""
    times, rates = zip(*points, strict=True)
    return chart(times, rates, "records per second, batch by batch")


OVER_MS = {"hour": 3_600_000, "day": 86_400_000, "week": 604_800_000}
POINTS = 240  # more are not seen


def view_history(
    samples: Sequence[JobSample], over: str, lag: int | None, now_ms: int
) -> dict[str, object]:
    """Return what the page of a job shows of a time, by the names of its template.

    Arguments:
        samples: of that time, the oldest first.
        over: a key of `OVER_MS`.
        lag: that the page shows in figures: the chart of the lag ends with it; None: not known.
        now_ms: of the lag.

    """
    points = list(split_at_gaps(thin(samples, POINTS)))
    times = [at_ms for at_ms, _ in points]
    lags = [None if each is None else each.lag for _, each in points]
    has_later = bool(times) and lag is not None and now_ms > times[-1]
    charts = [
        chart(times[1:], _rates(points), "records landed per second"),
        chart([*times, *[now_ms] * has_later], [*lags, *[lag] * has_later], "lag in offsets"),
        chart(times, _batch_times(points), "longest batch in seconds"),
    ]
    for title, counts in (
        ("dead letters", [None if each is None else each.dead for _, each in points]),
        ("late records", [None if each is None else each.late for _, each in points]),
    ):
        if any(counts):
            charts.append(chart(times, counts, title))
    return {"over": over, "spans": tuple(OVER_MS), "charts": charts}


def _batch_times(points: Sequence[tuple[int, JobSample | None]]) -> list[float | None]:
    return [
        None if each is None or each.batch_ms is None else each.batch_ms / 1000
        for _, each in points
    ]


def _rates(points: Sequence[tuple[int, JobSample | None]]) -> list[float | None]:
    """Return records per second, from each point to the next."""
    return [
        after.landed * 1000 / (at_ms - before_ms) if before and after else None
        for (before_ms, before), (at_ms, after) in pairwise(points)
    ]
