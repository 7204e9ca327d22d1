"""The kinds of values that a job file holds: durations, sizes, topics, tables, starts, secrets.

What it is: each kind's parser, its written form, and the error that says what to write instead.
What it promises: a value that is accepted is exact; a secret is shown by nothing but `reveal`.
What it must not know: which key a value stands at.
"""

import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from functools import lru_cache
from typing import Annotated, Literal, TypeVar
from zoneinfo import ZoneInfo, available_timezones

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, ValidationInfo
from pydantic_core import CoreSchema, core_schema

from ashore.base.units import DURATION_MS, SIZE_BYTES, parse_duration_ms, parse_size_bytes
from ashore.protocol import names

V = TypeVar("V")


class Refused(ValueError):
    """A value is not what its key takes. `instead` says what to write."""

    def __init__(self, message: str, instead: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.instead = instead


@dataclass(frozen=True, slots=True)
class Shown:
    """How the reference names a kind of value."""

    text: str


def nearest(name: str, known: Sequence[str]) -> str | None:
    """Return the known name that `name` was most likely meant to be."""
    by_folded = {each.casefold(): each for each in known}
    found = get_close_matches(name.casefold(), by_folded, n=1, cutoff=0.5)
    return by_folded[found[0]] if found else None


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
_SIZE_WORDS = {
    "B": ("byte", "bytes"),
    "KB": ("k",),
    "MB": ("m",),
    "GB": ("g",),
    "TB": ("t",),
}


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
        """Return the number of milliseconds or bytes that `value` says."""
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise Refused(f"a {self.kind} is wanted", f"write {self.example}")
        text = str(value).strip()
        if re.fullmatch(r"[\d._]+", text):
            raise Refused(f"{_short(text)} has no unit", f"write {_short(text)}{self.unit}")
        if len(text) > 24:
            raise Refused(f"{_short(text)!r} is too long for a {self.kind}", self._hint(""))
        try:
            number = self.parse(text)
        except ValueError as error:
            raise Refused(str(error), self._hint(text)) from None
        if number > self.limit:
            raise Refused(f"{text} is more than any {self.kind} can be", self._hint(""))
        return number

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
]
SizeBytes = Annotated[
    int,
    BeforeValidator(_SIZE.read),
    PlainSerializer(size_text, when_used="json"),
    Shown("size"),
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
            raise Refused("'${' does not begin a variable", "write ${NAME}: letters, digits and _")
        for name in VARIABLE.findall(template):
            if name not in environment:
                raise Refused(
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
        raise Refused("text is wanted", "write the value in quotes")
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


TextMap = Annotated[
    Mapping[str, str],
    AfterValidator(FrozenMap),
    PlainSerializer(dict, return_type=dict[str, str]),
    Shown("mapping of text to text"),
]


# --- names -----------------------------------------------------------------------------------


def _matching(pattern: str, kind: str, instead: str) -> AfterValidator:
    def validate(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise Refused(f"{_short(text)!r} is not {kind}", instead)
        return text

    return AfterValidator(validate)


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."


NonEmpty = Annotated[str, _matching(r"(?s).*\S.*", "text that says something", "write text")]
JobName = Annotated[
    str,
    _matching(
        names.JOB.pattern,
        "a job name",
        "use at most 100 letters, digits, _ . and -; begin with a letter or digit",
    ),
    Shown("name"),
]
ColumnName = Annotated[
    str,
    _matching(
        r"[A-Za-z0-9][A-Za-z0-9_]*",
        "a column that can name directories",
        "use letters, digits and _; a directory that begins with . or _ is invisible to readers",
    ),
]
_HOST_PORT = r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):\d{1,5}"
Servers = Annotated[
    str,
    _matching(
        rf"{_HOST_PORT}(\s*,\s*{_HOST_PORT})*",
        "a list of host:port",
        "write host:port, for several host:port,host:port",
    ),
    Shown("host:port, ..."),
]


def _timezone(text: str) -> str:
    try:
        ZoneInfo(text)
    except (KeyError, ValueError, OSError):
        near = nearest(text, sorted(available_timezones()))
        instead = f"write {near}" if near else "write a name such as UTC or Asia/Shanghai"
        raise Refused(f"{_short(text)!r} is not a time zone", instead) from None
    return text


TimeZone = Annotated[str, AfterValidator(_timezone), Shown("time zone name")]


# --- topics ----------------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def topic_pattern(text: str) -> re.Pattern[str] | None:
    """Return the expression of `/expression/`, None for a topic name. Raises Refused."""
    if not text.startswith("/"):
        if not re.fullmatch(r"[A-Za-z0-9._-]{1,249}", text) or text in {".", ".."}:
            raise Refused(
                f"{_short(text)!r} is not a topic name",
                "use letters, digits, . _ and -, or write a regular expression as /clicks_.*/",
            )
        return None
    if len(text) < 3 or not text.endswith("/"):
        raise Refused(f"{_short(text)!r} is not a whole /expression/", "write it as /clicks_.*/")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return re.compile(text[1:-1])
        except (re.error, OverflowError, RecursionError) as error:
            message = f"{_short(text)!r} is not a regular expression: {error}"
            raise Refused(message, "write an expression that Python's re understands") from None


def topic_matches(text: str, topic: str) -> bool:
    """Whether the name or /expression/ `text` means `topic`.

    An expression matches whole names, and never Kafka's internal topics (`__...`).
    """
    pattern = topic_pattern(text)
    if pattern is None:
        return text == topic
    return not topic.startswith("__") and pattern.fullmatch(topic) is not None


def _topic(text: str) -> str:
    topic_pattern(text)
    return text


TopicText = Annotated[str, AfterValidator(_topic), Shown("topic name or /expression/")]


# --- where a topic begins --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Start:
    """Where the first read of a topic begins. `timestamp_ms` is set for `timestamp` only."""

    policy: Literal["earliest", "latest", "timestamp"]
    timestamp_ms: int | None = None


_START_HINT = "write earliest, latest or {timestamp: 2026-11-21T08:00:00+08:00}"


def _start(value: object) -> Start:
    match value:
        case Start():
            return value
        case "earliest" | "latest":
            return Start(value)
        case {"timestamp": when, **others} if not others:
            return Start("timestamp", _instant_ms(when))
        case str():
            near = nearest(value, ("earliest", "latest"))
            raise Refused(
                f"{_short(value)!r} is no start", f"write {near}" if near else _START_HINT
            )
        case _:
            raise Refused("a start is wanted", _START_HINT)


def _instant_ms(when: object) -> int:
    if not isinstance(when, int) or isinstance(when, bool):
        when = _iso_ms(when)
    if not 100_000_000_000 <= when < 100_000_000_000_000:
        raise Refused(
            f"{_short(str(when))} ms since 1970 is no time that Kafka has records of",
            "write milliseconds (13 digits) or ISO 8601: 2026-11-21T08:00:00Z",
        )
    return when


def _iso_ms(when: object) -> int:
    try:
        moment = datetime.fromisoformat(when if isinstance(when, str) else "")
    except ValueError:
        raise Refused("the timestamp is not ISO 8601", "write 2026-11-21T08:00:00Z") from None
    if moment.tzinfo is None:
        raise Refused(f"{when} has no zone", f"write {moment.isoformat()}Z, or +08:00 for Z")
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000 + since.microseconds // 1_000


def _start_text(start: Start) -> str | dict[str, int]:
    return start.policy if start.timestamp_ms is None else {"timestamp": start.timestamp_ms}


StartValue = Annotated[Start, BeforeValidator(_start), PlainSerializer(_start_text)]
StartMap = Annotated[
    Mapping[TopicText, StartValue],
    AfterValidator(FrozenMap),
    PlainSerializer(dict, return_type=dict[str, StartValue]),
    Shown("mapping of topic name, /expression/ or `default` to a start"),
]


# --- tables ----------------------------------------------------------------------------------

TOPIC_PLACE = "{topic}"
DEAD_SUFFIX, LATE_SUFFIX = "__dead", "__late"
_TABLE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_]{0,99}")


@dataclass(frozen=True, slots=True, order=True)
class TableName:
    """`database.table`."""

    database: str
    name: str

    def __str__(self) -> str:
        return f"{self.database}.{self.name}"

    @property
    def path(self) -> str:
        """The table's directory, relative to the lake."""
        return names.table_path(str(self))

    @property
    def dead(self) -> "TableName":
        """The table that bad records go to."""
        return TableName(self.database, self.name + DEAD_SUFFIX)

    @property
    def late(self) -> "TableName":
        """The table that late records go to under `policy: side`."""
        return TableName(self.database, self.name + LATE_SUFFIX)


def table_name(text: str, topic: str | None = None) -> TableName:
    """Return the name that `text` means for `topic`. Raises Refused.

    Characters of a topic that no table name may have (`.` and `-`) become `_`.
    """
    if topic is not None:
        text = text.replace(TOPIC_PLACE, re.sub(r"[^A-Za-z0-9_]", "_", topic))
    database, dot, name = text.partition(".")
    if not dot:
        raise Refused(f"{_short(text)!r} names no database", f"write database.{_short(text)}")
    for part in (database, name):
        if not _TABLE_NAME.fullmatch(part):
            raise Refused(
                f"{_short(part)!r} in {_short(text)!r} is not a database or table name",
                "write database.table: letters, digits and _, at most 100 each, no leading _",
            )
    return TableName(database, name)


def _table(text: str) -> str:
    database, _, name = text.partition(".")
    table_name(f"{database}.{name.replace(TOPIC_PLACE, 't')}" if name else text)
    return text


TableText = Annotated[str, AfterValidator(_table), Shown("database.table")]


def _some(items: tuple[V, ...]) -> tuple[V, ...]:
    if not items:
        raise Refused("the list is empty", "write at least one item")
    return items


SOME = AfterValidator(_some)
"""At least one item. Not a length: a list whose items are broken is not empty."""

PositiveMs = Annotated[DurationMs, Field(gt=0)]
PositiveBytes = Annotated[SizeBytes, Field(gt=0)]
