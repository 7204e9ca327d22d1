"""Between what JSON can hold and what tables hold.

What it is: for each type of a schema the Arrow type that the JSON parser reads (its wire
type), and the exact conversion from there, a column at a time.
What it promises: a value is converted exactly or refused, never rounded, cut to fit or set to null;
the one exception is digits of a second beyond the sixth, which no Spark table can hold.
"""

import base64
import binascii
import decimal as decimals
from typing import assert_never

import pyarrow as pa
import pyarrow.compute as pc

from ashore.base.time_format import FIRST_US, LAST_US
from ashore.tables.ddl import Array, Atom, DataType, Decimal, Field, Map, Schema, Struct
from ashore.topics.decode.arrow_types import arrow_field, arrow_type
from ashore.topics.decode.reasons import DECIMAL_DIGITS, NOT_BASE64, NUMBER_RANGE, TIME_RANGE


class RowRefused(ValueError):
    """Some row of a block cannot be read; `row` of it, if that is known. `code`: of its reason."""

    def __init__(self, code: str, row: int | None = None) -> None:
        super().__init__(code)
        self.code = code
        self.row = row


# Read wide, then narrowed with a check: so 1.500 is a DECIMAL(2,1), and 1.55 is not.
_WIDE_DECIMAL = pa.decimal256(76, 38)

_HAS_ZONE = r"[T ].*(Z|[+-]\d\d(:?\d\d)?)$"


def wire_schema(fields: tuple[Field, ...]) -> pa.Schema:
    """Return the schema that the JSON parser reads."""
    return pa.schema([(field.name, wire_type(field.type)) for field in fields])


def wire_type(data_type: DataType) -> pa.DataType:
    """Return the type that the JSON parser reads. Maps arrive as lists of entries."""
    match data_type:
        case Atom.FLOAT:
            return pa.float64()
        case Atom.DATE | Atom.TIMESTAMP | Atom.TIMESTAMP_NTZ | Atom.BINARY:
            return pa.string()
        case Atom():
            return arrow_type(data_type)
        case Decimal():
            return _WIDE_DECIMAL
        case Array(element):
            return pa.list_(pa.field("element", wire_type(element)))
        case Map(key, value):
            return pa.list_(pa.struct([("key", wire_type(key)), ("value", wire_type(value))]))
        case Struct(fields):
            return pa.struct(list(wire_schema(fields)))
        case _:
            assert_never(data_type)


def convert(column: pa.Array, data_type: DataType) -> pa.Array:
    """Return a wire column as the table holds it. Raises Refused or pa.ArrowInvalid."""
    match data_type:
        case Atom():
            return _convert_atom(column, data_type)
        case Decimal():
            return _narrow(column, arrow_type(data_type))
        case Array(element):
            items = convert(column.values, element)
            return pa.ListArray.from_arrays(
                column.offsets, items, type=arrow_type(data_type), mask=_null_mask(column)
            )
        case Map(_, value):
            keys, items = column.values.flatten()
            return pa.MapArray.from_arrays(
                column.offsets,
                keys,
                convert(items, value),
                type=arrow_type(data_type),
                mask=_null_mask(column),
            )
        case Struct(fields):
            return pa.StructArray.from_arrays(
                [convert(column.field(i), field.type) for i, field in enumerate(fields)],
                fields=[arrow_field(field) for field in fields],
                mask=_null_mask(column),
            )
        case _:
            assert_never(data_type)


def _narrow(column: pa.Array, decimal: pa.Decimal128Type) -> pa.Array:
    """Return wide decimals as the table holds them.

    Arrow divides 256 bits wrongly for some numbers that are close to a power of two (2**64 - 1 with
    no digits behind the point): it sees digits lost where none are. Python has the last word.
    """
    try:
        return column.cast(decimal)
    except pa.ArrowInvalid:
        numbers = column.to_pylist()
        rescaled = [None if each is None else _rescale(each, decimal) for each in numbers]
        return pa.array(rescaled, decimal)


def _rescale(number: decimals.Decimal, decimal: pa.Decimal128Type) -> decimals.Decimal:
    """Return a number with as many digits behind the point as the type has. Raises RowRefused."""
    sign, digits, exponent = number.as_tuple()
    places = decimal.scale + int(exponent)
    whole = int("".join(map(str, digits)))
    whole, lost = divmod(whole * 10 ** max(0, places), 10 ** max(0, -places))
    if lost:
        raise RowRefused(DECIMAL_DIGITS)
    if whole >= 10**decimal.precision:
        raise RowRefused(NUMBER_RANGE)
    return decimals.Decimal((sign, tuple(map(int, str(whole))), -decimal.scale))


def _null_mask(column: pa.Array) -> pa.BooleanArray | None:
    return column.is_null() if column.null_count else None


def _convert_atom(column: pa.Array, atom: Atom) -> pa.Array:
    match atom:
        case Atom.FLOAT:
            return _to_float(column)
        case Atom.DATE:
            days = column.cast(pa.date32())
            _check_years(days.cast(pa.timestamp("us")))
            return days
        case Atom.TIMESTAMP:
            return _to_instants(column)
        case Atom.TIMESTAMP_NTZ:
            times = _cut_fractions(column).cast(pa.timestamp("us"))
            _check_years(times)
            return times
        case Atom.BINARY:
            return _from_base64(column)
        case _:
            return column


def _to_float(column: pa.Array) -> pa.Array:
    narrow = column.cast(pa.float32())
    overflow = pc.and_(pc.is_inf(narrow), pc.invert(pc.is_inf(column)))
    if pc.any(overflow).as_py():
        raise RowRefused(NUMBER_RANGE)
    return narrow


def _to_instants(column: pa.Array) -> pa.Array:
    """ISO 8601 to instants. A text without a zone means UTC; a date is its midnight."""
    instant = pa.timestamp("us", "UTC")
    try:
        times = column.cast(instant)  # every text has a zone and at most six digits
    except pa.ArrowInvalid:
        column = _cut_fractions(column)
        has_zone = pc.match_substring_regex(column, _HAS_ZONE)
        bare = pc.if_else(has_zone, None, column).cast(pa.timestamp("us"))
        zoned = pc.if_else(has_zone, column, None).cast(instant)
        times = pc.coalesce(zoned, bare.cast(pa.int64()).cast(instant))
    _check_years(times)
    return times


def _cut_fractions(column: pa.Array) -> pa.Array:
    """Drop digits of a second beyond the sixth, where any text is long enough to have them."""
    longest = pc.max(pc.binary_length(column)).as_py() or 0
    if longest <= len("2026-11-21T08:00:00.123456"):
        return column
    return pc.replace_substring_regex(column, r"(\.\d{6})\d+", r"\1")


def _check_years(times: pa.Array) -> None:
    limits = pc.min_max(times.cast(pa.int64()))
    low, high = limits["min"].as_py(), limits["max"].as_py()
    if low is not None and (low < FIRST_US or high > LAST_US):
        raise RowRefused(TIME_RANGE)


def _from_base64(column: pa.Array) -> pa.Array:
    """Decode row by row: Arrow has no kernel for it."""
    try:
        rows = [
            None if text is None else base64.b64decode(text, validate=True)
            for text in column.to_pylist()
        ]
    except (binascii.Error, ValueError):
        raise RowRefused(NOT_BASE64) from None
    return pa.array(rows, pa.binary())


def find_nulls(table: pa.Table, schema: Schema) -> pa.BooleanArray | None:
    """Return the rows that break a NOT NULL, at any depth; None: none does.

    `table` holds the columns of the schema as wire types, or as the types that tables hold.
    """
    missing = None
    for field in schema.fields:
        column = table.column(field.name).combine_chunks()
        missing = either(missing, _missing_in_field(column, field))
    return missing


def _missing_in_field(column: pa.Array, field: Field) -> pa.BooleanArray | None:
    inside = _missing_inside(column, field.type) if _has_required(field.type) else None
    if field.nullable or not column.null_count:
        return inside
    return either(column.is_null(), inside)


def _missing_inside(column: pa.Array, data_type: DataType) -> pa.BooleanArray | None:
    missing: pa.BooleanArray | None = None
    match data_type:
        case Struct(fields):
            for i, field in enumerate(fields):
                missing = either(missing, _missing_in_field(column.field(i), field))
            if missing is not None:
                missing = pc.and_(missing, column.is_valid())  # a null struct lacks nothing
        case Array(element):
            missing = _missing_in_items(column, _missing_inside(column.flatten(), element))
        case Map(_, value):
            entries = map_entries(column) if pa.types.is_map(column.type) else column
            items = entries.flatten().field(1)
            missing = _missing_in_items(entries, _missing_inside(items, value))
        case Atom() | Decimal():
            pass
        case _:
            assert_never(data_type)
    return missing


def _missing_in_items(column: pa.Array, missing: pa.BooleanArray | None) -> pa.BooleanArray | None:
    if missing is None:
        return None
    rows = pc.list_parent_indices(column).filter(missing)
    return pc.is_in(pa.array(range(len(column)), rows.type), value_set=rows)


def map_entries(column: pa.MapArray) -> pa.ListArray:
    """Return a map as a list of its entries. Most kernels know lists only."""
    entry = pa.struct([column.type.key_field, column.type.item_field])
    return column.cast(pa.list_(entry))


def _has_required(data_type: DataType) -> bool:
    match data_type:
        case Struct(fields):
            return any(not field.nullable or _has_required(field.type) for field in fields)
        case Array(inner) | Map(_, inner):
            return _has_required(inner)
        case _:
            return False


def either(left: pa.BooleanArray | None, right: pa.BooleanArray | None) -> pa.BooleanArray | None:
    """Return the rows that are in one of two masks, or in both; None is a mask without rows."""
    if left is None or right is None:
        return right if left is None else left
    return pc.or_(left, right)
