"""Windows of time, read back from the arithmetic that Spark makes of them.

What it is: `Window`, the value; `read_window`, from an expression to what it is a window of.
What it promises: pure. A struct that is no window is none.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from ashore.base.codec import added
from ashore.plans.trees import Node

UNITS = (
    (86_400_000_000, "day"),
    (3_600_000_000, "hour"),
    (60_000_000, "minute"),
    (1_000_000, "second"),
    (1_000, "millisecond"),
    (1, "microsecond"),
)


class WindowKind(StrEnum):
    """How time is cut."""

    REGULAR = "regular"  # windows of one length, one after the other or overlapping
    SESSION = "session"  # as long as events follow each other
    PROCESSING = "processing"  # by the clock, not by event time


@dataclass(frozen=True, slots=True)
class Window:
    """A window of time. What is not known, or has no meaning for its kind, is None."""

    kind: WindowKind
    length_us: int | None = added(None)
    slide_us: int | None = added(None)  # from the start of one to the start of the next
    offset_us: int = added(0)  # where windows begin, from the epoch on
    gap: str | None = added(None)  # of a session, as Spark writes it; None: it varies

    @property
    def text(self) -> str:
        """Return `window 1 minute`, `session window 5 minutes`."""
        if self.kind is WindowKind.SESSION:
            return f"session window {self.gap or 'of varying length'}"
        if self.length_us is None:
            return "window"
        length = f"window {describe_duration(self.length_us)}"
        if self.kind is WindowKind.PROCESSING:
            return f"{length} of processing time"
        if self.slide_us is None:
            return "window"
        if self.slide_us != self.length_us:
            length += f" every {describe_duration(self.slide_us)}"
        return length + (f" from {describe_duration(self.offset_us)}" if self.offset_us else "")


@dataclass(frozen=True, slots=True)
class FoundWindow:
    """A window, with the expressions that it is computed from: the time, and a gap that varies."""

    window: Window
    of: tuple[Node, ...]


def window_of(node: Node) -> FoundWindow | None:
    """Return the window that an expression makes; None where it makes none."""
    if node.kind == "Literal":
        return _read_constant(node)
    names = [each.fields.get("value") for each in node.children[0::2]]
    if node.kind not in {"CreateNamedStruct", "NamedStruct"} or names != ["start", "end"]:
        return None
    start, end = node.children[1], node.children[3]
    times = [each for each in start.walk() if each.kind == "PreciseTimestampConversion"]
    if not times:
        return None
    # The outer one makes a time of the result; those within make numbers of the event's time.
    time = next((each for each in times if each.fields.get("fromType") != "long"), times[-1])
    slides = [_number(each.children[1]) for each in start.walk() if each.kind == "Remainder"]
    if not slides:
        return _read_session(time.children[0], end)
    return FoundWindow(_read_regular(end, slides[0]), (time.children[0],))


def _read_constant(literal: Node) -> FoundWindow | None:
    """A window of the clock is one literal in each batch."""
    struct = literal.fields.get("dataType")
    fields = struct.get("fields", ()) if isinstance(struct, dict) else ()
    ends = re.fullmatch(r"\[(\d+),(\d+)\]", literal.text("value"))
    if ends is None or [each["name"] for each in fields] != ["start", "end"]:
        return None
    return FoundWindow(Window(WindowKind.PROCESSING, int(ends[2]) - int(ends[1])), ())


def _read_regular(end: Node, slide_us: int | None) -> Window:
    """The end is the start plus the length: the outermost sum."""
    sums = [each for each in end.walk() if each.kind == "Add"]
    length_us = _number(sums[0].children[1]) if sums else None
    return Window(WindowKind.REGULAR, length_us, slide_us, _offset_us(end))


def _offset_us(end: Node) -> int:
    """What is taken from the event time before the remainder: where windows begin."""
    remainders = [each for each in end.walk() if each.kind == "Remainder"]
    shifts = [_number(each.children[1]) for each in remainders[0].walk() if each.kind == "Subtract"]
    return (shifts[0] if shifts else None) or 0


def _read_session(time: Node, end: Node) -> FoundWindow:
    """A session ends a gap after its event: a literal, or what the query computes it from."""
    sums = [each for each in end.walk() if len(each.children) == 2]
    gap = sums[0].children[1] if sums else end
    while gap.kind == "Cast":
        gap = gap.children[0]
    literal = gap.fields.get("value") if gap.kind == "Literal" else None
    if literal:
        return FoundWindow(Window(WindowKind.SESSION, gap=str(literal)), (time,))
    return FoundWindow(Window(WindowKind.SESSION), (time, gap))


def _number(node: Node) -> int | None:
    value = node.fields.get("value")
    return int(value) if isinstance(value, str) and value.lstrip("-").isdigit() else None


def describe_duration(length_us: int) -> str:
    """Return `1 minute`, `1 hour 30 minutes`, `0 seconds`."""
    return " ".join(_parts(length_us)) or "0 seconds"


def _parts(rest_us: int) -> Iterable[str]:
    for size_us, unit in UNITS:
        count, rest_us = divmod(rest_us, size_us)
        if count:
            yield f"{count} {unit}{'' if count == 1 else 's'}"
