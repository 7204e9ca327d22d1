"""Maps in JSON, rewritten so that a columnar parser can take them.

What it is: Arrow's JSON parser reads objects with fixed names only. Here `{"m": {"k": 1}}` becomes
`{"m": [{"key": "k", "value": 1}]}`, record by record, in Python.
What it promises: only objects in the place of a MAP change. Numbers keep their digits, strings
their characters, names that are there twice stay twice: judging them is left to the parser.
"""

import json
from collections.abc import Iterator, Sequence
from json.encoder import encode_basestring_ascii

import pyarrow as pa

from ashore.tables.ddl import Array, DataType, Field, Map, Struct
from ashore.topics.decode.decode import BadRow, Values
from ashore.topics.decode.reasons import KEY_TWICE, NOT_JSON, NOT_UTF8, TOO_DEEP, WRONG_TYPE
from ashore.topics.decode.wire import RowRefused


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
