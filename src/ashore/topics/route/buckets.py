"""Rows to partitions.

What it is: the values of the partition columns for each row, in columns: `date`, `hour` and
`minute` of a time in the table's zone, and columns of the table.
What it promises: values are the strings that stand in paths, before escaping. Partition columns are
not part of the files: readers take them from the path, and Hive cannot have them twice.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pyarrow as pa
import pyarrow.compute as pc

from ashore.errors import check
from ashore.tables.names import DEFAULT_PARTITION, fits_path

TIME_COLUMNS = ("date", "hour", "minute")

# Until 1972 some zones were seconds off whole minutes; since then every offset is whole minutes.
_WHOLE_MINUTES_FROM_MS = 94_694_400_000  # 1973-01-01
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Buckets:
    """The partitions of a batch.

    Arguments:
        ids: for each row the index of its bucket.
        values: for each bucket the value of each partition column. Every bucket has a row.
        unnameable: the buckets whose directory no file system could name: a value is too long.

    """

    ids: pa.Int32Array
    values: tuple[tuple[str, ...], ...]
    unnameable: frozenset[int] = frozenset()


def split_rows(buckets: Buckets) -> list[tuple[int, pa.UInt64Array | None]]:
    """Return each bucket with its rows, ascending; None: all rows, as there is one bucket.

    Each row is in exactly one of them.
    """
    count = len(buckets.values)
    if count <= 1:
        return [(bucket, None) for bucket in range(count)]
    order = pc.array_sort_indices(buckets.ids)  # stable
    sizes = {each["values"]: each["counts"] for each in pc.value_counts(buckets.ids).to_pylist()}
    check(len(sizes) == count, "a bucket has no row")
    parts, start = [], 0
    for bucket in range(count):
        parts.append((bucket, order.slice(start, sizes[bucket])))
        start += sizes[bucket]
    return parts


@dataclass(frozen=True, slots=True)
class _Coded:
    """One or more partition columns: for each row an index into `values`."""

    codes: pa.Int32Array
    values: list[tuple[str, ...]]


class Bucketer:
    """Assigns buckets to the rows of one table.

    `date`, `hour` and `minute` are those of a time, unless the schema has a column of that name.
    Raises ValueError for a column that is not there or of no fitting type, for an unknown zone, and
    where no column would be left for the files.
    """

    def __init__(self, partition_by: Sequence[str], timezone: str, schema: pa.Schema) -> None:
        self.partition_by = tuple(partition_by)
        try:
            self._zone = ZoneInfo(timezone)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise ValueError(f"timezone {timezone!r} is not known") from None
        if len({name.lower() for name in self.partition_by}) != len(self.partition_by):
            raise ValueError("partition_by has a column twice")
        for name in self.partition_by:
            _check_column(name, schema)
        self._plain = tuple(name for name in self.partition_by if name in schema.names)
        self._times = tuple(name for name in self.partition_by if name not in schema.names)
        order = [*self._times, *self._plain]
        self._order = [order.index(name) for name in self.partition_by]
        self.file_schema = pa.schema([field for field in schema if field.name not in self._plain])
        if not len(self.file_schema):
            raise ValueError("partition_by has every column: the files would have none")

    def assign(self, table: pa.Table, bucket_ms: pa.Int64Array) -> Buckets:
        """Return the buckets of the rows. `bucket_ms` has a time for every row."""
        check(len(bucket_ms) == table.num_rows, "a row has no bucket time")
        check(not bucket_ms.null_count, "a bucket time is null")
        coded = _Coded(pa.nulls(table.num_rows, pa.int32()).fill_null(0), [()])
        if self._times:
            coded = self._code_times(bucket_ms)
        for name in self._plain:
            coded = _combine(coded, _code_plain(table.column(name)))
        values = tuple(tuple(value[i] for i in self._order) for value in coded.values)
        unnameable = frozenset(
            bucket
            for bucket, value in enumerate(values)
            if not all(map(fits_path, self.partition_by, value))
        )
        return Buckets(coded.codes, values if table.num_rows else (), unnameable)

    def assign_one(self, time_ms: int) -> tuple[str, ...]:
        """Return the bucket of a time in a table that is partitioned by times only."""
        check(not self._plain, "a plain column has no value for a time")
        return self._label(time_ms)

    def _code_times(self, bucket_ms: pa.Int64Array) -> _Coded:
        """Find the distinct minutes natively, and ask the zone about those only."""
        slots = _floor(bucket_ms, 60_000)
        oldest = pc.min(bucket_ms).as_py()
        if oldest is not None and oldest < _WHOLE_MINUTES_FROM_MS:
            is_old = pc.less(bucket_ms, _WHOLE_MINUTES_FROM_MS)
            slots = pc.if_else(is_old, _floor(bucket_ms, 1000), slots)
        encoded = slots.dictionary_encode()
        return _merge_equal(
            encoded.indices, [self._label(slot) for slot in encoded.dictionary.to_pylist()]
        )

    def _label(self, time_ms: int) -> tuple[str, ...]:
        local = (_EPOCH + timedelta(milliseconds=time_ms)).astimezone(self._zone)
        texts = {
            "date": local.date().isoformat(),
            "hour": f"{local.hour:02d}",
            "minute": f"{local.minute:02d}",
        }
        return tuple(texts[name] for name in self._times)


def _check_column(name: str, schema: pa.Schema) -> None:
    if name not in schema.names:
        if name not in TIME_COLUMNS:
            raise ValueError(f"partition_by: {name} is neither a column nor date, hour or minute")
        return
    kind = schema.field(name).type
    known = (
        pa.types.is_string,
        pa.types.is_integer,
        pa.types.is_boolean,
        pa.types.is_date,
        pa.types.is_decimal,
    )
    if not any(is_kind(kind) for is_kind in known):
        raise ValueError(f"partition_by: {name} is {kind}; use a string, integer, date or decimal")


def _code_plain(column: pa.ChunkedArray) -> _Coded:
    encoded = column.combine_chunks().dictionary_encode(null_encoding="encode")
    return _merge_equal(
        encoded.indices, [(_hive_text(value),) for value in encoded.dictionary.to_pylist()]
    )


def _hive_text(value: object) -> str:
    """Return a value as Hive and Spark write it in a path."""
    match value:
        case None | "":
            return DEFAULT_PARTITION
        case bool():
            return "true" if value else "false"
        case Decimal():
            return format(value, "f")
        case _:
            return str(value)


def _merge_equal(indices: pa.Int32Array, values: list[tuple[str, ...]]) -> _Coded:
    """Give equal values (null and empty, minutes of one hour) one code."""
    codes = {value: code for code, value in enumerate(dict.fromkeys(values))}
    if len(codes) == len(values):
        return _Coded(indices, values)
    mapping = pa.array([codes[value] for value in values], pa.int32())
    return _Coded(mapping.take(indices), list(codes))


def _combine(left: _Coded, right: _Coded) -> _Coded:
    """Return the pairs that occur."""
    if len(left.values) == 1:  # the usual case: a batch is within one hour
        return _Coded(right.codes, [left.values[0] + value for value in right.values])
    width = len(right.values)
    pairs = pc.add(pc.multiply(left.codes.cast(pa.int64()), width), right.codes.cast(pa.int64()))
    encoded = pairs.dictionary_encode()
    values = [
        left.values[pair // width] + right.values[pair % width]
        for pair in encoded.dictionary.to_pylist()
    ]
    return _Coded(encoded.indices, values)


def _floor(times: pa.Int64Array, step: int) -> pa.Int64Array:
    floors = pc.multiply(pc.divide(times, step), step)  # rounds towards zero
    is_above = pc.greater(floors, times)
    return pc.subtract(floors, pc.multiply(is_above.cast(pa.int64()), step))
