"""When a record happened, in one unit.

What it is: the event-time column of a table, whatever its type, as milliseconds since 1970 UTC.
What it promises: rounding is towards the past, so that a bucket never begins too early. A time that
is missing, or that no calendar holds in every zone, is null, and so is a field of a struct that is
null. A column whose own name has a dot is found before a field. What cannot be a time is refused
before a row is read.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ashore.base.time_format import TimeFormat, parse_time_format
from ashore.topics.route.event_columns import EventColumn

PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}

# A day off the ends of years 1 and 9999, so that local time is within them in every zone.
EVENT_MS_MIN = -62_135_510_400_000
EVENT_MS_MAX = 253_402_214_399_999

# From a day before 1970 to March of 1970: the times between 1970 and 2096 come there when they are
# read in a unit that is too small (seconds as milliseconds), and so do 0 and -1.
NEAR_1970_MS = -86_400_000, 5_097_600_000


def is_event_time(data_type: pa.DataType) -> bool:
    """Whether a column of this type can be the time of a record."""
    return bool(
        pa.types.is_signed_integer(data_type)
        or pa.types.is_floating(data_type)
        or pa.types.is_timestamp(data_type)
    )


def event_millis(column: pa.Array | pa.ChunkedArray, unit: str) -> pa.Int64Array:
    """Return event times in ms, null where there is none.

    `unit` is s, ms, us or ns, and says what numbers count; a timestamp knows its own. A timestamp
    without a zone is UTC.
    """
    if unit not in PER_SECOND or not is_event_time(column.type):
        raise ValueError(f"no event time in a column of type {column.type}, unit {unit}")
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if pa.types.is_floating(column.type):
        return _from_floats(column.cast(pa.float64()), 1000 / PER_SECOND[unit])
    if pa.types.is_timestamp(column.type):
        unit = column.type.unit
    counts = column.cast(pa.int64())
    if unit == "s":
        # Out of range before the multiplication, which would overflow.
        return pc.multiply(_within(counts, EVENT_MS_MIN // 1000, EVENT_MS_MAX // 1000), 1000)
    return _within(_floor_divide(counts, PER_SECOND[unit] // 1000), EVENT_MS_MIN, EVENT_MS_MAX)


def _from_floats(times: pa.DoubleArray, factor: float) -> pa.Int64Array:
    millis = _within(pc.floor(pc.multiply(times, factor)), EVENT_MS_MIN, EVENT_MS_MAX)
    return millis.cast(pa.int64())


def _floor_divide(counts: pa.Int64Array, divisor: int) -> pa.Int64Array:
    if divisor == 1:
        return counts
    quotients = pc.divide(counts, divisor)  # rounds towards zero
    is_above = pc.greater(pc.multiply(quotients, divisor), counts)
    return pc.subtract(quotients, is_above.cast(pa.int64()))


def _within(values: pa.Array, low: int, high: int) -> pa.Array:
    limits = pc.min_max(values)
    least, most = limits["min"].as_py(), limits["max"].as_py()
    # Not-a-number is left out of min_max, and equals nothing below: it becomes null.
    is_float = pa.types.is_floating(values.type)
    if not is_float and (least is None or (low <= least and most <= high)):
        return values
    inside = pc.and_(pc.greater_equal(values, low), pc.less_equal(values, high))
    return pc.if_else(inside, values, None)


def check_event_column(event: EventColumn, schema: pa.Schema) -> None:
    """Raise ValueError where rows of this schema do not say their time there."""
    names = find_path(schema, event.path)
    if not names:
        raise ValueError(f"there is no column {event.path} for the event time")
    found: pa.DataType = schema.field(names[0]).type
    for name in names[1:]:
        found = found.field(name).type
    is_text = pa.types.is_string(found)
    if is_text and event.format:
        parse_time_format(event.format)
    elif is_text or event.format or not is_event_time(found):
        raise ValueError(f"column {event.path} cannot be a time: it is {found}")


def read_event_times(event: EventColumn, table: pa.Table) -> pa.Int64Array:
    """Return the event time of each row in ms, null where there is none."""
    first, *below = find_path(table.schema, event.path)
    column = table.column(first).combine_chunks()
    for name in below:
        column = pc.struct_field(column, name)
    if pa.types.is_string(column.type):
        return event_millis(text_millis(column, parse_time_format(event.format)), "ms")
    return event_millis(column, event.unit)


def find_path(schema: pa.Schema | pa.StructType, path: str) -> list[str]:
    """Return the names that lead to a column or a field; empty: there is none."""
    fields: Sequence[pa.Field] = list(schema)
    for field in fields:
        if field.name == path:
            return [field.name]
    for field in fields:
        below = path.removeprefix(f"{field.name}.")
        if below != path and pa.types.is_struct(field.type):
            found = find_path(field.type, below)
            if found:
                return [field.name, *found]
    return []


def text_millis(texts: pa.StringArray, form: TimeFormat) -> pa.Int64Array:
    """Return the times in ms since 1970 UTC, null where a text is none.

    A text is a date that the calendar has, in the format as a whole, or no time. A text without a
    zone is UTC. Digits below a millisecond are cut, which is towards the past.
    """
    found = pc.extract_regex(texts, form.pattern)

    def part(name: str, default: str) -> np.ndarray:
        if name not in form.parts:
            return np.full(len(texts), int(default), np.int64)
        written = pc.fill_null(pc.struct_field(found, name), default)
        written = pc.if_else(pc.equal(written, ""), default, written)
        return np.asarray(written.cast(pa.int64()))

    year, month, day = part("year", "1970"), part("month", "1"), part("day", "1")
    clock_s = (part("hour", "0") * 60 + part("minute", "0")) * 60 + part("second", "0")
    zone_s = (part("zh", "0") * 60 + part("zm", "0")) * 60
    millis = (_days(year, month, day) * 86_400 + clock_s) * 1_000
    millis += _fraction_ms(found, form) - np.where(_is_west(found, form), -zone_s, zone_s) * 1_000
    is_time = np.asarray(found.is_valid()) & (year >= 1) & (month >= 1) & (month <= 12)
    is_time &= (day >= 1) & (day <= _month_days(year, month))
    return pa.array(millis, pa.int64(), mask=~is_time)


def _fraction_ms(found: pa.StructArray, form: TimeFormat) -> np.ndarray:
    if "fraction" not in form.parts:
        return np.zeros(len(found), np.int64)
    digits = pc.fill_null(pc.struct_field(found, "fraction"), "")
    padded = pc.utf8_slice_codeunits(pc.utf8_rpad(digits, 3, "0"), 0, 3)
    return np.asarray(padded.cast(pa.int64()))


def _is_west(found: pa.StructArray, form: TimeFormat) -> np.ndarray:
    if "sign" not in form.parts:
        return np.zeros(len(found), np.bool_)
    return np.asarray(pc.fill_null(pc.equal(pc.struct_field(found, "sign"), "-"), False))


def _month_days(year: np.ndarray, month: np.ndarray) -> np.ndarray:
    days = np.array([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])
    is_leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    found: np.ndarray = days[np.clip(month, 1, 12) - 1] + (is_leap & (month == 2))
    return found


def _days(year: np.ndarray, month: np.ndarray, day: np.ndarray) -> np.ndarray:
    """Return days since 1970-01-01; years begin in March, so that a leap day is their last."""
    shifted = year - (month <= 2)
    in_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    leap_days = shifted // 4 - shifted // 100 + shifted // 400
    found: np.ndarray = shifted * 365 + leap_days + in_year - 719_468
    return found
