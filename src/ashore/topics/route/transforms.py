"""The values of partition transforms, for the rows of a batch.

What it is: `transform_texts`, from a column to the text of each row's partition value.
What it promises: values are those of https://iceberg.apache.org/spec#partition-transforms, exactly:
times are floored, in UTC; numbers too, below zero as above; a bucket is MurmurHash3 of the bytes
that the format names. Null has the value null. `tables/transforms.read_value` reads the texts.
"""

from collections.abc import Callable
from decimal import Context, Decimal
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ashore.tables.names import DEFAULT_PARTITION
from ashore.tables.transforms import TIMES, Transform, quote

_UNITS: Final = dict(zip(TIMES, "YMDh", strict=True))
_INT_MIN: Final = -(1 << 31)
_EXACT: Final = Context(prec=40)  # more digits than a decimal has
_HASH_MASK: Final = (1 << 31) - 1
NO_VALUE: Final = ""  # the type of the column has no such value


def check_source(transform: Transform, kind: pa.DataType) -> None:
    """Raise ValueError where a column of this type has no such transform."""
    is_time = pa.types.is_timestamp(kind)
    is_date = pa.types.is_date(kind)
    is_number = pa.types.is_integer(kind) or pa.types.is_decimal(kind)
    match transform.kind:
        case "hour":
            fits = is_time
        case "year" | "month" | "day":
            fits = is_time or is_date
        case "truncate":
            fits = is_number or pa.types.is_string(kind)
        case _:
            is_bytes = pa.types.is_string(kind) or pa.types.is_binary(kind)
            fits = is_time or is_date or is_number or is_bytes
    if not fits:
        raise ValueError(f"partition_by: {transform} cannot be computed of a column of {kind}")


def transform_texts(transform: Transform, column: pa.Array) -> tuple[pa.Int32Array, list[str]]:
    """Return for each row an index into the texts, and these; several may be equal.

    A text is NO_VALUE where a number that is truncated is below the smallest of its type.
    """
    apply, spell = _methods(transform, column.type)
    encoded = apply(column).dictionary_encode(null_encoding="encode")
    return encoded.indices, [
        DEFAULT_PARTITION if value is None else spell(value)
        for value in encoded.dictionary.to_pylist()
    ]


def _methods(
    transform: Transform, kind: pa.DataType
) -> tuple[Callable[[pa.Array], pa.Array], Callable[..., str]]:
    """Return what computes the values of a column, and what spells each distinct one."""
    number = transform.number or 1
    if transform.kind in TIMES:
        unit = _UNITS[transform.kind]
        return (
            lambda column: _floor_times(column, unit),
            lambda each: str(np.array([each]).astype(f"datetime64[{unit}]")[0]),
        )
    if transform.kind == "bucket":
        return lambda column: _find_buckets(column, number), str
    if pa.types.is_string(kind):
        return lambda column: pc.utf8_slice_codeunits(column, 0, number), quote
    if pa.types.is_decimal(kind):
        return lambda column: column, lambda each: _truncate_decimal(each, number, kind)
    return (
        lambda column: _floor_numbers(column, number),
        lambda each: _spell_floor(each, number, kind),
    )


def _floor_times(column: pa.Array, unit: str) -> pa.Int64Array:
    source = "D" if pa.types.is_date32(column.type) else column.type.unit
    times = _longs(column).astype(f"datetime64[{source}]").astype(f"datetime64[{unit}]")
    return _with_nulls(times.astype(np.int64), column)


def _floor_numbers(column: pa.Array, width: int) -> pa.Int64Array:
    numbers = _longs(column)
    return _with_nulls(numbers - np.mod(numbers, width), column)


def _spell_floor(floor: int, width: int, kind: pa.DataType) -> str:
    # Below the least long it has wrapped around: then it is no multiple of the width.
    is_below = floor % width or (floor < _INT_MIN and not pa.types.is_int64(kind))
    return NO_VALUE if is_below else str(floor)


def _truncate_decimal(value: Decimal, width: int, kind: pa.Decimal128Type) -> str:
    unscaled = _unscaled(value)
    floor = unscaled - unscaled % width
    if abs(floor) >= 10**kind.precision:
        return NO_VALUE
    return f"{Decimal(floor).scaleb(-kind.scale, _EXACT):f}"


def _find_buckets(column: pa.Array, count: int) -> pa.Int64Array:
    import mmh3  # noqa: PLC0415 - it comes with the extra `iceberg`

    encoded = column.drop_null().dictionary_encode()
    hashes = np.array([mmh3.hash(each) for each in _hashed(encoded.dictionary)], np.int64)
    found = np.zeros(len(column), np.int64)
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    found[valid] = ((hashes & _HASH_MASK) % count)[encoded.indices.to_numpy()]
    return _with_nulls(found, column)


def _hashed(column: pa.Array) -> list[str] | list[bytes]:
    """Return what the format hashes: of a number the bytes of a long, of a decimal its digits."""
    if pa.types.is_decimal(column.type):
        return [_shortest(_unscaled(each)) for each in column.to_pylist()]
    if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
        texts: list[str] | list[bytes] = column.to_pylist()
        return texts
    longs: list[bytes] = _longs(column).astype("<i8").view("V8").tolist()
    return longs


def _unscaled(value: Decimal) -> int:
    return int(f"{value:f}".replace(".", ""))  # its exponent is that of its column


def _shortest(number: int) -> bytes:
    """Return the fewest bytes of two's complement, the highest first."""
    bits = (number if number >= 0 else ~number).bit_length() + 1
    return number.to_bytes((bits + 7) // 8, "big", signed=True)


def _longs(column: pa.Array) -> np.ndarray:
    """Return numbers, days or microseconds as longs; 0 for null."""
    kind = column.type
    counted = column.cast(pa.int32()) if pa.types.is_date32(kind) else column
    longs: np.ndarray = counted.cast(pa.int64()).fill_null(0).to_numpy()
    return longs


def _with_nulls(values: np.ndarray, column: pa.Array) -> pa.Int64Array:
    return pa.array(values, mask=column.is_null().to_numpy(zero_copy_only=False))
