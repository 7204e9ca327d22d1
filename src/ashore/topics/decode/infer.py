"""A schema that fits sampled values, for who writes a job file.

What it is: `infer_json`, from values of a topic to columns of Spark's DDL, with what is unsure.
What it promises: pure; the same values give the same answer. The narrowest type that holds what was
seen: a sample does not show what other records have, so each guess has its note.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from ashore.base.time_format import parse_time_format
from ashore.tables.ddl import Array, Atom, DataType, Decimal, Field, Map, Schema, Struct

_LONG_MIN, _LONG_MAX = -(1 << 63), (1 << 63) - 1
_DECIMAL_LIMIT = 10**38
_MAP_KEYS_MIN = 30  # as many names, of which each record has few, are keys, not fields
_ISO = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:?\d\d)?", re.ASCII)

# How times are written that are not in ISO 8601, and the parts that distinguish some of them.
_FORMATS = {
    text: re.compile(parse_time_format(text).pattern.replace(r"\z", r"\Z"))
    for text in (
        *("yyyy/MM/dd HH:mm:ss", "dd/MM/yyyy HH:mm:ss", "MM/dd/yyyy HH:mm:ss"),
        *("dd.MM.yyyy HH:mm:ss", "yyyyMMddHHmmss", "yyyyMMdd'T'HHmmssX"),
    )
}
_TIME_CHARS = range(14, 22)  # of a text in one of them


@dataclass(frozen=True, slots=True)
class Seen:
    """What was seen of one column, or of a field of a STRUCT, for who looks for times in it."""

    path: str  # names with dots between
    type: DataType
    count: int  # of records that have a value
    least: int | None  # of whole numbers
    most: int | None
    is_iso: bool  # whether every value is a text in ISO 8601
    formats: tuple[str, ...] = ()  # others that every value is a time in


@dataclass(frozen=True, slots=True)
class Inferred:
    """What sampled values look like."""

    schema: Schema | None  # of the records that are JSON objects; None: there are none
    objects: int  # how many values are JSON objects
    texts: int  # how many of the others are UTF-8
    others: int  # the rest, values that are missing left out
    columns: tuple[Seen, ...]  # each column, and fields of those that are STRUCTs
    notes: tuple[str, ...]  # what is unsure, as sentences

    @property
    def names(self) -> frozenset[str]:
        """The names of the columns themselves."""
        return frozenset(self.schema.names if self.schema else ())


@dataclass(slots=True)
class _Kinds:
    """What was seen at one place of the values."""

    counts: Counter[str] = field(default_factory=Counter)
    least: int | None = None
    most: int | None = None
    iso: int = 0
    formats: Counter[str] = field(default_factory=Counter)
    element: "_Kinds | None" = None
    fields: "dict[str, _Kinds]" = field(default_factory=dict)

    def add(self, value: object) -> None:
        match value:
            case None:
                self.counts["null"] += 1
            case bool():
                self.counts["boolean"] += 1
            case int():
                self.counts["whole"] += 1
                self.least = value if self.least is None else min(self.least, value)
                self.most = value if self.most is None else max(self.most, value)
            case float():
                self.counts["number"] += 1
            case str():
                self.counts["text"] += 1
                self.iso += _ISO.fullmatch(value) is not None
                self.formats.update(_formats_of(value))
            case list():
                self.counts["array"] += 1
                self.element = self.element or _Kinds()
                for each in value:
                    self.element.add(each)
            case dict():
                self.counts["object"] += 1
                for name, each in value.items():
                    self.fields.setdefault(name, _Kinds()).add(each)

    @property
    def values(self) -> Counter[str]:
        return Counter({kind: count for kind, count in self.counts.items() if kind != "null"})


def infer_json(values: Iterable[bytes | None]) -> Inferred:
    """Return what the values look like. Values that are missing count for nothing."""
    top = _Kinds()
    texts = others = 0
    for value in values:
        if value is None:
            continue
        found = _parse(value)
        if isinstance(found, dict):
            top.add(found)
        elif _is_text(value):
            texts += 1
        else:
            others += 1
    if not top.fields:
        return Inferred(None, top.counts["object"], texts, others, (), ())
    notes: list[str] = []
    fields = tuple(_fields(top, "", notes))
    if not fields:
        return Inferred(None, top.counts["object"], texts, others, (), tuple(notes))
    columns = tuple(_seen(fields, top, ""))
    return Inferred(Schema(fields), top.counts["object"], texts, others, columns, tuple(notes))


def _parse(value: bytes) -> object:
    try:
        return json.loads(value.decode("utf-8"))
    except (ValueError, RecursionError):
        return None


def _is_text(value: bytes) -> bool:
    try:
        text = value.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return "\x00" not in text


def _formats_of(text: str) -> Iterator[str]:
    """Yield the formats in which a text is a time."""
    if len(text) not in _TIME_CHARS or not text[0].isdigit():
        return
    for name, pattern in _FORMATS.items():
        found = pattern.match(text)
        if found and 1 <= int(found["month"]) <= 12 and 1 <= int(found["day"]) <= 31:
            yield name


def _seen(fields: Iterable[Field], kinds: _Kinds, above: str) -> Iterator[Seen]:
    for each in fields:
        inner, path = kinds.fields[each.name], above + each.name
        count = inner.values.total()
        is_iso = 0 < count == inner.iso
        formats = tuple(name for name, times in inner.formats.items() if times == count)
        yield Seen(path, each.type, count, inner.least, inner.most, is_iso, formats)
        if isinstance(each.type, Struct):
            yield from _seen(each.type.fields, inner, f"{path}.")


def _fields(kinds: _Kinds, above: str, notes: list[str]) -> Iterator[Field]:
    folded: dict[str, str] = {}
    for name, inner in kinds.fields.items():
        path = above + name
        first = folded.setdefault(name.lower(), name)
        if not name.strip() or not name.isprintable():
            notes.append(f"a field is left out, named {name!r}")
        elif first != name:
            notes.append(f"{path} is left out: it differs from {above}{first} in case only")
        else:
            yield Field(name, _type_of(inner, path, notes))


def _type_of(kinds: _Kinds, path: str, notes: list[str]) -> DataType:
    values = kinds.values
    if values.keys() == {"whole", "number"}:
        return Atom.DOUBLE
    if not values:
        notes.append(f"{path} was always null or empty: STRING is a guess")
        return Atom.STRING
    (kind, count), *others = values.most_common()
    if others:
        rest = values.total() - count
        notes.append(f"{path} has several types: {rest} of {values.total()} values do not match")
    match kind:
        case "boolean":
            return Atom.BOOLEAN
        case "whole":
            return _whole(kinds, path, notes)
        case "number":
            return Atom.DOUBLE
        case "array":
            return Array(_type_of(kinds.element or _Kinds(), f"{path}[]", notes))
        case "object":
            return _object(kinds, path, notes)
        case _:
            return Atom.STRING


def _whole(kinds: _Kinds, path: str, notes: list[str]) -> DataType:
    least, most = kinds.least or 0, kinds.most or 0
    if least >= _LONG_MIN and most <= _LONG_MAX:
        return Atom.BIGINT
    if max(-least, most) < _DECIMAL_LIMIT:
        return Decimal(38, 0)
    notes.append(f"{path} has numbers of more than 38 digits: DOUBLE rounds them")
    return Atom.DOUBLE


def _object(kinds: _Kinds, path: str, notes: list[str]) -> DataType:
    inner = kinds.fields
    shared = sum(each.counts.total() for each in inner.values())
    is_map = len(inner) >= _MAP_KEYS_MIN and shared < len(inner) * kinds.counts["object"] / 3
    if is_map or not inner:
        merged = _Kinds()
        for each in inner.values():
            _merge(merged, each)
        notes.append(f"{path} looks like a map: its {len(inner)} names differ between records")
        return Map(Atom.STRING, _type_of(merged, f"{path}{{}}", notes))
    fields = tuple(_fields(kinds, f"{path}.", notes))
    return Struct(fields) if fields else Map(Atom.STRING, Atom.STRING)


def _merge(one: _Kinds, other: _Kinds) -> None:
    one.counts += other.counts
    one.iso += other.iso
    one.formats += other.formats
    for number in (other.least, other.most):
        if number is not None:
            one.least = number if one.least is None else min(one.least, number)
            one.most = number if one.most is None else max(one.most, number)
    if other.element is not None:
        one.element = one.element or _Kinds()
        _merge(one.element, other.element)
    for name, inner in other.fields.items():
        _merge(one.fields.setdefault(name, _Kinds()), inner)
