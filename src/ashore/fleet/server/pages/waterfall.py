"""Batches one below the other, each with how long its parts took, as SVG.

What it promises: pure; parts differ by shape as well as by colour, and each has its words.
"""

from collections.abc import Iterator, Sequence
from xml.sax.saxutils import escape

from ashore.base.units import format_duration
from ashore.fleet.records.values import BatchSeen
from ashore.fleet.server.pages.drawing import named
from ashore.log.store.walk import RecentBatch

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
        parts.append(f'<text x="0" y="{y + 14}">{_name_of(each)}</text>')
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


def _name_of(batch: BatchSeen) -> str:
    return "batch ?" if batch.batch is None else f"batch {batch.batch:,}"
