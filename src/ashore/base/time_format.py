"""The times that tables hold, and how they are written as texts: `yyyy-MM-dd HH:mm:ss`.

What it is: the first and last time, the years 1 to 9999 in UTC; `TimeFormat`, from a pattern as
Java writes it, or `iso8601`, to the parts of a text.
What it promises: pure; a text is in a format as a whole, or not at all, for RE2 and for Java.
"""

import functools
import re
from dataclasses import dataclass

FIRST_MS = -62_135_596_800_000  # 0001-01-01T00:00:00
LAST_MS = 253_402_300_799_999  # 9999-12-31T23:59:59.999
FIRST_US = FIRST_MS * 1_000
LAST_US = LAST_MS * 1_000 + 999
_MS_PER_DAY = 86_400_000
FIRST_DAY = FIRST_MS // _MS_PER_DAY
LAST_DAY = LAST_MS // _MS_PER_DAY

ISO = "iso8601"

_PARTS = ("year", "month", "day", "hour", "minute", "second", "fraction", "sign", "zh", "zm")
_ZONE = r"(?:[Zz]|(?P<sign>[+-])(?P<zh>[01][0-9])(?::?(?P<zm>[0-5][0-9]))?)"
_TOKENS = {
    "yyyy": ("year", "(?P<year>[0-9]{4})"),
    "MM": ("month", "(?P<month>[0-9]{2})"),
    "dd": ("day", "(?P<day>[0-9]{2})"),
    "HH": ("hour", "(?P<hour>[01][0-9]|2[0-3])"),
    "mm": ("minute", "(?P<minute>[0-5][0-9])"),
    "ss": ("second", "(?P<second>[0-5][0-9])"),
}
_TOKEN = re.compile(r"yyyy|MM|dd|HH|mm|ss|S{1,9}|X{1,3}|Z|'(?:[^']|'')*'|[^A-Za-z']", re.ASCII)
_ISO_PATTERN = (
    r"(?P<year>[0-9]{4})-(?P<month>[0-9]{2})-(?P<day>[0-9]{2})"
    r"(?:[Tt ](?P<hour>[01][0-9]|2[0-3]):(?P<minute>[0-5][0-9])"
    rf"(?::(?P<second>[0-5][0-9])(?:[.,](?P<fraction>[0-9]{{1,9}}))?)?{_ZONE}?)?"
)


@dataclass(frozen=True, slots=True)
class TimeFormat:
    """How a time is written.

    Arguments:
        pattern: an expression that matches whole texts, with a named group for each part.
        parts: the names of the groups, in their order.

    """

    pattern: str
    parts: tuple[str, ...]

    def group_of(self, part: str) -> int:
        """Return the number of the group of a part, from 1; 0: texts do not contain it."""
        return self.parts.index(part) + 1 if part in self.parts else 0

    @property
    def unnamed(self) -> str:
        """The expression as Java reads it too: its groups have numbers only."""
        return re.sub(r"\(\?P<\w+>", "(", self.pattern)


@functools.lru_cache(maxsize=256)
def parse_time_format(text: str) -> TimeFormat:
    """Return the format that `text` says: `iso8601`, or a pattern as Java writes it.

    Raises ValueError: a letter that is no token, a part twice, a date that is not whole.
    """
    if text == ISO:
        return TimeFormat(rf"\A{_ISO_PATTERN}\z", _PARTS)
    pattern, position = "", 0
    parts: list[str] = []
    while position < len(text):
        token = _TOKEN.match(text, position)
        if token is None:
            raise ValueError(f"{text[position]!r} is not supported in a pattern of time")
        piece, names = _piece(token[0])
        pattern, position = pattern + piece, token.end()
        parts += names
    _check_parts(parts)
    return TimeFormat(rf"\A{pattern}\z", tuple(parts))


def _check_parts(parts: list[str]) -> None:
    """Raise ValueError where a part is there twice, or one that is coarser than another is not."""
    for part in parts:
        if parts.count(part) > 1:
            raise ValueError(f"the {part} appears twice")
    finest = max((_PARTS.index(part) for part in parts if part in _PARTS[:7]), default=0)
    for part in _PARTS[: max(3, finest)]:
        if part not in parts:
            raise ValueError(f"a time needs its {part}")


def _piece(token: str) -> tuple[str, tuple[str, ...]]:
    if token in _TOKENS:
        part, pattern = _TOKENS[token]
        return pattern, (part,)
    if token[0] == "S":
        return f"(?P<fraction>[0-9]{{{len(token)}}})", ("fraction",)
    if token[0] in "XZ":
        return _ZONE, ("sign", "zh", "zm")
    if token[0] == "'":
        return _quoted(token[1:-1].replace("''", "'") or "'"), ()
    return _quoted(token), ()


def _quoted(text: str) -> str:
    """Return an expression for a text; `re.escape` writes what RE2 does not read."""
    return re.sub(r"[\\.^$|?*+()\[\]{}]", r"\\\g<0>", text)
