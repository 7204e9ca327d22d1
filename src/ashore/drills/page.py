"""The page of a drill: one HTML file that needs nothing else.

What it is: verdict, figures, a timeline (faults above; landed records and lag below), the schedule.
What it promises: no script and no address of anything outside; readable in light and in dark; what
is told by colour is told by a word or a shape as well.
What it must not know: how a drill is played.
"""

from collections.abc import Iterator, Sequence
from html import escape

from ashore.base.units import format_duration
from ashore.drills.drill import Mark, Sample, Timeline, Verdict
from ashore.drills.recorder import FAULT

WIDTH, LEFT, RIGHT = 960, 70, 16
LANES_TOP, LANE_HEIGHT, CHART_HEIGHT, GAP = 26, 32, 150, 34
LANES_MAX = 8
POINTS_MAX = 1_200
SCHEDULE_MAX = 500
LABEL = "faults above, landed records and lag below, over time"

STYLE = """\
:root { color-scheme: light dark; --ink: #1b1f24; --dim: #626a73; --line: #d5d9de; --paper: #fff;
  --fault: #b3261e; --other: #626a73; --landed: #0b6b57; --lag: #9a5b00; --soft: #f3f5f7; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e8eb; --dim: #9aa3ad; --line: #3a4149;
  --paper: #15181c; --fault: #ff8a80; --other: #9aa3ad; --landed: #5fd3b3; --lag: #f2b457;
  --soft: #1e2329; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 1000px; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; margin: 0; } h2 { font-size: 1.05rem; margin: 2rem 0 .5rem; }
.verdict { font-weight: 700; } .green { color: var(--landed); } .red { color: var(--fault); }
.doubt { color: var(--lag); } .dim { color: var(--dim); }
dl { display: grid; grid-template-columns: repeat(auto-fit, minmax(130px, 1fr)); gap: .5rem;
  margin: 1rem 0; } dl div { background: var(--soft); border-radius: 6px; padding: .5rem .75rem; }
dt { color: var(--dim); font-size: .8rem; } dd { margin: 0; font-size: 1.15rem;
  font-variant-numeric: tabular-nums; }
svg { width: 100%; height: auto; display: block; } svg text { fill: var(--dim); font-size: 12px; }
.axis { stroke: var(--line); } .fault { stroke: var(--fault); stroke-width: 2; }
.other { stroke: var(--other); stroke-width: 1.5; }
.landed { fill: var(--landed); fill-opacity: .15; stroke: var(--landed); stroke-width: 1.5; }
.lag { fill: none; stroke: var(--lag); stroke-width: 1.5; }
table { border-collapse: collapse; } td, th { text-align: left; padding: .1rem 1rem .1rem 0; }
code { font-family: ui-monospace, monospace; }
"""


def render_page(verdict: Verdict) -> str:
    """Return the page of a verdict."""
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(verdict.drill)}: {verdict.colour}</title>",
        f"<style>{STYLE}</style></head><body>",
        *_head(verdict),
        *_figures(verdict),
        *_list("What went wrong", verdict.problems),
        *_list("What could not be proved", verdict.doubts),
        "<h2>Timeline</h2>",
        render_timeline(verdict.timeline),
        *_list("Notes", verdict.notes),
        *_schedule(verdict),
        "</body></html>",
    ]
    return "\n".join(parts) + "\n"


def _head(verdict: Verdict) -> Iterator[str]:
    css = {0: "green", 5: "red"}.get(verdict.exit_code, "doubt")
    yield f"<h1>{escape(verdict.drill)}: {escape(verdict.title)}</h1>"
    yield f'<p class="verdict {css}">{escape(verdict.summary)}</p>'
    again = f"ashore drill run {verdict.drill} --seed {verdict.seed} {verdict.length.option}"
    yield f'<p class="dim">{escape(verdict.length.text)}; seed {verdict.seed}, '
    took = format_duration(1000 * verdict.took_s)
    yield f"{took}. Again: <code>{escape(again.rstrip())}</code></p>"


def _figures(verdict: Verdict) -> Iterator[str]:
    found = verdict.figures
    rows = found.to_texts()
    if found.read_twice is not None:
        rows["read twice, at most"] = f"{found.read_twice:,}"
    yield "<dl>"
    yield from (f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in rows.items())
    yield "</dl>"


def _list(title: str, lines: Sequence[str]) -> Iterator[str]:
    if lines:
        yield f"<h2>{title}</h2><ul>"
        yield from (f"<li>{escape(line)}</li>" for line in lines)
        yield "</ul>"


def _schedule(verdict: Verdict) -> Iterator[str]:
    shown = verdict.schedule[:SCHEDULE_MAX]
    yield f"<details><summary>Schedule of {len(verdict.schedule)} faults</summary><table>"
    yield "<tr><th>round</th><th>fault</th><th>place</th><th>number</th></tr>"
    for each in shown:
        cells = (each.round, each.kind, each.place, each.number)
        yield "<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in cells) + "</tr>"
    yield "</table>"
    if len(shown) < len(verdict.schedule):
        yield "<p>The rest stands in the JSON file.</p>"
    yield "</details>"


# ---- the timeline


def render_timeline(timeline: Timeline) -> str:
    """Return the timeline as one SVG."""
    end_s = max(timeline.end_s, 1e-3)
    lanes = _lanes(timeline.marks)
    landed_top = LANES_TOP + len(lanes) * LANE_HEIGHT + GAP
    lag_top = landed_top + CHART_HEIGHT + GAP
    bottom = lag_top + CHART_HEIGHT
    height = bottom + 34
    samples = _thin(timeline.samples)
    landed = [(each.at_s, each.landed) for each in samples]
    lag = [(each.at_s, each.lag) for each in samples]
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{LABEL}">',
        *_draw_lanes(lanes, end_s),
        *_chart("records landed", landed, (landed_top, end_s), is_filled=True),
        *_chart("lag, in records", lag, (lag_top, end_s), is_filled=False),
        *_draw_time(end_s, (LANES_TOP, bottom), is_simulated=timeline.is_simulated),
        "</svg>",
    ]
    return "\n".join(parts)


def _lanes(marks: Sequence[Mark]) -> dict[str, list[Mark]]:
    """Return marks by kind: faults first; kinds that are too many share the last lane."""
    lanes: dict[str, list[Mark]] = {}
    for mark in sorted(marks, key=lambda each: (not each.kind.startswith(FAULT), each.at_s)):
        is_known = mark.kind in lanes or len(lanes) < LANES_MAX - 1
        lanes.setdefault(mark.kind if is_known else "others", []).append(mark)
    return lanes


def _draw_lanes(lanes: dict[str, list[Mark]], end_s: float) -> Iterator[str]:
    for index, (kind, marks) in enumerate(lanes.items()):
        middle = LANES_TOP + index * LANE_HEIGHT
        css = "fault" if kind.startswith(FAULT) else "other"
        yield f'<text x="{LEFT}" y="{middle - 5}">{escape(kind)} ({len(marks):,})</text>'
        for mark in marks:
            x = _x(mark.at_s, end_s)
            title = f"{mark.at_s:.1f} s: {mark.text}"
            yield (
                f'<line class="{css}" x1="{x}" x2="{x}" y1="{middle - 2}" y2="{middle + 8}">'
                f"<title>{escape(title)}</title></line>"
            )


def _chart(
    name: str, points: Sequence[tuple[float, int]], place: tuple[int, float], *, is_filled: bool
) -> Iterator[str]:
    top, end_s = place
    bottom, most = top + CHART_HEIGHT, max((value for _, value in points), default=0)
    yield f'<text x="{LEFT}" y="{top - 8}">{name}, up to {most:,}</text>'
    for share in (0.0, 0.5, 1.0):
        y = round(bottom - share * CHART_HEIGHT, 1)
        yield f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}"/>'
        yield f'<text x="{LEFT - 8}" y="{y + 4}" text-anchor="end">{_short(most * share)}</text>'
    if points:
        path = list(_steps(points, (bottom, most), end_s))
        first, last = _x(points[0][0], end_s), _x(points[-1][0], end_s)
        ends = [f"{first},{bottom}", *path, f"{last},{bottom}"] if is_filled else path
        shape, css = ("polygon", "landed") if is_filled else ("polyline", "lag")
        yield f'<{shape} class="{css}" points="{" ".join(ends)}"/>'


def _steps(
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


def _draw_time(end_s: float, span: tuple[int, int], *, is_simulated: bool) -> Iterator[str]:
    _, bottom = span
    for number in range(6):
        at_s = end_s * number / 5
        x, anchor = _x(at_s, end_s), ("start", "middle", "end")[(number > 0) + (number == 5)]
        label = format_duration(1000 * at_s)
        yield f'<text x="{x}" y="{bottom + 16}" text-anchor="{anchor}">{label}</text>'
    if is_simulated:
        yield (
            f'<text x="{WIDTH - RIGHT}" y="{bottom + 31}" text-anchor="end">'
            "time of a simulated clock</text>"
        )


def _thin(samples: Sequence[Sample]) -> list[Sample]:
    """Return at most so many samples: the first, the last, and evenly between."""
    step = max(1, -(-len(samples) // POINTS_MAX))
    kept = list(samples[::step])
    return kept if not samples or kept[-1] == samples[-1] else [*kept, samples[-1]]


def _x(at_s: float, end_s: float) -> float:
    return round(LEFT + (WIDTH - LEFT - RIGHT) * at_s / end_s, 1)


def _short(value: float) -> str:
    for unit, size in (("M", 1_000_000), ("k", 1_000)):
        if value >= 10 * size or (value >= size and value % size == 0):
            return f"{value / size:.0f} {unit}"
    return f"{value:,.0f}"
