"""The names that a job file holds: jobs, servers, columns, zones, topics, starts, tables.

What it is: each kind's parser, and the error that says what to write instead.
What it promises: a name that is accepted is one that Kafka, Hive and every lake take.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo, available_timezones

import re2
from pydantic import AfterValidator, BeforeValidator, PlainSerializer

from ashore.base.suggest import suggest
from ashore.jobs.file.values import FrozenMap, JsonForm, Shown, ValueRefused, short, text_form
from ashore.log import names
from ashore.log.tables import DEAD_SUFFIX, LATE_SUFFIX
from ashore.tables.transforms import parse_transform

_OTHERWISE = "write a name such as UTC or Asia/Shanghai"
# Abbreviations are in no database of zones: several places use most of them.
_PLACES = {
    "AEDT": "Australia/Sydney",
    "AEST": "Australia/Sydney or Australia/Brisbane",
    "AKST": "America/Anchorage",
    "BRT": "America/Sao_Paulo",
    "BST": "Europe/London",
    "CAT": "Africa/Maputo",
    "CDT": "America/Chicago",
    "CEST": "Europe/Berlin",
    "CST": "America/Chicago or Asia/Shanghai",
    "EAT": "Africa/Nairobi",
    "EDT": "America/New_York",
    "EEST": "Europe/Athens",
    "HKT": "Asia/Hong_Kong",
    "IST": "Asia/Kolkata, Asia/Jerusalem or Europe/Dublin",
    "JST": "Asia/Tokyo",
    "KST": "Asia/Seoul",
    "MDT": "America/Denver",
    "MSK": "Europe/Moscow",
    "NZDT": "Pacific/Auckland",
    "NZST": "Pacific/Auckland",
    "PDT": "America/Los_Angeles",
    "PHT": "Asia/Manila",
    "PST": "America/Los_Angeles",
    "SAST": "Africa/Johannesburg",
    "SGT": "Asia/Singapore",
    "WIB": "Asia/Jakarta",
}
_OFFSET = re.compile(r"(?:UTC|GMT)?\s*([+-])0?(\d{1,2})(?::?(\d\d))?", re.IGNORECASE)
_WEST_MAX, _EAST_MAX = 12, 14  # hours


def zone_name(text: str) -> str:
    """Return the name of a zone. Raises Refused."""
    try:
        ZoneInfo(text)
    except (KeyError, ValueError, OSError):
        raise ValueRefused(f"{short(text)!r} is not a time zone", _instead(text)) from None
    return text


def _instead(text: str) -> str:
    places = _PLACES.get(text.upper())
    if places:
        return f"write the name of a place that uses it: {places}"
    offset = _OFFSET.fullmatch(text.strip())
    if offset:
        return _instead_of_offset(offset[1], int(offset[2]), offset[3] or "00")
    known = sorted(available_timezones())
    if "/" not in text:
        cities = {each.rpartition("/")[2]: each for each in known if "/" in each}
        city = cities.get(text.strip().title().replace(" ", "_"))
        if city:
            return f"did you mean `{city}`?"
    if re.fullmatch(r"[A-Z]{2,4}", text):  # nothing is near an abbreviation but by accident
        return _OTHERWISE
    return suggest(text, known, _OTHERWISE)


def _instead_of_offset(sign: str, hours: int, minutes: str) -> str:
    is_east = sign == "+"
    if minutes != "00" or hours > (_EAST_MAX if is_east else _WEST_MAX):
        return f"offsets are not zones: {_OTHERWISE}"
    if hours == 0:
        return "write UTC"
    # POSIX counts hours from the zone to UTC: the signs of these names are turned round.
    return f"write Etc/GMT{'-' if is_east else '+'}{hours}, or the name of a place there"


def _matching(pattern: str, kind: str, instead: str) -> AfterValidator:
    def validate(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueRefused(f"{short(text)!r} is not {kind}", instead)
        return text

    return AfterValidator(validate)


def _not_empty(text: str) -> str:
    if not text.strip():
        raise ValueRefused("must not be empty")
    return text


NonEmpty = Annotated[str, AfterValidator(_not_empty), text_form(r"\S")]
JobName = Annotated[
    str,
    _matching(
        names.JOB.pattern,
        "a job name",
        "use at most 100 letters, digits, _ . and -; begin with a letter or digit",
    ),
    Shown("name"),
    text_form(f"^(?:{names.JOB.pattern})$"),
]
_COLUMN = r"[A-Za-z0-9][A-Za-z0-9_]*"


def _partition_text(text: str) -> str:
    try:
        transform = parse_transform(text)
    except ValueError as error:
        instead = 'write day(ts), or, with a number, in quotes: "bucket(16, id)"'
        raise ValueRefused(str(error), instead) from None
    if transform is None and not re.fullmatch(_COLUMN, text):
        raise ValueRefused(
            f"{short(text)!r} is not a column that can name directories",
            "use letters, digits and _; a directory that begins with . or _ is invisible to "
            "readers",
        )
    return str(transform or text)


PartitionText = Annotated[
    str,
    AfterValidator(_partition_text),
    text_form(rf"^(?:{_COLUMN}|[^()]*\([^()]+\)\s*)$"),
]
_HOST_PORT = r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):\d{1,5}"
PORT_MAX = 65_535


def _servers(text: str) -> str:
    if not re.fullmatch(rf"{_HOST_PORT}(\s*,\s*{_HOST_PORT})*", text):
        is_host = re.fullmatch(r"[A-Za-z0-9._-]+", text)
        instead = f"write {text}:9092" if is_host else "write host:port,host:port"
        raise ValueRefused(f"{short(text)!r} is not a list of host:port", instead)
    for each in text.split(","):
        refuse_port(each)
    return text


def refuse_port(address: str) -> None:
    """Raise ValueRefused where `address` ends in a port that there cannot be."""
    port = re.search(r":(\d+)\s*$", address)
    if port and not 1 <= int(port[1]) <= PORT_MAX:
        raise ValueRefused(
            f"there is no port {port[1]}: ports are 1 to {PORT_MAX}",
            "write the port that the server listens at",
        )


Servers = Annotated[
    str,
    AfterValidator(_servers),
    Shown("host:port, ..."),
    text_form(rf"^{_HOST_PORT}(\s*,\s*{_HOST_PORT})*$"),
]
TimeZone = Annotated[str, AfterValidator(zone_name), Shown("time zone name")]


# --- topics ----------------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def topic_pattern(text: str) -> Any:
    """Return the expression of `/expression/`, None for a topic name. Raises ValueRefused.

    RE2 matches in linear time, whatever the expression and the topic are called: a user who may
    create topics cannot stop a job. Subscriptions of Kafka 4 use it for the same reason (KIP-848).
    """
    if not text.startswith("/"):
        if not re.fullmatch(r"[A-Za-z0-9._-]{1,249}", text) or text in {".", ".."}:
            raise ValueRefused(
                f"{short(text)!r} is not a topic name",
                "use letters, digits, . _ and -, or write a regular expression as /clicks_.*/",
            )
        return None
    if len(text) < 3 or not text.endswith("/"):
        raise ValueRefused(
            f"{short(text)!r} is not a whole /expression/", "write it as /clicks_.*/"
        )
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(text[1:-1], options)
    except re2.error as error:
        reason = error.args[0] if error.args else b""
        reason = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        raise ValueRefused(
            f"{short(text)!r} is not a regular expression of RE2: {reason}",
            "write an expression that RE2 understands, without look-around and back references",
        ) from None


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


TopicText = Annotated[
    str,
    AfterValidator(_topic),
    Shown("topic name or /expression/"),
    text_form(r"^([A-Za-z0-9._-]{1,249}|/[\s\S]+/)$"),
]


# --- where a topic begins --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StartAt:
    """Where the first read of a topic begins. `timestamp_ms` is set for `timestamp` only."""

    policy: Literal["earliest", "latest", "timestamp"]
    timestamp_ms: int | None = None


_START_HINT = "write earliest, latest or {timestamp: 2026-11-21T08:00:00+08:00}"


def _start(value: object) -> StartAt:
    match value:
        case StartAt():
            return value
        case "earliest" | "latest":
            return StartAt(value)
        case {"timestamp": when, **others} if not others:
            return StartAt("timestamp", instant_ms(when))
        case str():
            instead = suggest(value, ("earliest", "latest"), _START_HINT)
            raise ValueRefused(f"{short(value)!r} is not a start position", instead)
        case _:
            raise ValueRefused("expected a start position", _START_HINT)


def instant_ms(when: object) -> int:
    """Return a time of ISO 8601 with a zone, or in ms since 1970, in ms. Raises ValueRefused."""
    if not isinstance(when, int) or isinstance(when, bool):
        when = _iso_ms(when)
    if not 100_000_000_000 <= when < 100_000_000_000_000:
        raise ValueRefused(
            f"{short(str(when))} ms since 1970 is not a time that Kafka has records of",
            "write milliseconds (13 digits) or ISO 8601: 2026-11-21T08:00:00Z",
        )
    return when


def _iso_ms(when: object) -> int:
    try:
        moment = datetime.fromisoformat(when if isinstance(when, str) else "")
    except ValueError:
        raise ValueRefused("the timestamp is not ISO 8601", "write 2026-11-21T08:00:00Z") from None
    if moment.tzinfo is None:
        raise ValueRefused(f"{when} has no zone", f"write {moment.isoformat()}Z, or +08:00 for Z")
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000 + since.microseconds // 1_000


def _start_text(start: StartAt) -> str | dict[str, int]:
    return start.policy if start.timestamp_ms is None else {"timestamp": start.timestamp_ms}


_AT_FORM = {
    "type": "object",
    "additionalProperties": False,
    "required": ["timestamp"],
    "properties": {"timestamp": {"type": ["string", "integer"]}},
}
_START_FORM = {"anyOf": [{"enum": ["earliest", "latest"]}, _AT_FORM]}
StartValue = Annotated[StartAt, BeforeValidator(_start), PlainSerializer(_start_text)]
StartMap = Annotated[
    Mapping[TopicText, StartValue],
    AfterValidator(FrozenMap),
    PlainSerializer(dict, return_type=dict[str, StartValue]),
    Shown("mapping of topic name, /expression/ or `default` to a start"),
    JsonForm({"type": "object", "additionalProperties": _START_FORM}),
]


# --- tables ----------------------------------------------------------------------------------

TOPIC_PLACE = "{topic}"
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
    """Return the name that `text` means for `topic`. Raises ValueRefused.

    Characters of a topic that no table name may have (`.` and `-`) become `_`.
    """
    if topic is not None:
        text = text.replace(TOPIC_PLACE, re.sub(r"[^A-Za-z0-9_]", "_", topic))
    database, dot, name = text.partition(".")
    if not dot:
        raise ValueRefused(f"{short(text)!r} has no database", f"write database.{short(text)}")
    for part in (database, name):
        if not _TABLE_NAME.fullmatch(part):
            raise ValueRefused(
                f"{short(part)!r} in {short(text)!r} is not a database or table name",
                "write database.table: letters, digits and _, at most 100 each, no leading _",
            )
    return TableName(database, name)


def _table(text: str) -> str:
    database, _, name = text.partition(".")
    table_name(f"{database}.{name.replace(TOPIC_PLACE, 't')}" if name else text)
    return text


TableText = Annotated[
    str,
    AfterValidator(_table),
    Shown("database.table"),
    text_form(r"^[A-Za-z0-9][A-Za-z0-9_]*\.[A-Za-z0-9_{}]+$"),
]
