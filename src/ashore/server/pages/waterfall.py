"""Batches one below the other, each with how long its parts took, as SVG.

What it promises: pure; parts differ by shape as well as by colour, and each has its words.
"""

from collections.abc import Iterator, Sequence
from xml.sax.saxutils import escape

from ashore.base.units import format_duration
from ashore.control.walk import RecentBatch
from ashore.server.pages.drawing import named

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
