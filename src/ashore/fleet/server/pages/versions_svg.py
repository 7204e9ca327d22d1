"""Two versions of a query as a picture: both graphs side by side, as SVG, and on a page.

What it promises: pure. Operators on a page can be searched by whatever is known of them. An
operator and what became of it stand beside each other; what changed has a shape and a colour of its
own, what keeps state is bold; no two boxes overlap, no text leaves its box. Nothing is loaded from
anywhere. The same text for the same difference.
"""

import difflib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape, quoteattr

from ashore.base import codec
from ashore.fleet.server.pages.drawing import text_at
from ashore.plans.operator_graph import Operator
from ashore.plans.version import JobVersion
from ashore.plans.version_changes import ChangeKind, OperatorChange
from ashore.proof.status.query_versions import ComparedVersions

WIDTH, LINE, PADDING, GAP = 400, 17, 10, 30
LETTER = 7.3  # width of a letter at 12 pixels, in any monospaced font
TOP, LANE, MIDDLE = 70, 14, 60
SHOWN_MAX = 5  # lines of what is gone and come, each
CUT = 12  # of the corners of what changed
LETTERS = int((WIDTH - 2 * PADDING) / LETTER)

STYLE = """
svg { background: #ffffff; font: 12px monospace; }
text { fill: #1f2328; }
.shape { fill: #f6f8fa; stroke: #57606a; stroke-width: 1; }
.changed .shape { fill: #fff3c4; stroke: #9a6700; }
.added .shape { fill: #d9f5df; stroke: #1a7f37; }
.removed .shape { fill: #ffe1de; stroke: #cf222e; stroke-dasharray: 6 4; }
.stateful .shape { stroke-width: 3; }
.stateful .name { font-weight: bold; }
.flow { fill: none; stroke: #57606a; marker-end: url(#arrow); }
.pair { stroke: #8c959f; stroke-dasharray: 2 4; }
.title { font-size: 15px; font-weight: bold; }
#arrow path { fill: #57606a; }
@media (prefers-color-scheme: dark) {
  svg { background: #0d1117; }
  text { fill: #e6edf3; }
  .shape { fill: #161b22; stroke: #8b949e; }
  .changed .shape { fill: #3d2f00; stroke: #d29922; }
  .added .shape { fill: #0f2d18; stroke: #3fb950; }
  .removed .shape { fill: #3c1618; stroke: #f85149; }
  .flow { stroke: #8b949e; }
  #arrow path { fill: #8b949e; }
}
"""


@dataclass(frozen=True, slots=True)
class Box:
    """An operator where it is drawn. Sizes are in pixels."""

    operator: Operator
    change: ChangeKind
    x: float
    y: float
    height: float
    lines: tuple[str, ...]

    @property
    def bottom(self) -> float:
        """Where it ends."""
        return self.y + self.height


@dataclass(frozen=True, slots=True)
class Layout:
    """Where everything is drawn: the boxes of both graphs, in the order in which rows flow."""

    before: tuple[Box, ...]
    after: tuple[Box, ...]
    lanes: int  # beside each graph, for rows that pass others by
    width: float
    height: float


def draw_diff(found: ComparedVersions, *, is_alone: bool = True) -> str:
    """Return the SVG of what differs between two versions.

    `is_alone`: it is a file of its own, so it has its style in it.
    """
    layout = lay_out_graph(found.diff.operators)
    numbers = found.before.version, found.after.version
    title = f"{found.query}: version {numbers[0]} and version {numbers[1]}"
    left, right = _columns(layout.lanes)
    width, height = f"{layout.width:g}", f"{layout.height:g}"
    parts = [
        HEAD.format(width=width, height=height, title=quoteattr(title)),
        f"<title>{escape(title)}</title>",
        *((f"<style>{STYLE}</style>",) if is_alone else ()),
        ARROW,
        text_at(left, 24, _cut(title, 2 * LETTERS), "title"),
        text_at(left, 50, f"version {numbers[0]}", "title"),
        text_at(right, 50, f"version {numbers[1]}", "title"),
        *_pairs(found.diff.operators, layout),
        *(flow for boxes in (layout.before, layout.after) for flow in _flows(boxes, layout)),
        *(_draw_box(each) for each in (*layout.before, *layout.after)),
        text_at(left, layout.height - 14, LEGEND),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


HEAD = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
    'height="{height}" role="img" aria-label={title}>'
)
ARROW = (
    '<defs><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" '
    'markerHeight="8" orient="auto"><path d="M0,0 L8,4 L0,8 z"/></marker></defs>'
)
LEGEND = "cut corners: changed; double line: added; dashes: removed; bold: keeps state"


def lay_out_graph(changes: Sequence[OperatorChange]) -> Layout:
    """Return where the operators of both graphs are drawn: a row for each change."""
    lanes = max((_count_passing(changes, side) for side in ("before", "after")), default=0)
    left, right = _columns(lanes)
    y = float(TOP)
    before, after = [], []
    for each in changes:
        old, new = _lines(each, each.before), _lines(each, each.after)
        height = max(len(old), len(new)) * LINE + 2 * PADDING
        if each.before is not None:
            before.append(Box(each.before, each.change, left, y, height, old))
        if each.after is not None:
            after.append(Box(each.after, each.change, right, y, height, new))
        y += height + GAP
    width = right + WIDTH + lanes * LANE + PADDING
    return Layout(tuple(before), tuple(after), lanes, width, y + 20)


def _columns(lanes: int) -> tuple[float, float]:
    left = float(PADDING + lanes * LANE)
    return left, left + WIDTH + MIDDLE


def _count_passing(changes: Sequence[OperatorChange], side: str) -> int:
    """Return how many flows of one graph pass other operators by."""
    operators = [found for each in changes if (found := getattr(each, side)) is not None]
    return sum(1 for _ in _passing(operators))


def _passing(operators: Sequence[Operator]) -> Iterator[tuple[int, int]]:
    places = {each.id: place for place, each in enumerate(operators)}
    for place, each in enumerate(operators):
        for edge in each.inputs:
            if places[edge.source] != place - 1:
                yield places[edge.source], place


def _lines(change: OperatorChange, operator: Operator | None) -> tuple[str, ...]:
    if operator is None:
        return ()
    state = f", state/{operator.state.operator_id}" if operator.state else ""
    lines = [_cut(operator.name), _cut(f"{operator.kind} [{operator.id}]{state}")]
    if change.change is ChangeKind.CHANGED:
        is_old = operator is change.before
        found, sign = (change.gone, "-") if is_old else (change.come, "+")
        lines += [_cut(f"{sign} {each}") for each in found[:SHOWN_MAX]]
        if len(found) > SHOWN_MAX:
            lines.append(f"{sign} {len(found) - SHOWN_MAX} more")
    return tuple(lines)


def _cut(text: str, letters: int = LETTERS) -> str:
    return text if len(text) <= letters else text[: letters - 1] + "\N{HORIZONTAL ELLIPSIS}"


# ---- drawing


def _draw_box(box: Box) -> str:
    keeps = " stateful" if box.operator.state else ""
    facts = "\n".join(f"{each.role} {each.text}" for each in box.operator.facts)
    title = f"{box.operator.name}\n{box.operator.engine_class}\n{facts}".strip()
    left, top = box.x + PADDING, box.y + PADDING
    texts = [
        text_at(left, top + LINE * (number + 0.75), line, "" if number else "name")
        for number, line in enumerate(box.lines)
    ]
    return "\n".join(
        [
            f'<g class="operator {box.change.value}{keeps}" data-id={quoteattr(box.operator.id)}>',
            f"<title>{escape(title)}</title>",
            *_shapes(box),
            *texts,
            "</g>",
        ]
    )


def _shapes(box: Box) -> Iterator[str]:
    """Yield the outline of a box: each change has its own, as not everyone sees colours."""
    x, y, width, height = box.x, box.y, WIDTH, box.height
    match box.change:
        case ChangeKind.CHANGED:
            right, bottom = x + width, y + height
            corners = (
                *((x + CUT, y), (right - CUT, y), (right, y + CUT), (right, bottom - CUT)),
                *((right - CUT, bottom), (x + CUT, bottom), (x, bottom - CUT), (x, y + CUT)),
            )
            points = " ".join(f"{a:g},{b:g}" for a, b in corners)
            yield f'<polygon class="shape" points="{points}"/>'
        case ChangeKind.ADDED:
            yield _rectangle(x, y, width, height, 0)
            yield _rectangle(x + 4, y + 4, width - 8, height - 8, 0)
        case ChangeKind.REMOVED:
            yield _rectangle(x, y, width, height, 0)
        case ChangeKind.SAME:
            yield _rectangle(x, y, width, height, 10)


def _rectangle(x: float, y: float, width: float, height: float, round_: float) -> str:
    return (
        f'<rect class="shape" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" '
        f'rx="{round_:g}"/>'
    )


def _flows(boxes: Sequence[Box], layout: Layout) -> Iterator[str]:
    """Yield an arrow for each edge; one that passes operators by has a lane of its own."""
    passing = {pair: lane for lane, pair in enumerate(_passing([box.operator for box in boxes]))}
    places = {box.operator.id: place for place, box in enumerate(boxes)}
    for place, box in enumerate(boxes):
        for edge in box.operator.inputs:
            source = boxes[places[edge.source]]
            lane = passing.get((places[edge.source], place))
            path = _straight(source, box) if lane is None else _around(source, box, lane, layout)
            columns = escape("\n".join(edge.columns))
            yield f'<path class="flow" d="{path}"><title>{columns}</title></path>'


def _straight(source: Box, target: Box) -> str:
    middle = source.x + WIDTH / 2
    return f"M{middle:g},{source.bottom:g} L{middle:g},{target.y:g}"


def _around(source: Box, target: Box, lane: int, layout: Layout) -> str:
    """Return a way beside the boxes: outside of both graphs."""
    is_left = source.x == _columns(layout.lanes)[0]
    side = source.x if is_left else source.x + WIDTH
    out = side - (lane + 1) * LANE if is_left else side + (lane + 1) * LANE
    start, end = source.y + source.height / 2, target.y + target.height / 2
    return f"M{side:g},{start:g} L{out:g},{start:g} L{out:g},{end:g} L{side:g},{end:g}"


def _pairs(changes: Sequence[OperatorChange], layout: Layout) -> Iterator[str]:
    """Yield a line between an operator and what became of it."""
    after = {box.operator.id: box for box in layout.after}
    before = {box.operator.id: box for box in layout.before}
    for each in changes:
        if each.before is not None and each.after is not None:
            one, other = before[each.before.id], after[each.after.id]
            y = one.y + one.height / 2
            yield (
                f'<line class="pair" x1="{one.x + WIDTH:g}" y1="{y:g}" x2="{other.x:g}" '
                f'y2="{y:g}"><title>{escape(each.why or "")}</title></line>'
            )


SIGNS = {
    ChangeKind.SAME: "=",
    ChangeKind.CHANGED: "~",
    ChangeKind.ADDED: "+",
    ChangeKind.REMOVED: "-",
}


# ---- on a page


def view_diff(compared: ComparedVersions) -> dict[str, object]:
    """Return what a page shows of two versions, by the names of its template."""
    diff = compared.diff
    old, new = _json_of(compared.before.content), _json_of(compared.after.content)
    return {
        "compared": compared,
        "picture": draw_diff(compared, is_alone=False),
        "json": list(difflib.unified_diff(old, new, lineterm="", n=2))[2:],
        "settings": (*diff.settings, *diff.releases),
        "operators": [
            (each, state_text(each.operator), _search_text(each)) for each in diff.operators
        ],
        "changed": sum(1 for each in diff.operators if each.change is not ChangeKind.SAME),
        "signs": SIGNS,
    }


def _json_of(version: JobVersion) -> list[str]:
    """Return a version as JSON, its graph left out."""
    document = codec.encode_object(version)
    kept = {name: document[name] for name in document if name != "graph"}
    return json.dumps(kept, indent=1, ensure_ascii=False).splitlines()


def _search_text(change: OperatorChange) -> str:
    """Return the words that a search looks through."""
    operator = change.operator
    facts = tuple(f"{each.role} {each.text}" for each in operator.facts)
    parts = (operator.name, operator.id, operator.kind, operator.engine_class, change.change.value)
    return " ".join((*parts, state_text(operator), *facts, *change.gone, *change.come)).lower()


def state_text(operator: Operator) -> str:
    """Return what an operator keeps, in words; empty: nothing."""
    state = operator.state
    if state is None:
        return ""
    names = ", ".join(each.name for each in (*state.keys, *state.columns))
    return f"state/{state.operator_id}: {names}"
