"""The kinds of values that a job file holds: durations, sizes, secrets, mappings, lists.

What it is: each kind's parser, its written form, and the error that says what to write instead.
What it promises: a value that is accepted is exact; a secret is shown by nothing but `reveal`.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import log
from typing import Annotated, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, ValidationInfo
from pydantic_core import CoreSchema, core_schema

from ashore.base.units import DURATION_MS, SIZE_BYTES, parse_duration_ms, parse_size_bytes

V = TypeVar("V")


class ValueRefused(ValueError):
    """A value is not what its key takes. `instead` says what to write."""

    def __init__(self, message: str, instead: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.instead = instead

    def advise(self, example: str) -> str:  # noqa: ARG002 - what is refused for other reasons
        """Return what to write. `example`: a value of the same key, empty where none is known."""
        return self.instead


class UnitMissing(ValueRefused):
    """A number without a unit.

    Arguments:
        text: the number.
        quantity: what it is a number of.

    """

    def __init__(self, text: str, quantity: "_Unit") -> None:
        super().__init__(f"{short(text)} has no unit", f"write {short(text)}{quantity.unit}")
        self._text, self._quantity = text, quantity

    def advise(self, example: str) -> str:
        """Return what to write: the number with the unit that brings it nearest to `example`."""
        return self._quantity.complete(self._text, example) or self.instead


@dataclass(frozen=True, slots=True)
class Shown:
    """How the reference names a kind of value."""

    text: str


@dataclass(frozen=True, slots=True, eq=False)
class JsonForm:
    """How JSON Schema says what a kind of value may be, where the type does not say it.

    Arguments:
        node: of the schema.
        is_beside: whether the value may also be what its type is, but no null.

    """

    node: Mapping[str, object]
    is_beside: bool = False


def text_form(pattern: str) -> JsonForm:
    """Return the form of a string that holds `pattern`, which Python and ECMAScript read alike."""
    return JsonForm({"type": "string", "pattern": pattern})


def short(text: str) -> str:
    """Return `text`, cut to what a message can hold."""
    return text if len(text) <= 60 else text[:57] + "..."


# --- durations and sizes ---------------------------------------------------------------------

DURATION_MS_MAX = 36_500 * DURATION_MS["d"]
SIZE_BYTES_MAX = 1_000 * SIZE_BYTES["TB"]
_DURATION_WORDS = {
    "s": ("sec", "secs", "second", "seconds"),
    "ms": ("msec", "millis", "millisecond", "milliseconds"),
    "m": ("min", "mins", "minute", "minutes"),
    "h": ("hr", "hrs", "hour", "hours"),
    "d": ("day", "days"),
}
_SIZE_WORDS = {"B": ("byte", "bytes"), "KB": ("k",), "MB": ("m",), "GB": ("g",), "TB": ("t",)}


@dataclass(frozen=True, slots=True)
class _Unit:
    """A quantity: how it is parsed, what it is called, which unit a bare number lacks."""

    parse: Callable[[str], int]
    kind: str
    unit: str
    example: str
    limit: int
    words: Mapping[str, tuple[str, ...]]
    units: Mapping[str, int]

    def read(self, value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise ValueRefused(f"expected a {self.kind}", f"write {self.example}")
        text = str(value).strip()
        if re.fullmatch(r"[\d._]+", text):
            raise UnitMissing(text, self)
        if len(text) > 24:
            raise ValueRefused(f"{short(text)!r} is too long for a {self.kind}", self._hint(""))
        try:
            number = self.parse(text)
        except ValueError as error:
            raise ValueRefused(str(error), self._hint(text)) from None
        if number > self.limit:
            raise ValueRefused(f"{text} is more than any {self.kind} can be", self._hint(""))
        return number

    def complete(self, text: str, example: str) -> str:
        """Return `write 3d` for `3`, where `30d` is an example; empty where nothing is near."""
        try:
            usual = self.parse(example)
            decimal = [unit for unit in self.units if "i" not in unit]  # KiB is nearly a KB
            sizes = {unit: self.parse(text + unit) for unit in decimal}
        except (ValueError, OverflowError):
            return ""
        near = {unit: abs(log(size / usual)) for unit, size in sizes.items() if size and usual}
        return f"write {short(text)}{min(near, key=near.__getitem__)}" if near else ""

    def _hint(self, text: str) -> str:
        match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([A-Za-z]+)", text)
        if match:
            word = match[2].casefold()
            for unit in self.units:
                if word == unit.casefold() or word in self.words.get(unit, ()):
                    return f"write {match[1]}{unit}"
        return f"write a {self.kind} such as {self.example}; units: {', '.join(self.units)}"


_DURATION = _Unit(
    parse_duration_ms, "duration", "s", "10s", DURATION_MS_MAX, _DURATION_WORDS, DURATION_MS
)
_SIZE = _Unit(parse_size_bytes, "size", "MB", "256MB", SIZE_BYTES_MAX, _SIZE_WORDS, SIZE_BYTES)


def duration_text(milliseconds: int) -> str:
    """Return the duration as a job file writes it, exactly: `90s`, `2h`."""
    return _quantity_text(milliseconds, DURATION_MS)


def size_text(size: int) -> str:
    """Return the size as a job file writes it, exactly: `256MB`, `1GiB`."""
    return _quantity_text(size, SIZE_BYTES)


def _quantity_text(number: int, units: Mapping[str, int]) -> str:
    fitting = [(size, name) for name, size in units.items() if number % size == 0]
    if number == 0:
        return "0" + next(iter(units))
    size, name = max(fitting)
    return f"{number // size}{name}"


DurationMs = Annotated[
    int,
    BeforeValidator(_DURATION.read),
    PlainSerializer(duration_text, when_used="json"),
    Shown("duration"),
    text_form(rf"^\s*\d+(\.\d+)?\s*({'|'.join(DURATION_MS)})\s*$"),
]
SizeBytes = Annotated[
    int,
    BeforeValidator(_SIZE.read),
    PlainSerializer(size_text, when_used="json"),
    Shown("size"),
    text_form(rf"^\s*\d+(\.\d+)?\s*({'|'.join(SIZE_BYTES)})\s*$"),
]


# --- text that may hold secrets --------------------------------------------------------------

VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_PASSWORD_IN_URI = re.compile(r"(://[^/:]*:)[^/]*@")
MASK = "***"


class EnvText:
    """Text in which `${NAME}` was replaced from the environment.

    `str`, `repr`, dumps and digests show the text as the job file has it; only `reveal` returns
    what the variables hold. A password inside a URI is masked too.
    """

    __slots__ = ("_template", "_value")

    def __init__(self, template: str, environment: Mapping[str, str]) -> None:
        """Replace the variables. Raises Refused, naming the first that is not set."""
        rest = VARIABLE.sub("", template)
        if "${" in rest:
            raise ValueRefused(
                "'${' does not begin a variable", "write ${NAME}: letters, digits and _"
            )
        for name in VARIABLE.findall(template):
            if name not in environment:
                raise ValueRefused(
                    f"the environment variable {name} is not set",
                    f"set {name} where ashore is started",
                )
        self._template = template
        self._value = VARIABLE.sub(lambda match: environment[match[1]], template)

    def reveal(self) -> str:
        """Return the real text. For the one call that needs it, never for a message."""
        return self._value

    @property
    def has_variables(self) -> bool:
        """Whether something came from the environment."""
        return VARIABLE.search(self._template) is not None

    def __str__(self) -> str:
        return _PASSWORD_IN_URI.sub(rf"\1{MASK}@", self._template)

    def __repr__(self) -> str:
        return f"EnvText({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, EnvText):
            return NotImplemented
        return (self._template, self._value) == (other._template, other._value)

    def __hash__(self) -> int:
        return hash(self._template)

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: object, _handler: object) -> CoreSchema:
        return core_schema.with_info_plain_validator_function(
            _expand, serialization=core_schema.to_string_ser_schema()
        )


def _expand(value: object, info: ValidationInfo) -> EnvText:
    if isinstance(value, EnvText):
        return value
    if not isinstance(value, str):
        raise ValueRefused("expected a string", "write the value in quotes")
    return EnvText(value, environment_of(info))


def environment_of(info: ValidationInfo) -> Mapping[str, str]:
    """Return the environment that the loader was given."""
    context = info.context
    return context["environment"] if isinstance(context, dict) else {}


# --- mappings --------------------------------------------------------------------------------


class FrozenMap(Mapping[str, V]):
    """A mapping that cannot be changed, can be pickled, and prints as a dict."""

    __slots__ = ("_entries",)

    def __init__(self, entries: Mapping[str, V] | None = None) -> None:
        self._entries = dict(entries or {})

    def __getitem__(self, key: str) -> V:
        return self._entries[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __hash__(self) -> int:
        return hash(frozenset(self._entries))

    def __repr__(self) -> str:
        return repr(self._entries)


# Some mappings take scalars as they are written: `true` and `5` are strings there.
TEXT_MAP_FORM = JsonForm(
    {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}}
)
TextMap = Annotated[
    Mapping[str, str],
    AfterValidator(FrozenMap),
    PlainSerializer(dict, return_type=dict[str, str]),
    Shown("mapping of text to text"),
    TEXT_MAP_FORM,
]


# --- lists and limits -------------------------------------------------------------------------


def _some(items: tuple[V, ...]) -> tuple[V, ...]:
    if not items:
        raise ValueRefused("the list is empty", "write at least one item")
    return items


SOME = AfterValidator(_some)
"""At least one item. Not a length: a list whose items are broken is not empty."""

PositiveMs = Annotated[DurationMs, Field(gt=0)]
PositiveBytes = Annotated[SizeBytes, Field(gt=0)]
