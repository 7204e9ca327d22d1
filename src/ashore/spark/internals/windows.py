"""Windows of time, read back from the arithmetic that Spark makes of them.

What it promises: pure. A struct that is no window is none.
What it must not know: which operator the window is for.
"""

import re
from collections.abc import Iterable

from ashore.spark.internals.trees import Node

UNITS = (
    (86_400_000_000, "day"),
    (3_600_000_000, "hour"),
    (60_000_000, "minute"),
    (1_000_000, "second"),
    (1_000, "millisecond"),
    (1, "microsecond"),
)


def describe_window(node: Node) -> str:
    """Return `window 1 minute`, `session window 5 minutes`; empty where it is no window."""
    if node.kind == "Literal":
        return _describe_constant(node)
    names = [each.fields.get("value") for each in node.children[0::2]]
    if node.kind not in {"CreateNamedStruct", "NamedStruct"} or names != ["start", "end"]:
        return ""
    start, end = node.children[1], node.children[3]
    if not any(each.kind == "PreciseTimestampConversion" for each in start.walk()):
        return ""
    slides = [_number(each.children[1]) for each in start.walk() if each.kind == "Remainder"]
    if not slides:
        return _describe_session(end)
    return _describe_regular(end, slides[0])


def _describe_constant(literal: Node) -> str:
    """A window of the clock is one literal in each batch."""
    struct = literal.fields.get("dataType")
    fields = struct.get("fields", ()) if isinstance(struct, dict) else ()
    ends = re.fullmatch(r"\[(\d+),(\d+)\]", literal.text("value"))
    if ends is None or [each["name"] for each in fields] != ["start", "end"]:
        return ""
    return f"window {describe_duration(int(ends[2]) - int(ends[1]))} of processing time"


def _describe_regular(end: Node, slide: int | None) -> str:
    """The end is the start plus the length: the outermost sum."""
    sums = [each for each in end.walk() if each.kind == "Add"]
    length = _number(sums[0].children[1]) if sums else None
    if length is None or slide is None:
        return "window"
    every = "" if slide == length else f" every {describe_duration(slide)}"
    return f"window {describe_duration(length)}{every}{_offset(end)}"


def _offset(end: Node) -> str:
    """What is taken from the event time before the remainder: where windows begin."""
    remainders = [each for each in end.walk() if each.kind == "Remainder"]
    shifts = [_number(each.children[1]) for each in remainders[0].walk() if each.kind == "Subtract"]
    return f" from {describe_duration(shifts[0])}" if shifts and shifts[0] else ""


def _describe_session(end: Node) -> str:
    """A session ends a gap after its event: a literal, or what the query computes it from."""
    sums = [each for each in end.walk() if len(each.children) == 2]
    gap = sums[0].children[1] if sums else end
    while gap.kind == "Cast":
        gap = gap.children[0]
    literal = gap.fields.get("value") if gap.kind == "Literal" else None
    return f"session window {literal or 'of varying length'}"


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
