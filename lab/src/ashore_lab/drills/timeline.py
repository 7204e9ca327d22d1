"""Where everything of a drill's timeline stands: lanes of faults above, two charts below.

What it is: places and labels in the units of an SVG, for a template.
What it promises: pure; as many marks as there are, lines of charts thinned to POINTS_MAX.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ashore.base.units import format_duration
from ashore_lab.drills.recorder import FAULT
from ashore_lab.drills.verdict import Mark, Sample, Timeline

WIDTH, LEFT, RIGHT = 960, 70, 944
LANES_TOP, LANE_HEIGHT, CHART_HEIGHT, GAP, FOOT = 26, 32, 150, 34, 34
LANES_MAX = 8
POINTS_MAX = 1_200
TIMES = 5  # labels of the time axis after the first


@dataclass(frozen=True, slots=True)
class LaneEvent:
    """One event of a lane."""

    x: float
    title: str


@dataclass(frozen=True, slots=True)
class Lane:
    """Events of one kind, in a row."""

    kind: str
    css: str
    middle: int
    ticks: tuple[LaneEvent, ...]


@dataclass(frozen=True, slots=True)
class GridLine:
    """A horizontal line of a chart, and what it stands for."""

    y: float
    label: str


@dataclass(frozen=True, slots=True)
class Chart:
    """One figure over time. `points`: corners, as `x,y`."""

    name: str
    css: str
    shape: str
    top: int
    most: int
    lines: tuple[GridLine, ...]
    points: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TimeLabel:
    """A time below the charts."""

    x: float
    anchor: str
    text: str


@dataclass(frozen=True, slots=True)
class Drawing:
    """A timeline in the units of an SVG of `width` by `height`."""

    lanes: tuple[Lane, ...]
    charts: tuple[Chart, ...]
    times: tuple[TimeLabel, ...]
    bottom: int
    height: int
    width: int = WIDTH
    left: int = LEFT
    right: int = RIGHT


def draw_timeline(timeline: Timeline) -> Drawing:
    """Return where everything of a timeline stands."""
    end_s = max(timeline.end_s, 1e-3)
    lanes = tuple(_lanes(timeline.marks, end_s))
    landed_top = LANES_TOP + len(lanes) * LANE_HEIGHT + GAP
    lag_top = landed_top + CHART_HEIGHT + GAP
    bottom = lag_top + CHART_HEIGHT
    samples = _thin(timeline.samples)
    landed = [(each.at_s, each.landed) for each in samples]
    lag = [(each.at_s, each.lag) for each in samples]
    charts = (
        _chart("records landed", landed, (landed_top, end_s), is_filled=True),
        _chart("lag, in records", lag, (lag_top, end_s), is_filled=False),
    )
    return Drawing(lanes, charts, tuple(_times(end_s)), bottom, bottom + FOOT)


def _lanes(marks: Sequence[Mark], end_s: float) -> Iterator[Lane]:
    for index, (kind, own) in enumerate(_by_kind(marks).items()):
        ticks = (LaneEvent(_x(each.at_s, end_s), f"{each.at_s:.1f} s: {each.text}") for each in own)
        css = "fault" if kind.startswith(FAULT) else "other"
        yield Lane(kind, css, LANES_TOP + index * LANE_HEIGHT, tuple(ticks))


def _by_kind(marks: Sequence[Mark]) -> dict[str, list[Mark]]:
    """Return marks by kind: faults first; kinds that are too many share the last lane."""
    lanes: dict[str, list[Mark]] = {}
    for mark in sorted(marks, key=lambda each: (not each.kind.startswith(FAULT), each.at_s)):
        is_known = mark.kind in lanes or len(lanes) < LANES_MAX - 1
        lanes.setdefault(mark.kind if is_known else "others", []).append(mark)
    return lanes


def _chart(
    name: str, points: Sequence[tuple[float, int]], place: tuple[int, float], *, is_filled: bool
) -> Chart:
    top, end_s = place
    bottom, most = top + CHART_HEIGHT, max((value for _, value in points), default=0)
    lines = tuple(
        GridLine(round(bottom - share * CHART_HEIGHT, 1), _short(most * share))
        for share in (0.0, 0.5, 1.0)
    )
    corners = tuple(_corners(points, (bottom, most), end_s))
    if not is_filled:
        return Chart(name, "lag", "polyline", top, most, lines, corners)
    if points:
        first, last = _x(points[0][0], end_s), _x(points[-1][0], end_s)
        corners = (f"{first},{bottom}", *corners, f"{last},{bottom}")
    return Chart(name, "landed", "polygon", top, most, lines, corners)


def _corners(
    points: Sequence[tuple[float, int]], scale: tuple[int, int], end_s: float
) -> Iterator[str]:
    """Yield corners: a value holds until the next one."""
    bottom, most = scale
    before = None
    for at_s, value in points:
        x, y = _x(at_s, end_s), round(bottom - CHART_HEIGHT * value / max(most, 1), 1)
        if before is not None and before != y:
            yield f"{x},{before}"
        yield f"{x},{y}"
        before = y


def _times(end_s: float) -> Iterator[TimeLabel]:
    for number in range(TIMES + 1):
        at_s = end_s * number / TIMES
        anchor = ("start", "middle", "end")[(number > 0) + (number == TIMES)]
        yield TimeLabel(_x(at_s, end_s), anchor, format_duration(1000 * at_s))


def _thin(samples: Sequence[Sample]) -> list[Sample]:
    """Return at most POINTS_MAX samples: the first, the last, and evenly between."""
    step = max(1, -(-len(samples) // POINTS_MAX))
    kept = list(samples[::step])
    return kept if not samples or kept[-1] == samples[-1] else [*kept, samples[-1]]


def _x(at_s: float, end_s: float) -> float:
    return round(LEFT + (RIGHT - LEFT) * at_s / end_s, 1)


def _short(value: float) -> str:
    for unit, size in (("M", 1_000_000), ("k", 1_000)):
        if value >= 10 * size or (value >= size and value % size == 0):
            return f"{value / size:.0f} {unit}"
    return f"{value:,.0f}"
