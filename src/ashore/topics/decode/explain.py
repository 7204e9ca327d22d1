"""The first fault of a JSON record that is bad.

What it is: `Explainer` walks over a record from left to right, by the types of a schema, and names
the first place where it cannot be a row. Where there is none, it writes the record without the
values that the schema ignores, which Arrow would judge too.
What it promises: the reason depends on the record and the schema alone. It is the reason that the
native decoder gives (native/src/decode/explain.rs): a test compares them. No library in C parses
the record, so that none can crash, and depth costs no stack.
"""

import decimal
import math
import re
from json.decoder import scanstring  # type: ignore[attr-defined]  # what json's parser uses
from typing import NoReturn

import pyarrow as pa

from ashore.tables.ddl import Array, Atom, DataType, Decimal, Field, Map, Schema, Struct, type_ddl
from ashore.topics.decode.json_text import SCALE_MAX, scale_of
from ashore.topics.decode.reasons import (
    DECIMAL_DIGITS,
    EMPTY,
    FIELD_TWICE,
    KEY_TWICE,
    NOT_DECIMAL,
    NOT_INTEGER,
    NOT_JSON,
    NOT_OBJECT,
    NOT_TIME,
    NOT_UTF8,
    NULL,
    NUMBER_RANGE,
    WRONG_TYPE,
    write_reason,
)
from ashore.topics.decode.wire import RowRefused, convert, wire_type

_HEX = "[0-9a-fA-F]"
_ESCAPE = (
    rf'\\["\\/bfnrt]|\\u[0-9abcefABCEF]{_HEX}{{3}}|\\u[dD][0-7]{_HEX}{{2}}'
    rf"|\\u[dD][89abAB]{_HEX}{{2}}\\u[dD][c-fC-F]{_HEX}{{2}}"
)
_STRING = re.compile(rf'"(?:[^"\\\x00-\x1f]++|{_ESCAPE})*+"')
_IGNORED_STRING = re.compile(rf'"(?:[^"\\\x00-\x1f]++|\\["\\/bfnrt]|\\u{_HEX}{{4}})*+"')
_NUMBER = re.compile(
    r"(?>-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++|(?!\.))(?:[eE][+-]?[0-9]++|(?![eE])))"
    r"|-?(?:NaN|Inf(?:inity)?)"
)
_WORD = re.compile("true|false|null")
_SPACE = re.compile(r"[ \t\r\n]*+")
_INTEGER = re.compile("-?[0-9]+")
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_ZERO = re.compile(r'"?[+-]?[0.]+(?:[eE][^"]*)?"?')  # of a token that is a number, or its text
_BITS = {Atom.TINYINT: 7, Atom.SMALLINT: 15, Atom.INT: 31, Atom.BIGINT: 63}
_DIGITS_MAX = 20  # of an integer that may fit
_OF_NUMBERS = {*_BITS, Atom.FLOAT, Atom.DOUBLE}


class _Fault(Exception):
    """Where the walk ends."""


class Explainer:
    """Explains bad records of one schema."""

    def __init__(self, schema: Schema, *, takes_whole: bool = False) -> None:
        """See JsonDecoder for `takes_whole`."""
        self._fields = schema.fields
        self._takes_whole = takes_whole

    def explain_value(self, value: bytes | None) -> str | None:
        """Return the reason of any value; None: no fault is known."""
        text = (value or b"").strip(b" \t\r\n")
        if not text:
            return EMPTY
        is_object = text.startswith(b"{") and text.endswith(b"}")
        return self.explain(text) if is_object else NOT_OBJECT

    def explain(self, value: bytes) -> str | None:
        """Return the reason of a record; None: no fault is known.

        Requires: the record begins with `{`.
        """
        return self.simplify(value)[0]

    def simplify(self, value: bytes) -> tuple[str | None, bytes]:
        """Return the same, and the record with null for each value without a column.

        A zero of a DECIMAL is `0` there, whatever its exponent, and a whole number that a column of
        integers takes has digits alone. A record with a fault is returned as it is.
        """
        try:
            walk = _Walk(value.decode(), takes_whole=self._takes_whole)
            walk.record(self._fields)
        except UnicodeDecodeError:
            return NOT_UTF8, value
        except _Fault as fault:
            return str(fault), value
        return None, walk.simple.encode()


class _Walk:
    """A walk over one text. Positions are those of its characters."""

    def __init__(self, text: str, *, takes_whole: bool) -> None:
        self._text = text
        self._takes_whole = takes_whole
        self._edits: list[tuple[int, int, str]] = []  # from, to, what stands there instead

    @property
    def simple(self) -> str:
        """The text, as `Explainer.simplify` describes it."""
        parts, at = [], 0
        for start, end, instead in self._edits:
            parts += [self._text[at:start], instead]
            at = end
        return "".join((*parts, self._text[at:]))

    def record(self, fields: tuple[Field, ...]) -> None:
        """Raise where the text is no record of these fields."""
        end = self._struct(0, fields, "")
        if end < len(self._text):
            self._break_at(self._space(end))

    def _break_at(self, at: int) -> NoReturn:
        raise _Fault(write_reason(NOT_JSON, f"byte {len(self._text[:at].encode())}"))

    def _struct(self, at: int, fields: tuple[Field, ...], path: str) -> int:
        known = {field.name: field for field in fields}
        seen = set[str]()
        at, is_last = self._first(at, "}")
        while not is_last:
            name, at = self._key(at)
            field = known.get(name)
            if field is None:
                end = self._skip(at)
                self._edits.append((at, end, "null"))
                at = end
            else:
                inside = f"{path}.{name}" if path else name
                if name in seen:
                    raise _Fault(write_reason(FIELD_TWICE, inside))
                seen.add(name)
                at = self._value(at, field.type, inside, is_required=not field.nullable)
            at, is_last = self._separator(at, "}")
        for field in fields:
            if not field.nullable and field.name not in seen:
                raise _Fault(write_reason(NULL, f"{path}.{field.name}" if path else field.name))
        return at

    def _map(self, at: int, inner: DataType, path: str) -> int:
        keys = list[str]()
        at, is_last = self._first(at, "}")
        while not is_last:
            name, at = self._key(at)
            keys.append(name)
            at = self._value(at, inner, f"{path}.value")
            at, is_last = self._separator(at, "}")
        if len(set(keys)) < len(keys):
            raise _Fault(write_reason(KEY_TWICE, path))
        return at

    def _array(self, at: int, element: DataType, path: str) -> int:
        at, is_last = self._first(at, "]")
        while not is_last:
            at = self._value(at, element, f"{path}.element")
            at, is_last = self._separator(at, "]")
        return at

    def _value(self, at: int, kind: DataType, path: str, *, is_required: bool = False) -> int:
        text = self._text
        opening = text[at : at + 1]
        code: str | None = WRONG_TYPE
        if text.startswith("null", at):
            if is_required:
                raise _Fault(write_reason(NULL, path))
            return at + 4
        match opening, kind:
            case "{", Struct(fields):
                return self._struct(at, fields, path)
            case "{", Map(_, inner):
                return self._map(at, inner, path)
            case "[", Array(element):
                return self._array(at, element, path)
            case (("{" | "["), _):
                token, end = "{...}" if opening == "{" else "[...]", at
            case _:
                end = self._scalar(at)
                token = text[at:end]
                code = _judge(token, kind)
                if not code and isinstance(kind, Decimal) and _ZERO.fullmatch(token):
                    self._edits.append((at, end, "0"))
                if code == NOT_INTEGER and self._takes_whole and kind in _BITS:
                    code, digits = _judge_whole(token, 1 << _BITS[kind])
                    self._edits.append((at, end, digits))
        if code:
            raise _Fault(write_reason(code, path, _sql_name(kind), token))
        return end

    def _skip(self, at: int) -> int:
        """Return the end of a value without a column, however deep it is.

        Its texts may have halves of surrogate pairs.
        """
        closings = list[str]()
        while True:
            opening = self._text[at : at + 1]
            is_last = True
            if opening in ("{", "["):
                closings.append("}" if opening == "{" else "]")
                at, is_last = self._first(at, closings[-1])
            else:
                at = self._scalar(at, _IGNORED_STRING)
                if not closings:
                    return at
                at, is_last = self._separator(at, closings[-1])
            while is_last:
                closings.pop()
                if not closings:
                    return at
                at, is_last = self._separator(at, closings[-1])
            if closings[-1] == "}":
                _, at = self._key(at, _IGNORED_STRING)

    def _space(self, at: int) -> int:
        found = _SPACE.match(self._text, at)
        return found.end() if found else at

    def _first(self, at: int, closing: str) -> tuple[int, bool]:
        """Return the place behind an opening bracket, or behind both where nothing is in them."""
        at = self._space(at + 1)
        is_last = self._text[at : at + 1] == closing
        return at + is_last, is_last

    def _separator(self, at: int, closing: str) -> tuple[int, bool]:
        """Return the place behind a comma, or behind the closing bracket."""
        at = self._space(at)
        found = self._text[at : at + 1]
        if found == closing:
            return at + 1, True
        if found != ",":
            self._break_at(at)
        return self._space(at + 1), False

    def _key(self, at: int, texts: re.Pattern[str] = _STRING) -> tuple[str, int]:
        """Return a key, and the place of its value."""
        found = texts.match(self._text, at)
        colon = self._space(found.end()) if found else at
        if found is None or self._text[colon : colon + 1] != ":":
            self._break_at(colon)
        return _unquote(self._text[at : found.end()]), self._space(colon + 1)

    def _scalar(self, at: int, texts: re.Pattern[str] = _STRING) -> int:
        opening = self._text[at : at + 1]
        pattern = texts if opening == '"' else _WORD if opening in ("t", "f", "n") else _NUMBER
        found = pattern.match(self._text, at)
        if found is None:
            self._break_at(at)
        return found.end()


def _unquote(token: str) -> str:
    text: str = scanstring(token, 1)[0] if "\\" in token else token[1:-1]
    return text


def _sql_name(kind: DataType) -> str:
    return type_ddl(kind) if isinstance(kind, Atom | Decimal) else type(kind).__name__.upper()


def _judge(token: str, kind: DataType) -> str | None:
    """Return the code of a scalar that does not fit its column; None: it does."""
    is_text, is_word = token.startswith('"'), token in ("true", "false")
    if kind is Atom.BOOLEAN:
        return None if is_word else WRONG_TYPE
    if isinstance(kind, Decimal):
        return (
            WRONG_TYPE if is_word else _judge_decimal(_unquote(token) if is_text else token, kind)
        )
    if not isinstance(kind, Atom) or is_word or is_text == (kind in _OF_NUMBERS):
        return WRONG_TYPE
    if kind in _BITS:
        return _judge_integer(token, 1 << _BITS[kind])
    if kind in _OF_NUMBERS:
        number = float(token)
        if math.isinf(number) and "I" not in token:
            return NUMBER_RANGE
        return _judge_by_conversion(number, kind)
    return None if kind is Atom.STRING else _judge_by_conversion(_unquote(token), kind)


def _judge_integer(token: str, limit: int) -> str | None:
    if not _INTEGER.fullmatch(token):
        return NOT_INTEGER
    fits = len(token) <= _DIGITS_MAX and -limit <= int(token) < limit
    return None if fits else NUMBER_RANGE


def _judge_whole(token: str, limit: int) -> tuple[str | None, str]:
    """Return the code of a number that is no whole one within limits, or none and its digits."""
    if "N" in token or "I" in token:
        return NOT_INTEGER, token
    if _ZERO.fullmatch(token):
        return None, "0"
    try:
        sign, digits, exponent = decimal.Decimal(token).as_tuple()
    except decimal.InvalidOperation:  # an exponent of too many digits
        return NOT_INTEGER if "e-" in token.lower() else NUMBER_RANGE, token
    whole = "".join(map(str, digits)).rstrip("0")
    exponent = int(exponent) + len(digits) - len(whole)
    if exponent < 0:
        return NOT_INTEGER, token
    if len(whole.lstrip("0")) + exponent > _DIGITS_MAX:
        return NUMBER_RANGE, token
    number = int(whole) * 10**exponent * (-1 if sign else 1)
    return (None, str(number)) if -limit <= number < limit else (NUMBER_RANGE, token)


def _judge_by_conversion(value: float | str, kind: Atom) -> str | None:
    try:
        convert(pa.array([value], wire_type(kind)), kind)
    except RowRefused as refused:
        return refused.code
    except pa.ArrowInvalid:
        return NOT_TIME
    return None


def _judge_decimal(text: str, kind: Decimal) -> str | None:
    if not _DECIMAL.fullmatch(text):
        return NOT_DECIMAL
    if scale_of(text) > SCALE_MAX:
        return DECIMAL_DIGITS
    if _ZERO.fullmatch(text):
        return None
    try:
        _, digits, exponent = decimal.Decimal(text).as_tuple()
    except decimal.InvalidOperation:  # an exponent of too many digits
        return NUMBER_RANGE
    whole = "".join(map(str, digits)).rstrip("0")
    exponent = int(exponent) + len(digits) - len(whole)
    if not whole:
        return None
    if -exponent > kind.scale:
        return DECIMAL_DIGITS
    return NUMBER_RANGE if len(whole) + exponent > kind.precision - kind.scale else None
