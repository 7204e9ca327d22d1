"""What pictures are drawn of, and whether it can be read.

What it is: shapes as values, and `find_faults`, which finds text that does not fit.
What it promises: a text that passes fits in every usual font: its width is that of DejaVu Sans,
the widest of the fonts that browsers take for `system-ui`.
What it must not know: SVG.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations, pairwise
from typing import NamedTuple

# Thousandths of the font size for the characters from the space to the tilde.
_WIDTHS = (
    *(318, 401, 460, 838, 636, 950, 780, 275, 390, 390, 500, 838, 318, 361, 318, 337, 636, 636),
    *(636, 636, 636, 636, 636, 636, 636, 636, 337, 337, 838, 838, 838, 531, 1000, 684, 686, 698),
    *(770, 632, 575, 775, 752, 295, 295, 656, 557, 863, 748, 787, 603, 787, 695, 635, 611, 732),
    *(684, 989, 685, 611, 685, 390, 337, 390, 838, 500, 500, 613, 635, 550, 635, 615, 352, 635),
    *(634, 278, 278, 579, 278, 974, 634, 612, 635, 635, 411, 521, 392, 634, 592, 818, 592, 592),
    *(525, 636, 337, 636, 838),
)
_WIDEST = 1_000  # of a character that is not in the table
_MONOSPACE = 602
LINE_PX = 18  # from one line of text to the next
PADDING_PX = 6  # between a text and the side of its box


class Kind(StrEnum):
    """What a text, a box or a line stands for: a class of the style sheet."""

    PLAIN = "plain"
    SMALL = "small"
    CODE = "code"  # a name as it is on storage
    STRONG = "strong"
    BOX = "box"
    STAGED = "staged"  # dashed: no reader sees it
    LOG = "log"
    TABLE = "table"
    FAULT = "fault"
    FRAME = "frame"
    WAY = "way"
    WEAK = "weak"
    CURVE = "curve"
    CURVE2 = "curve2"
    MARK = "mark"


FONT_PX = {Kind.PLAIN: 14, Kind.SMALL: 12, Kind.CODE: 12, Kind.STRONG: 14, Kind.FAULT: 12}


class Area(NamedTuple):
    """A rectangle, in pixels."""

    left: float
    top: float
    right: float
    bottom: float

    def holds(self, other: "Area") -> bool:
        """Tell whether `other` lies in it."""
        return (
            self.left <= other.left
            and other.right <= self.right
            and self.top <= other.top
            and other.bottom <= self.bottom
        )

    def touches(self, other: "Area") -> bool:
        """Tell whether the two have a point in common."""
        return (
            self.left < other.right
            and other.left < self.right
            and self.top < other.bottom
            and other.top < self.bottom
        )


@dataclass(frozen=True, slots=True)
class Text:
    """A line of text; `y` is its base line, `x` where `anchor` says: start, middle or end."""

    x: float
    y: float
    text: str
    kind: Kind = Kind.SMALL
    anchor: str = "middle"

    @property
    def area(self) -> Area:
        """What the text takes at most."""
        width = width_px(self.text, self.kind)
        left = self.x - {"start": 0.0, "middle": 0.5, "end": 1.0}[self.anchor] * width
        size = FONT_PX[self.kind]
        return Area(left, self.y - 0.8 * size, left + width, self.y + 0.25 * size)


@dataclass(frozen=True, slots=True)
class Box:
    """A box with lines of text in its middle: the first is its name, the others are small."""

    x: float
    y: float
    width: float
    height: float
    lines: tuple[str, ...] = ()
    kind: Kind = Kind.BOX
    name_kind: Kind = Kind.PLAIN

    @property
    def area(self) -> Area:
        """Where it is."""
        return Area(self.x, self.y, self.x + self.width, self.y + self.height)

    @property
    def texts(self) -> tuple[Text, ...]:
        """Its lines, placed."""
        middle = self.x + self.width / 2
        first = self.y + self.height / 2 + 5 - LINE_PX * (len(self.lines) - 1) / 2
        return tuple(
            Text(middle, first + LINE_PX * number, line, Kind.SMALL if number else self.name_kind)
            for number, line in enumerate(self.lines)
        )


@dataclass(frozen=True, slots=True)
class Line:
    """A line through points; with a tip it says which way something goes."""

    points: tuple[tuple[float, float], ...]
    kind: Kind = Kind.WAY
    has_tip: bool = True


Shape = Text | Box | Line


@dataclass(frozen=True, slots=True)
class Picture:
    """One file of docs/images. `about` is what a reader gets who cannot see it."""

    name: str
    title: str
    about: str
    width: int
    height: int
    shapes: tuple[Shape, ...]

    @property
    def boxes(self) -> list[Box]:
        """Its boxes, in the order in which they are drawn."""
        return [each for each in self.shapes if isinstance(each, Box)]

    @property
    def lines(self) -> list[Line]:
        """Its lines."""
        return [each for each in self.shapes if isinstance(each, Line)]

    @property
    def texts(self) -> list[Text]:
        """All of its texts, those of boxes too."""
        own = [each for each in self.shapes if isinstance(each, Text)]
        return [*own, *(text for box in self.boxes for text in box.texts)]


def width_px(text: str, kind: Kind) -> float:
    """Return how wide a text is at most, in pixels."""
    if kind is Kind.CODE:
        return FONT_PX[kind] * len(text) * _MONOSPACE / 1000
    places = (ord(each) - ord(" ") for each in text)
    units = sum(_WIDTHS[n] if 0 <= n < len(_WIDTHS) else _WIDEST for n in places)
    bolder = 1.1 if kind is Kind.STRONG else 1.0
    return FONT_PX[kind] * units * bolder / 1000


def find_faults(picture: Picture) -> Iterator[str]:
    """Yield what cannot be read: text outside of its box or the picture, or over something."""
    whole = Area(0, 0, picture.width, picture.height)
    for box in picture.boxes:
        inner = Area(box.x + PADDING_PX, box.y, box.x + box.width - PADDING_PX, box.area.bottom)
        yield from (
            f"{text.text!r} is wider or higher than its box by {_excess(inner, text.area)}"
            for text in box.texts
            if not inner.holds(text.area)
        )
    for text in picture.texts:
        if not whole.holds(text.area):
            yield f"{text.text!r} leaves the picture by {_excess(whole, text.area)}"
        for box in picture.boxes:
            if box.area.touches(text.area) and not box.area.holds(text.area):
                yield f"{text.text!r} lies on the side of a box"
        if any(_crosses(line, text.area) for line in picture.lines):
            yield f"{text.text!r} lies on a line"
    for one, other in combinations(picture.texts, 2):
        if one.area.touches(other.area):
            yield f"{one.text!r} lies on {other.text!r}"


def _excess(outer: Area, inner: Area) -> str:
    sides = (outer.left - inner.left, inner.right - outer.right)
    ends = (outer.top - inner.top, inner.bottom - outer.bottom)
    return f"{max(*sides, *ends):.0f} px"


def _crosses(line: Line, area: Area) -> bool:
    return any(_cuts(start, end, area) for start, end in pairwise(line.points))


def _cuts(start: tuple[float, float], end: tuple[float, float], area: Area) -> bool:
    """Tell whether a part of the way from start to end lies in the area (Liang and Barsky)."""
    first, last = 0.0, 1.0
    for axis in (0, 1):
        step = end[axis] - start[axis]
        low, high = area[axis] - start[axis], area[axis + 2] - start[axis]
        if step == 0:
            if low >= 0 or high <= 0:
                return False
            continue
        enter, leave = sorted((low / step, high / step))
        first, last = max(first, enter), min(last, leave)
    return first < last
