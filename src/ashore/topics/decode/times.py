"""Times that a file cannot hold: found and refused, or set to null.

What it is: the one rule for DATE, TIMESTAMP and TIMESTAMP_NTZ, wherever they come from: they lie
within the years 1 to 9999, in UTC. ORC holds less, as Arrow writes it: nothing before 1582-10-15,
which Spark and Hive take for days of the Julian calendar, as no file says that it is not; and no
fraction of a second before 1970, whose nanoseconds would be negative: Spark reads no such file.
What it promises: a time that is left is read back as it is, by every reader.
"""

import pyarrow as pa
import pyarrow.compute as pc

from ashore.base.time_format import FIRST_DAY, LAST_DAY, LAST_US
from ashore.topics.decode.wire import either, map_entries

_US_PER_SECOND = 1_000_000
_US_PER_DAY = 86_400 * _US_PER_SECOND
_GREGORIAN_FROM_DAY = -141_427  # 1582-10-15


class TimeInKey(ValueError):
    """A key of a MAP holds a time that cannot be written, and a key cannot be null."""


def find_unwritable(table: pa.Table, extension: str) -> pa.BooleanArray | None:
    """Return the rows that hold a time, at any depth, that a file cannot; None: none does.

    `extension` names the format. Times are in microseconds, dates in days.
    """
    found = None
    for column in table.columns:
        if _has_times(column.type):
            found = either(found, _find(column.combine_chunks(), extension))
    return found


def null_unwritable(column: pa.Array, extension: str) -> tuple[pa.Array, int]:
    """Return a column with null for times that a file cannot hold, and how many these were.

    Raises TimeInKey.
    """
    if not _has_times(column.type) or _find(column, extension) is None:
        return column, 0
    return _null(pa.concat_arrays([column]), extension)  # a copy is no slice, at any depth


def with_writable_times(records: pa.RecordBatch, file_format: str) -> pa.RecordBatch:
    """Return records whose own times are null where a file cannot hold them."""
    times, count = null_unwritable(records.column("timestamp"), file_format)
    if not count:
        return records
    index = records.schema.get_field_index("timestamp")
    return records.set_column(index, "timestamp", times)


def _has_times(data_type: pa.DataType) -> bool:
    if pa.types.is_timestamp(data_type) or pa.types.is_date(data_type):
        return True
    return any(_has_times(data_type.field(i).type) for i in range(data_type.num_fields))


def _find(column: pa.Array, extension: str) -> pa.BooleanArray | None:
    """Return the rows of a column that hold such a time; None: none does."""
    kind = column.type
    if not _has_times(kind):
        return None
    if pa.types.is_struct(kind):
        found = None
        for i in range(kind.num_fields):
            found = either(found, _find(column.field(i), extension))
        return None if found is None else pc.and_(found, column.is_valid())
    if pa.types.is_map(kind):
        return _find(map_entries(column), extension)
    if pa.types.is_list(kind):
        inside = _find(column.flatten(), extension)
        if inside is None:
            return None
        rows = pc.list_parent_indices(column).filter(inside)
        return pc.is_in(pa.array(range(len(column)), rows.type), value_set=rows)
    return _find_times(column, extension)


def _find_times(column: pa.Array, extension: str) -> pa.BooleanArray | None:
    is_date = pa.types.is_date(column.type)
    counts = column.cast(pa.int32() if is_date else pa.int64())
    first, last = _range(extension, is_date=is_date)
    limits = pc.min_max(counts)
    least, most = limits["min"].as_py(), limits["max"].as_py()
    is_whole = extension != "orc" or is_date
    if least is None or (most <= last and least >= (first if is_whole else 0)):
        return None
    found = pc.or_(pc.less(counts, first), pc.greater(counts, last))
    if not is_whole:
        seconds = pc.multiply(pc.divide(counts, _US_PER_SECOND), _US_PER_SECOND)
        found = pc.or_(found, pc.and_(pc.less(counts, 0), pc.not_equal(seconds, counts)))
    found = pc.fill_null(found, False)
    return found if found.true_count else None


def _range(extension: str, *, is_date: bool) -> tuple[int, int]:
    first_day = _GREGORIAN_FROM_DAY if extension == "orc" else FIRST_DAY
    return (first_day, LAST_DAY) if is_date else (first_day * _US_PER_DAY, LAST_US)


def _null(column: pa.Array, extension: str) -> tuple[pa.Array, int]:
    kind = column.type
    if not _has_times(kind):
        return column, 0
    mask = column.is_null() if column.null_count else None
    if pa.types.is_struct(kind):
        parts = [_null(column.field(i), extension) for i in range(kind.num_fields)]
        arrays = [array for array, _ in parts]
        struct = pa.StructArray.from_arrays(arrays, fields=list(kind), mask=mask)
        return struct, sum(count for _, count in parts)
    if pa.types.is_map(kind):
        if _find(column.keys, extension) is not None:
            raise TimeInKey("a time that the table's format cannot hold")
        items, count = _null(column.items, extension)
        return pa.MapArray.from_arrays(
            column.offsets, column.keys, items, type=kind, mask=mask
        ), count
    if pa.types.is_list(kind):
        values, count = _null(column.values, extension)
        return pa.ListArray.from_arrays(column.offsets, values, type=kind, mask=mask), count
    found = _find_times(column, extension)
    if found is None:
        return column, 0
    return pc.if_else(found, pa.scalar(None, kind), column), found.true_count
