"""Small pictures of numbers as SVG, for pages: no style of their own, so a page colours them.

What it promises: pure; the same SVG for the same numbers. Each has a text that says what it shows.
"""

from collections.abc import Sequence
from functools import lru_cache
from xml.sax.saxutils import escape, quoteattr

SPARK_WIDTH, SPARK_HEIGHT = 120, 24
SPARK_POINTS = 60  # more are not seen


@lru_cache(4_096)
def sparkline(values: tuple[float | None, ...], label: str) -> str:
    """Return a line without axes; a value that is None is a gap. Empty without two values."""
    values = _thinned(values)
    known = [each for each in values if each is not None]
    if len(known) < 2:
        return ""
    top = max(known) or 1.0
    step = SPARK_WIDTH / (len(values) - 1)
    points = [
        None if each is None else (index * step, SPARK_HEIGHT - 2 - each / top * (SPARK_HEIGHT - 4))
        for index, each in enumerate(values)
    ]
    return (
        f'<svg class="spark" viewBox="0 0 {SPARK_WIDTH} {SPARK_HEIGHT}" width="{SPARK_WIDTH}" '
        f'height="{SPARK_HEIGHT}" role="img" aria-label={quoteattr(label)}>'
        f'<path d="{path_of(points)}"/></svg>'
    )


def _thinned(values: tuple[float | None, ...]) -> tuple[float | None, ...]:
    """Return as many values as can be seen: the highest of each group."""
    each = -(-len(values) // SPARK_POINTS)
    if each <= 1:
        return values
    parts = (values[start : start + each] for start in range(0, len(values), each))
    return tuple(max((v for v in part if v is not None), default=None) for part in parts)


def path_of(points: Sequence[tuple[float, float] | None]) -> str:
    """Return the path through points; None interrupts it."""
    parts, is_on = [], False
    for point in points:
        if point is None:
            is_on = False
            continue
        parts.append(f"{'L' if is_on else 'M'}{point[0]:.1f},{point[1]:.1f}")
        is_on = True
    return " ".join(parts)


CHART_WIDTH, CHART_HEIGHT, LEFT, BOTTOM, TOP = 640, 150, 10, 20, 28


def chart(
    times_ms: Sequence[int],
    values: Sequence[float | None],
    title: str,
    top_text: str,
    ends: tuple[str, str],
) -> str:
    """Return values over time as a line with an area below.

    `top_text`: of the highest value; `ends`: texts of the first and last time.
    """
    known = [each for each in values if each is not None]
    if len(known) < 2 or times_ms[-1] <= times_ms[0]:
        return ""
    top = max(known) or 1.0
    width, height = CHART_WIDTH - 2 * LEFT, CHART_HEIGHT - TOP - BOTTOM
    span = times_ms[-1] - times_ms[0]
    points = [
        None
        if value is None
        else (LEFT + (at - times_ms[0]) / span * width, TOP + height - value / top * height)
        for at, value in zip(times_ms, values, strict=True)
    ]
    base = TOP + height
    label = f"{title} from {ends[0]} to {ends[1]}, at most {top_text}"
    return "\n".join(
        [
            f'<svg class="chart" viewBox="0 0 {CHART_WIDTH} {CHART_HEIGHT}" {named(label)}>',
            text_at(LEFT, 16, title),
            text_at(CHART_WIDTH - LEFT, 16, f"at most {top_text}", "end"),
            f'<path class="grid" d="M{LEFT},{TOP} H{CHART_WIDTH - LEFT}"/>',
            f'<path class="grid" d="M{LEFT},{base} H{CHART_WIDTH - LEFT}"/>',
            f'<path class="line" d="{path_of(points)}"/>',
            text_at(LEFT, CHART_HEIGHT - 4, ends[0]),
            text_at(CHART_WIDTH - LEFT, CHART_HEIGHT - 4, ends[1], "end"),
            "</svg>",
        ]
    )


def named(label: str) -> str:
    """Return the attributes by which a picture is read aloud."""
    return f'role="img" aria-label={quoteattr(label)}'


def text_at(x: float, y: float, text: str, kind: str = "") -> str:
    """Return a text; `kind`: its class."""
    name = f' class="{kind}"' if kind else ""
    return f'<text x="{x:g}" y="{y:g}"{name}>{escape(text)}</text>'
