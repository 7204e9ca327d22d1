"""JSON text, made fit for Arrow's parser.

What it is: Arrow's JSON parser reads objects with fixed names only. `rewrite_maps` makes
`{"m": [{"key": "k", "value": 1}]}` of `{"m": {"k": 1}}`, record by record, in Python. And Arrow
looks the power of ten for a DECIMAL up in a table of 77 entries, and does not look where the table
ends: `1e-230` becomes a wrong value, `1e-100000000` ends the process. `ExponentJudge` finds these.
What it promises: only objects in the place of a MAP change. Numbers keep their digits, strings
their characters, names that are there twice stay twice: judging them is left to the parser. No
record that is left makes Arrow read beyond its table, however its exponent is written, escapes
included. Without such exponents it costs a few scans of the bytes.
"""

import json
import re
from collections.abc import Iterator, Sequence
from json.encoder import encode_basestring_ascii

import numpy as np
import pyarrow as pa

from ashore.tables.ddl import Array, DataType, Decimal, Field, Map, Schema, Struct
from ashore.topics.decode.decode import BadRow, Values
from ashore.topics.decode.reasons import (
    DECIMAL_DIGITS,
    KEY_TWICE,
    NOT_JSON,
    NOT_UTF8,
    TOO_DEEP,
    WRONG_TYPE,
)
from ashore.topics.decode.wire import RowRefused

# Arrow reads decimals with 38 digits after the point (see `wire`), and its table reaches
# 76 further. A text may have as many after its point, its exponent counted in.
SCALE_MAX = 38 + 76
# Arrow refuses more than 76 digits, whatever the exponent: those down to this one are within.
_EXPONENT_SAFE_MAX = SCALE_MAX - 76
_DIGITS_LOOKED_AT = 16
_CHUNK_BYTES = 64 << 10  # what is computed of it stays in the processor's cache

_WITH_EXPONENT = re.compile(r"(?:\.(\d*))?[eE]-(\d+)")
_UNICODE_ESCAPE = ord("\\") | ord("u") << 8  # two bytes as one number, the first one lowest
_MINUS_AFTER_E = ord("e") | ord("-") << 8
_TO_LOWER = np.uint16(0x20)  # of the first byte
_AS_IT_IS = np.uint16(0)
# The last two digits of the escapes of `-`, `.`, `+`, digits, `E` and `e`, as above but the first
# one highest, in lower case.
_CODES = [high << 8 | low for high, low in (b"2d", b"2e", b"2b", b"45", b"65")]
_CODES += [ord("3") << 8 | ord("0") + digit | 0x20 for digit in range(10)]


class _Number(str):
    """The digits of a number as they were written."""

    __slots__ = ()


# Objects become tuples of pairs: unlike a dict they keep names that are there twice.
_decoder = json.JSONDecoder(
    object_pairs_hook=tuple, parse_int=_Number, parse_float=_Number, parse_constant=_Number
)


def read_pairs(text: bytes) -> tuple[tuple[str, object], ...]:
    """Return an object, and those in it, as pairs; numbers as the text of their digits.

    Requires: the text begins with `{`. Raises ValueError, RecursionError.
    """
    found: tuple[tuple[str, object], ...] = _decoder.decode(text.decode())
    return found


def rewrite_maps(texts: Values, columns: Sequence[Field]) -> tuple[Values, list[BadRow]]:
    """Return texts with these columns only, their maps rewritten, and the records refused.

    The texts of refused records are left out.
    """
    types = {column.name: column.type for column in columns}
    rewritten: list[bytes] = []
    refused: list[BadRow] = []
    for row, text in enumerate(texts.to_pylist()):
        try:
            record = read_pairs(text)
            pairs = (pair for pair in record if pair[0] in types)
            rewritten.append("".join(_object(pairs, types)).encode())
        except UnicodeDecodeError:
            refused.append(BadRow(row, NOT_UTF8))
        except RecursionError:
            refused.append(BadRow(row, TOO_DEEP))
        except RowRefused as error:
            refused.append(BadRow(row, error.code))
        except ValueError:
            refused.append(BadRow(row, NOT_JSON))
    return pa.array(rewritten, texts.type), refused


def _write(value: object, data_type: DataType | None) -> Iterator[str]:
    """Yield the text of a value; `data_type` is None where the schema does not reach."""
    match value, data_type:
        case None, _:
            yield "null"
        case tuple(), Map(_, inner):
            yield from _entries(value, inner)
        case _, Map():
            raise RowRefused(WRONG_TYPE)
        case tuple(), _:
            fields = data_type.fields if isinstance(data_type, Struct) else ()
            yield from _object(iter(value), {field.name: field.type for field in fields})
        case list(), _:
            yield "["
            element = data_type.element if isinstance(data_type, Array) else None
            for i, item in enumerate(value):
                yield "," if i else ""
                yield from _write(item, element)
            yield "]"
        case bool(), _:
            yield "true" if value else "false"
        case _Number(), _:
            yield value
        case _:
            yield encode_basestring_ascii(str(value))


def _object(pairs: Iterator[tuple[str, object]], types: dict[str, DataType]) -> Iterator[str]:
    yield "{"
    for i, (name, value) in enumerate(pairs):
        yield f"{',' if i else ''}{encode_basestring_ascii(name)}:"
        yield from _write(value, types.get(name))
    yield "}"


def _entries(pairs: tuple[tuple[str, object], ...], inner: DataType) -> Iterator[str]:
    if len({name for name, _ in pairs}) != len(pairs):
        raise RowRefused(KEY_TWICE)
    yield "["
    for i, (name, value) in enumerate(pairs):
        yield f'{"," if i else ""}{{"key":{encode_basestring_ascii(name)},"value":'
        yield from _write(value, inner)
        yield "}"
    yield "]"


def _table(characters: bytes) -> np.ndarray:
    found = np.zeros(256, bool)
    found[list(characters)] = True
    return found


_IS_DIGIT = _table(b"0123456789")
_IS_BEFORE = _table(b"0123456789.")
_IS_AFTER = _table(b'" \t\r\n,}]')  # what follows a number, or the text of one


class ExponentJudge:
    """Finds the records of one schema whose decimals Arrow must not see."""

    def __init__(self, schema: Schema) -> None:
        self._type = Struct(schema.fields)
        self._is_needed = _has_decimal(self._type)

    def refuse(self, texts: Values) -> list[BadRow]:
        """Return the texts that are refused, ascending. Requires: each begins and ends an object.

        A text is looked at by Python only where its bytes may be such a decimal.
        """
        if not self._is_needed or not len(texts):
            return []
        edges, content = _bytes_of(texts)
        found = _find_suspects(content)
        rows = np.unique(np.searchsorted(edges, found, side="right") - 1).tolist()
        judged = ((row, self._judge(texts[row].as_py())) for row in rows)
        return [BadRow(row, reason) for row, reason in judged if reason is not None]

    def _judge(self, text: bytes | None) -> str | None:
        """Return why a record is refused; None: Arrow may see it."""
        try:
            document = read_pairs(text or b"")
        except UnicodeDecodeError:
            return NOT_UTF8
        except RecursionError:
            return TOO_DEEP
        except ValueError:
            return NOT_JSON
        is_small = any(scale_of(each) > SCALE_MAX for each in _decimals(document, self._type))
        return DECIMAL_DIGITS if is_small else None


def _bytes_of(texts: Values) -> tuple[np.ndarray, np.ndarray]:
    """Return where each text begins, counted from the first, and the bytes of all."""
    _, offsets, content = texts.buffers()
    is_large = pa.types.is_large_binary(texts.type)
    edges = np.frombuffer(offsets, np.int64 if is_large else np.int32)
    edges = edges[texts.offset : texts.offset + len(texts) + 1]
    first, last = int(edges[0]), int(edges[-1])
    if content is None or first == last:
        return edges[:-1] - first, np.zeros(0, np.uint8)
    return edges[:-1] - first, np.frombuffer(content, np.uint8)[first:last]


def _find_suspects(content: np.ndarray) -> np.ndarray:
    """Return positions in records that may hold a decimal beyond the table: all, and some more."""
    exponents, escapes = [], []
    for start in range(0, len(content), _CHUNK_BYTES):
        chunk = content[start : start + _CHUNK_BYTES + 1]  # a pair may lie across the edge
        exponents += [start + each for each in _find_pairs(chunk, _MINUS_AFTER_E, _TO_LOWER)]
        if b"\\" in chunk.tobytes():
            escapes += [start + each for each in _find_pairs(chunk, _UNICODE_ESCAPE, _AS_IT_IS)]
    suspects = []
    if exponents:
        suspects += _sift_exponents(content, np.concatenate(exponents))
    if escapes:
        suspects.append(_sift_escapes(content, np.concatenate(escapes)))
    return np.concatenate(suspects) if suspects else np.zeros(0, np.int64)


def _find_pairs(chunk: np.ndarray, pair: int, mask: np.uint16) -> Iterator[np.ndarray]:
    """Yield where two bytes stand side by side: as numbers of 16 bits, at even and odd places."""
    for odd in (0, 1):
        count = (len(chunk) - odd) // 2
        words = chunk[odd : odd + 2 * count].view("<u2")
        is_pair = (words | mask) == pair
        if is_pair.any():
            yield 2 * np.flatnonzero(is_pair) + odd


def _sift_exponents(content: np.ndarray, at: np.ndarray) -> list[np.ndarray]:
    """Return those places of `e-` where an exponent may stand that is small enough to matter.

    Texts such as UUIDs have many others. Every text ends in `}`, so what is looked at is there.
    """
    at = at[(at > 0) & (at + 4 < len(content))]
    at = at[_IS_BEFORE.take(content.take(at - 1)) & _IS_DIGIT.take(content.take(at + 2))]
    at = at[_IS_DIGIT.take(content.take(at + 3))]  # with one digit it is safe
    suspects = []
    for ahead in range(4, 2 + _DIGITS_LOOKED_AT):
        at = at[at + ahead < len(content)]
        if not len(at):
            break
        following = content.take(at + ahead)
        ends = at[_IS_AFTER.take(following)]
        if ahead == 4:  # two digits
            ends = ends[_two_digits(content, ends + 2) > _EXPONENT_SAFE_MAX]
        suspects.append(ends)
        at = at[_IS_DIGIT.take(following)]
    return [*suspects, at]


def _two_digits(content: np.ndarray, at: np.ndarray) -> np.ndarray:
    tens, ones = content[at].astype(np.int64), content[at + 1].astype(np.int64)
    found: np.ndarray = 10 * tens + ones - 11 * ord("0")
    return found


def _sift_escapes(content: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Return those escapes that may be a character of a number. One of them is the letter e."""
    at = at[at + 5 < len(content)]
    at = at[(content[at + 2] == ord("0")) & (content[at + 3] == ord("0"))]
    codes = np.left_shift(content[at + 4].astype(np.int64), 8) | content[at + 5] | 0x20
    return at[np.isin(codes, _CODES)]


def _decimals(value: object, data_type: DataType) -> Iterator[str]:
    """Yield the digits of what stands in the place of decimals. Objects are tuples of pairs."""
    match value, data_type:
        case str(), Decimal():
            yield value
        case list(), Array(element):
            for each in value:
                yield from _decimals(each, element)
        case tuple(), Map(_, inner):
            for _, each in value:
                yield from _decimals(each, inner)
        case tuple(), Struct(fields):
            types = {field.name: field.type for field in fields}
            for name, each in value:
                if name in types:
                    yield from _decimals(each, types[name])
        case _:
            pass


def scale_of(digits: str) -> int:
    """Return how many digits a number has after its point, its negative exponent counted in."""
    found = _WITH_EXPONENT.search(digits)
    if found is None:
        return 0
    exponent = found[2].lstrip("0")
    if len(exponent) > len(str(SCALE_MAX)):  # at some length also too long for Python
        return SCALE_MAX + 1
    return len(found[1] or "") + int(exponent or "0")


def _has_decimal(data_type: DataType) -> bool:
    match data_type:
        case Decimal():
            return True
        case Array(inner) | Map(_, inner):
            return _has_decimal(inner)
        case Struct(fields):
            return any(_has_decimal(field.type) for field in fields)
        case _:
            return False
