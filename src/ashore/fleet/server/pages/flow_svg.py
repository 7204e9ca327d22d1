"""The picture of a job: topics, the slices that read them, the tables that these fill.

What it promises: pure; the numbers are those of `status`. Each box and edge has its words, a state
is a word as well as a colour. Of many topics or tables those with the largest numbers are drawn.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from ashore.fleet.server.pages.drawing import named, text_at
from ashore.log.tables import DEAD_SUFFIX
from ashore.proof.status.status import JobStatus, SliceStatus, add_lags

BOX, GAP, LEAF, ROW, HUB = 220, 170, 36, 52, 66
WIDTH = 3 * BOX + 2 * GAP
LINE = GAP - 40  # of an edge, straight beside its topic or table: its words are above
DRAWN = 8  # topics, or tables, of a slice
LETTERS = 26


@dataclass(frozen=True, slots=True)
class FlowLeaf:
    """A topic or a table of a slice: its name, the words of its edge, how these are coloured."""

    name: str
    words: str
    kind: str = ""


@dataclass(frozen=True, slots=True)
class FlowSlice:
    """A slice with what it reads and fills. `lines`: below its name."""

    name: str
    state: str
    lines: tuple[str, ...]
    topics: tuple[FlowLeaf, ...]
    tables: tuple[FlowLeaf, ...]


def view_flow(status: JobStatus, state: str) -> tuple[FlowSlice, ...]:
    """Return what is drawn. `state`: of the job, as its page has it."""
    return tuple(_view_slice(each, state) for each in status.slices)


def _view_slice(status: SliceStatus, state: str) -> FlowSlice:
    query, rate = status.query, status.records_per_s
    tables = sorted(status.tables, key=lambda each: -each.rows)
    leaves = [
        FlowLeaf(each.table, f"{each.rows:,} dead letters", "dead")
        if each.table.endswith(DEAD_SUFFIX)
        else FlowLeaf(each.table, f"{each.rows:,} rows")
        for each in tables
    ]
    if query is not None and not leaves and status.landed:
        leaves = [FlowLeaf(status.slice, f"{status.landed:,} rows sent")]
    return FlowSlice(
        name=f"slice {status.slice}" if query is None else f"query {status.slice}",
        state=state if query is None else str(query.state),
        lines=("rate not known" if rate is None else f"{rate:,.0f} records/s",),
        topics=_cut(_topics(status), "topics"),
        tables=_cut(leaves, "tables"),
    )


def _topics(status: SliceStatus) -> list[FlowLeaf]:
    lags: dict[str, list[int | None]] = {}
    for each in status.shards:
        lags.setdefault(each.stream, []).append(each.lag)
    sums = {topic: add_lags(parts) for topic, parts in lags.items()}
    return [
        FlowLeaf(topic, "lag unknown" if lag is None else f"lag {lag:,}", "behind" if lag else "")
        for topic, lag in sorted(sums.items(), key=lambda each: -(each[1] or 0))
    ]


def _cut(leaves: Sequence[FlowLeaf], what: str) -> tuple[FlowLeaf, ...]:
    hidden = len(leaves) - DRAWN
    if hidden <= 0:
        return tuple(leaves)
    return (*leaves[:DRAWN], FlowLeaf(f"{hidden:,} more {what}", ""))


def draw_flow(slices: Sequence[FlowSlice]) -> str:
    """Return the picture; empty without a slice."""
    if not slices:
        return ""
    parts: list[str] = []
    top = 0.0
    for each in slices:
        height = max(HUB + 8, ROW * max(len(each.topics), len(each.tables)))
        middle = top + height / 2
        parts += _leaves(each.topics, 0, middle)
        parts += _leaves(each.tables, 2 * (BOX + GAP), middle)
        parts += _hub(each, middle)
        top += height + 12
    topics = len({leaf.name for each in slices for leaf in each.topics})
    tables = len({leaf.name for each in slices for leaf in each.tables})
    label = f"flow of records: {topics} topics, {len(slices)} slices, {tables} tables"
    return "\n".join(
        [f'<svg class="flow" viewBox="0 0 {WIDTH} {top:g}" {named(label)}>', *parts, "</svg>"]
    )


def _leaves(leaves: Sequence[FlowLeaf], x: float, middle: float) -> Iterator[str]:
    """Yield boxes of one side, around the middle of their slice, each with its edge."""
    first = middle - ROW * len(leaves) / 2 + (ROW - LEAF) / 2
    is_left = x == 0
    for place, each in enumerate(leaves):
        y = first + ROW * place
        yield _box(x, y, LEAF, each.name, each.kind)
        yield text_at(x + 12, y + LEAF / 2 + 4, _short(each.name))
        if not each.words:
            continue
        at = y + LEAF / 2
        side, turn, hub = (BOX, BOX + LINE, BOX + GAP) if is_left else (x, x - LINE, x - GAP)
        bend = (turn + hub) / 2
        curve = (
            f"M{side:g},{at:g} H{turn:g} C{bend:g},{at:g} {bend:g},{middle:g} {hub:g},{middle:g}"
        )
        yield f'<path class="edge {each.kind}" d="{curve}"/>'
        words_at = side + 8 if is_left else turn + 8
        yield text_at(words_at, at - 5, each.words, f"words {each.kind}".strip())


def _hub(each: FlowSlice, middle: float) -> Iterator[str]:
    x, y = BOX + GAP, middle - HUB / 2
    yield _box(x, y, HUB, each.name, f"hub state-{each.state.replace(' ', '-')}")
    yield text_at(x + 12, y + 20, _short(each.name), "name")
    yield text_at(x + 12, y + 38, each.state, f"state-{each.state.replace(' ', '-')}")
    for place, line in enumerate(each.lines):
        yield text_at(x + 12, y + 56 + 16 * place, line, "words")


def _box(x: float, y: float, height: float, title: str, kind: str) -> str:
    return (
        f'<rect class="box {kind}" x="{x + 1:g}" y="{y:g}" width="{BOX - 2}" height="{height}" '
        f'rx="6"><title>{escape(title)}</title></rect>'
    )


def _short(name: str) -> str:
    """Return a name that fits its box: of a long one both ends."""
    half = LETTERS // 2 - 1
    return name if len(name) <= LETTERS else f"{name[:half]}...{name[-half:]}"
