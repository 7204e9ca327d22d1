"""The live views of `ashore demo` and `ashore run`, played from recordings of real runs.

What it is: stills, each what a terminal showed at one moment, shown one after the other.
What it promises: the views are those of the commands (`DemoView`, `RunState`), the events those of
a real run (`record.py`): nothing on a picture is written by hand.
What it must not know: SVG, but for what rich writes.
"""

import io
import json
import re
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console, RenderableType
from rich.terminal_theme import TerminalTheme

from ashore.base import codec
from ashore.cli.demo import DemoView
from ashore.cli.run_view import RunState
from ashore.errors import check
from ashore.jobs.events import Event, Landed, Starting, decode_event
from ashore_lab.demo import DemoStep

from .record import RECORDS

COLUMNS = 80
COLUMN_PX, LINE_PX = 12.2, 24.4  # as rich draws them
MARGIN_PX = 20
# Black, red, green, yellow, blue, magenta, cyan, white; as in style.css where that has them.
_LIGHT = TerminalTheme(
    *((246, 248, 250), (31, 35, 40)),
    [
        *((31, 35, 40), (209, 36, 47), (26, 127, 55), (154, 103, 0)),
        *((9, 105, 218), (130, 80, 223), (27, 124, 131), (89, 99, 110)),
    ],
)
_DARK = TerminalTheme(
    *((33, 40, 48), (240, 246, 252)),
    [
        *((165, 174, 184), (255, 123, 114), (63, 185, 80), (210, 153, 34)),
        *((68, 147, 248), (171, 125, 248), (57, 197, 207), (240, 246, 252)),
    ],
)
_SPLIT = "<!--styles end-->"


class Recorded(NamedTuple):
    """An event of the recording."""

    at_s: float
    produced: int
    event: Event


@dataclass(frozen=True, slots=True)
class Still:
    """What a terminal showed at one moment, as rich draws it."""

    matrix: str
    light: str  # its styles
    dark: str
    lines: int


@dataclass(frozen=True, slots=True)
class Recording:
    """One file of docs/images that shows stills one after the other."""

    name: str
    title: str
    about: str
    command: str
    stills: tuple[Still, ...]

    @property
    def width(self) -> float:
        """In pixels."""
        return COLUMNS * COLUMN_PX + 2 * MARGIN_PX

    @property
    def height(self) -> float:
        """In pixels: of the highest still, the command above it and the bar below it."""
        lines = max(each.lines for each in self.stills)
        return (lines + 2) * LINE_PX + 2 * MARGIN_PX


def read_recording(name: str) -> list[Recorded]:
    """Return the events that `record.py` has kept under a name."""
    text = Path(__file__).with_name(f"{name}.jsonl").read_text("utf-8")
    return [_read(json.loads(line)) for line in text.splitlines()]


def _read(document: dict[str, Any]) -> Recorded:
    at_ms, produced = document.pop("at_ms"), document.pop("produced")
    event = decode_event(document)
    if event is None:  # the demo's own step: no job process sends it
        del document["event"]
        event = codec.decode(DemoStep, document)
    return Recorded(at_ms / 1000, produced, event)


def draw(renderable: RenderableType, number: int) -> Still:
    """Return what a terminal shows of it; `number` keeps its classes apart from other stills'."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), color_system="truecolor")
    console.print(renderable)
    light, dark = (
        console.export_svg(
            theme=theme,
            code_format=f"{{styles}}{_SPLIT}{{matrix}}",
            unique_id=f"s{number}",
            clear=False,
        ).split(_SPLIT)
        for theme in (_LIGHT, _DARK)
    )
    check(light[1] == dark[1], "a still has the same classes in both themes")
    matrix = re.sub(r"<text [^>]*>\n</text>", "", light[1])  # rich draws the ends of lines, too
    matrix = re.sub(r' clip-path="[^"]*"', "", matrix).replace("><text", ">\n<text")
    lines = 1 + max(int(float(y) / LINE_PX) for y in re.findall(r' y="([\d.]+)"', matrix))
    return Still(matrix, light[0], dark[0], lines)


def _play(
    recorded: list[Recorded],
    moments_s: Iterable[float],
    take: Callable[[Event, float], object],
    render: Callable[[int, float], RenderableType],
) -> tuple[Still, ...]:
    """Return what was shown at moments."""
    stills: list[Still] = []
    waiting, produced = deque(recorded), 0
    for moment_s in moments_s:
        while waiting and waiting[0].at_s <= moment_s:
            each = waiting.popleft()
            produced = each.produced
            take(each.event, each.at_s)
        stills.append(draw(render(produced, moment_s), len(stills)))
    return tuple(stills)


def _times(recorded: list[Recorded], kind: type[Event]) -> list[float]:
    return [each.at_s for each in recorded if isinstance(each.event, kind)]


def record_demo() -> Recording:
    """Return what `ashore demo` shows: Spark starts, half-way, killed, going on, verifying."""
    recorded, view = read_recording("demo"), DemoView(RECORDS)
    starts, landed, steps = (_times(recorded, kind) for kind in (Starting, Landed, DemoStep))
    before = [each for each in landed if each < steps[1]]
    after = [each for each in landed if each > steps[1]]
    moments_s = (
        starts[0] + 3,
        before[len(before) // 2] + 0.2,
        starts[1] + 1,
        after[len(after) // 2] + 0.2,
        steps[-1] + 0.5,
    )
    return Recording(
        "demo",
        "What ashore demo shows",
        "Five moments of a run of ashore demo on a terminal: Spark is starting while records are "
        "produced; records land; the job was killed and is starting again; it lands the rest; the "
        "landing log, the files and Kafka are compared.",
        "ashore demo",
        _play(recorded, moments_s, view.take, view.render),
    )


def record_run() -> Recording:
    """Return what `ashore run` shows of the job of docs/use/start.md, twice 10,000 records."""
    recorded, state = read_recording("run"), RunState("clicks")
    landed = _times(recorded, Landed)
    moments_s = (_times(recorded, Starting)[0] + 3, landed[0] - 0.5, landed[0] + 2, landed[-1] + 2)
    return Recording(
        "run",
        "What ashore run shows",
        "Four moments of ashore run clicks.yaml on a terminal: Spark is starting; the first batch "
        "is written; 10,000 records have landed and the slice is idle; another 10,000 have.",
        "ashore run clicks.yaml",
        _play(recorded, moments_s, state.take, lambda _produced, now_s: state.render(now_s)),
    )
