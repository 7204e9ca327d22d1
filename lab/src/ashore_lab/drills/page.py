"""The page of a drill: one HTML file that needs nothing else.

What it is: verdict, figures, a timeline, the schedule, for the templates beside it.
What it promises: no script and no address of anything outside; readable in light and in dark; what
is shown by colour is shown by a word or a shape as well; no text of a record is taken for HTML.
"""

from jinja2 import Environment, PackageLoader, StrictUndefined

from ashore.base.units import format_duration
from ashore_lab.drills.timeline import draw_timeline
from ashore_lab.drills.verdict import Timeline, Verdict

SCHEDULE_MAX = 500
LABEL = "faults above, landed records and lag below, over time"

_TEMPLATES = Environment(
    loader=PackageLoader("ashore_lab.drills"),
    autoescape=True,
    undefined=StrictUndefined,
    keep_trailing_newline=True,
)


def render_page(verdict: Verdict) -> str:
    """Return the page of a verdict."""
    again = f"ashore drill run {verdict.drill} --seed {verdict.seed} {verdict.length.option}"
    return _TEMPLATES.get_template("page.html.j2").render(
        verdict=verdict,
        css={0: "green", 5: "red"}.get(verdict.exit_code, "doubt"),
        took=format_duration(1000 * verdict.took_s),
        again=again.rstrip(),
        figures=_figures(verdict),
        schedule=verdict.schedule[:SCHEDULE_MAX],
        **_timeline(verdict.timeline),
    )


def render_timeline(timeline: Timeline) -> str:
    """Return the timeline as one SVG."""
    return _TEMPLATES.get_template("timeline.svg.j2").render(**_timeline(timeline)).rstrip()


def _timeline(timeline: Timeline) -> dict[str, object]:
    drawing = draw_timeline(timeline)
    return {"drawing": drawing, "label": LABEL, "is_simulated": timeline.is_simulated}


def _figures(verdict: Verdict) -> dict[str, str]:
    rows = dict(verdict.figures.to_texts())
    if verdict.figures.read_twice is not None:
        rows["read twice, at most"] = f"{verdict.figures.read_twice:,}"
    return rows
