"""A second decoder, by `json`, `decimal` and `datetime`, for the rules of docs/use/records.md.

What it promises: no code is shared with `ashore.topics.decode`, so that a mistake there does not
hide itself. A time is microseconds since 1970: equal rows are equal values. It may take what the
first decoder refuses (it reads rows that are there), never the other way round.
"""

import base64
import hashlib
import json
import re
import struct
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal as Number
from functools import partial
from math import isinf
from typing import Any

from ashore.tables.ddl import (
    JSON_WHOLE,
    Array,
    Atom,
    DataType,
    Decimal,
    Field,
    Map,
    Schema,
    Struct,
    is_json,
)

Row = dict[str, Any]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_TIME = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d)(?::(\d\d)(?::(\d\d)(?:\.(\d+))?)?)?"
    r"(Z|([+-])(\d\d)(?::?(\d\d))?)?)?",
    re.ASCII,
)
_INTEGER = re.compile(r"-?[0-9]{1,20}")
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


class Odd(ValueError):
    """A value is none of its column's."""


class TooDeep(Exception):
    """A value is nested so deeply that Python's parser gives up: nothing is said of it."""


def decode_row(value: bytes | None, decode: str, schema: Schema) -> Row:
    """Return the row that a record's value is. Raises Odd, TooDeep."""
    if value is None:
        raise Odd("the record has no value")
    if is_json(decode):
        parser = _JSON_WHOLE if decode == JSON_WHOLE else _JSON
        return _read_fields(_of(_Object, _parse(value, parser)), schema.fields)
    [field] = schema.fields
    try:
        return {field.name: value.decode() if decode == "text" else value}
    except UnicodeDecodeError as error:
        raise Odd(str(error)) from None


def mask_row(row: Row, mask: Mapping[str, str]) -> Row:
    """Return a row with masks instead of values. `mask`: columns, with dots below, and forms."""
    masked = dict(row)
    for path, form in mask.items():
        name, below = (path, "") if path in masked else path.split(".", 1)
        value = masked[name]
        if below:
            masked[name] = None if value is None else mask_row(value, {below: form})
        elif form == "null" or value is None:
            masked[name] = None
        elif form == "sha256":
            masked[name] = hashlib.new("sha256", bytes(value, "utf-8")).hexdigest()
        else:
            hidden = len(value) if len(value) <= 4 else len(value) - 4
            masked[name] = "*" * hidden + value[hidden:]
    return masked


def _parse(value: bytes, parser: json.JSONDecoder) -> object:
    try:
        return parser.decode(value.decode())
    except RecursionError as error:
        raise TooDeep(str(error)) from None
    except ValueError as error:
        raise Odd(f"not JSON: {error}") from None


class _Literal(str):
    """A number as it stands in JSON: what it means is its column's affair."""

    __slots__ = ()


class _Fraction(_Literal):
    """A number with a point or an exponent, where columns of integers take whole ones."""

    __slots__ = ()


class _Object(dict[str, Any]):
    """A JSON object that knows which names stand in it twice."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.twice: frozenset[str] = frozenset()
        if len(self) < len(pairs):
            counts = Counter(name for name, _ in pairs)
            self.twice = frozenset(name for name, count in counts.items() if count > 1)


_JSON = json.JSONDecoder(
    parse_float=_Literal, parse_int=_Literal, parse_constant=_Literal, object_pairs_hook=_Object
)
_JSON_WHOLE = json.JSONDecoder(
    parse_float=_Fraction, parse_int=_Literal, parse_constant=_Literal, object_pairs_hook=_Object
)


def _read_fields(document: _Object, fields: tuple[Field, ...]) -> Row:
    if twice := document.twice & {field.name for field in fields}:
        raise Odd(f"{', '.join(sorted(twice))} appears twice")
    row = {field.name: read_value(document.get(field.name), field.type) for field in fields}
    for field in fields:
        if row[field.name] is None and not field.nullable:
            raise Odd(f"{field.name} is null, and NOT NULL")
    return row


def read_value(value: Any, data_type: DataType) -> Any:
    """Return what a JSON value is in a column. Raises Odd."""
    match data_type:
        case _ if value is None:
            return None
        case Array(element):
            return [read_value(item, element) for item in _of(list, value)]
        case Map(_, element):
            return _read_map(_of(_Object, value), element)
        case Struct(fields):
            return _read_fields(_of(_Object, value), fields)
        case Decimal(precision, scale):
            return _read_decimal(value, precision, scale)
        case Atom():
            return _READERS[data_type](value)


def _read_map(value: _Object, element: DataType) -> Row:
    if value.twice:
        raise Odd(f"{', '.join(sorted(value.twice))} appears twice in a map")
    return {key: read_value(item, element) for key, item in value.items()}


def plain_value(value: Any, data_type: DataType) -> Any:
    """Return a value that Arrow gives for a column as `read_value` has it."""
    if value is None:
        return None
    match data_type:
        case Array(element):
            return [plain_value(item, element) for item in value]
        case Map(_, element):
            return {key: plain_value(item, element) for key, item in value}
        case Struct(fields):
            return {field.name: plain_value(value[field.name], field.type) for field in fields}
        case Atom.TIMESTAMP | Atom.TIMESTAMP_NTZ if isinstance(value, datetime):
            time = value if value.tzinfo else value.replace(tzinfo=UTC)
            return (time - _EPOCH) // _MICROSECOND
        case _:
            return value


def is_same(left: Any, right: Any) -> bool:
    """Return whether two values are one: not-a-number is itself, true is not 1, -0.0 is not 0.0."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(is_same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(is_same, left, right))
    if isinstance(left, float) and isinstance(right, float):
        return repr(left) == repr(right)
    return type(left) is type(right) and bool(left == right)


def read_hive(text: str | None, data_type: DataType) -> Any:
    """Return what a value in the name of a partition's directory is in a column. Raises Odd."""
    match data_type:
        case _ if text is None:
            return None
        case Atom.STRING:
            return text
        case Atom.BOOLEAN:
            return text == "true"
        case Atom.DATE:
            return _read_date(text)
        case Decimal(precision, scale):
            return _read_decimal(text, precision, scale)
        case Atom():
            return _READERS[data_type](_Literal(text))
        case _:
            raise Odd(f"{text!r:.50} is in the name of a directory")


def _of(type_: type, value: Any) -> Any:
    if type(value) is not type_:
        raise Odd(f"{value!r:.50} is not {type_.__name__}")
    return value


def _read_integer(bits: int, value: object) -> int:
    if isinstance(value, _Fraction):
        whole = _read_decimal(value, 20, 0)
        value = _Literal(int(whole) if whole else 0)
    if not isinstance(value, _Literal) or not _INTEGER.fullmatch(value):
        raise Odd(f"{value!r:.50} is not an integer of {bits} bits")
    number = int(value)
    if not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise Odd(f"{number} does not fit into {bits} bits")
    return number


def _read_decimal(value: object, precision: int, scale: int) -> Number:
    if not isinstance(value, str) or not _DECIMAL.fullmatch(value):
        raise Odd(f"{value!r:.50} is not a DECIMAL")
    try:
        number = Number(value)
    except ArithmeticError:  # an exponent that no Decimal has
        if re.search("[1-9]", re.split("[eE]", value)[0]):
            raise Odd(f"{value!r:.50} is not a DECIMAL") from None
        number = Number(0)
    _sign, digits, exponent = number.as_tuple()
    cut = -int(exponent) - scale
    if number and number.adjusted() >= precision - scale:
        raise Odd(f"{value!r:.50} does not fit into DECIMAL({precision},{scale})")
    if cut > 0 and any(digits[-cut:]):
        raise Odd(f"{value!r:.50} has more than {scale} digits after the point")
    return number


def _read_double(value: object) -> float:
    if not isinstance(value, _Literal):
        raise Odd(f"{value!r:.50} is not a number")
    number = float(value)
    if isinf(number) and not value.endswith("Infinity"):
        raise Odd(f"{value!r:.50} is too large for a DOUBLE")
    return number


def _read_float(value: object) -> float:
    try:
        return float(struct.unpack("<f", struct.pack("<f", _read_double(value)))[0])
    except OverflowError as error:
        raise Odd(str(error)) from None


def _read_binary(value: object) -> bytes:
    try:
        return base64.b64decode(_of(str, value), validate=True)
    except ValueError as error:
        raise Odd(str(error)) from None


def _read_time(value: object) -> datetime:
    found = _TIME.fullmatch(_of(str, value))
    if found is None:
        raise Odd(f"{value!r:.50} is not a time")
    year, month, day, hour, minute, second = (int(part or 0) for part in found.groups()[:6])
    micros = int(((found[7] or "") + "000000")[:6])
    ahead = timedelta(hours=int(found[10] or 0), minutes=int(found[11] or 0))
    try:
        zone = timezone(-ahead if found[9] == "-" else ahead)
        return datetime(year, month, day, hour, minute, second, micros, zone)
    except (ValueError, OverflowError) as error:
        raise Odd(str(error)) from None


def _read_date(value: object) -> date:
    return _read_time(value).date()


def _read_micros(value: object) -> int:
    return (_read_time(value) - _EPOCH) // _MICROSECOND


_READERS: Mapping[Atom, Callable[[object], object]] = {
    Atom.STRING: partial(_of, str),
    Atom.BOOLEAN: partial(_of, bool),
    Atom.TINYINT: partial(_read_integer, 8),
    Atom.SMALLINT: partial(_read_integer, 16),
    Atom.INT: partial(_read_integer, 32),
    Atom.BIGINT: partial(_read_integer, 64),
    Atom.FLOAT: _read_float,
    Atom.DOUBLE: _read_double,
    Atom.BINARY: _read_binary,
    Atom.DATE: _read_date,
    Atom.TIMESTAMP: _read_micros,
    Atom.TIMESTAMP_NTZ: _read_micros,
}
