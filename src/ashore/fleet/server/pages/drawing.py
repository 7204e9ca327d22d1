"""Small pictures of numbers as SVG, for pages: no style of their own, so a page colours them.

What it promises: pure; the same SVG for the same numbers. Each has a text that says what it shows.
"""

from collections.abc import Sequence
from functools import lru_cache
from math import floor, log10
from xml.sax.saxutils import escape, quoteattr

from ashore.base.units import format_time

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


CHART_WIDTH, CHART_HEIGHT, LEFT, BOTTOM, TOP = 640, 180, 10, 22, 42
PLOT = 74  # where the line begins, beside the numbers of the axis
EDGE = 45  # from a side: the words of a time there would be cut
TICKS = 3  # intervals of the vertical axis, about
TIMES_MAX = 5
_S, _MIN, _H = 1_000, 60_000, 3_600_000
TIME_STEPS_MS = (
    *(each * _S for each in (1, 2, 5, 10, 30)),
    *(each * _MIN for each in (1, 2, 5, 10, 30)),
    *(each * _H for each in (1, 2, 6, 12, 24, 48)),
)


def chart(times_ms: Sequence[int], values: Sequence[float | None], title: str) -> str:
    """Return values over time as a line, with axes. Empty without two values.

    Times are in UTC; over more than a day they are days.
    """
    known = [each for each in values if each is not None]
    if len(known) < 2 or times_ms[-1] <= times_ms[0]:
        return ""
    top = max(known) or 1.0
    width, height = CHART_WIDTH - LEFT - PLOT, CHART_HEIGHT - TOP - BOTTOM
    base, start, span = TOP + height, times_ms[0], times_ms[-1] - times_ms[0]

    def across(at_ms: int) -> float:
        return PLOT + (at_ms - start) / span * width

    def up(value: float) -> float:
        return base - value / top * height

    points = [
        None if value is None else (across(at), up(value))
        for at, value in zip(times_ms, values, strict=True)
    ]
    most = f"at most {max(known):,.0f}"
    clock, day = slice(11, 19), slice(5, 10)
    part = clock if span <= 24 * _H else day
    ends = " to ".join(format_time(each)[part] for each in (start, times_ms[-1]))
    label = named(f"{title} from {ends} UTC, {most}")
    parts = [
        f'<svg class="chart" viewBox="0 0 {CHART_WIDTH} {CHART_HEIGHT}" {label}>',
        text_at(LEFT, 16, title),
        text_at(CHART_WIDTH - LEFT, 16, most, "end"),
    ]
    for tick in value_ticks(top):
        parts.append(f'<path class="grid" d="M{LEFT},{up(tick):.1f} H{CHART_WIDTH - LEFT}"/>')
        parts.append(text_at(LEFT, round(up(tick) - 3, 1), f"{tick:,.10g}"))
    for at_ms in time_ticks(start, times_ms[-1]):
        if EDGE <= across(at_ms) <= CHART_WIDTH - EDGE:
            words = format_time(at_ms)[part]
            words = words if span < _H else words[:5]
            parts.append(f'<path class="grid" d="M{across(at_ms):.1f},{base} v4"/>')
            parts.append(text_at(round(across(at_ms), 1), CHART_HEIGHT - 3, words, "middle"))
    return "\n".join([*parts, f'<path class="line" d="{path_of(points)}"/>', "</svg>"])


def value_ticks(top: float) -> list[float]:
    """Return round numbers from 0 to `top`."""
    rough = top / TICKS
    power: float = 10.0 ** floor(log10(rough))
    step = next(each * power for each in (1, 2, 5, 10) if each * power >= rough * 0.999)
    return [round(number * step, 10) for number in range(int(top / step + 1e-9) + 1)]


def time_ticks(start_ms: int, end_ms: int) -> range:
    """Return round times in between, a few."""
    span = end_ms - start_ms
    step = next((each for each in TIME_STEPS_MS if span <= each * TIMES_MAX), span)
    return range(-(-start_ms // step) * step, end_ms + 1, step)


def named(label: str) -> str:
    """Return the attributes by which a picture is read aloud."""
    return f'role="img" aria-label={quoteattr(label)}'


def text_at(x: float, y: float, text: str, kind: str = "") -> str:
    """Return a text; `kind`: its class."""
    name = f' class="{kind}"' if kind else ""
    return f'<text x="{x:g}" y="{y:g}"{name}>{escape(text)}</text>'
