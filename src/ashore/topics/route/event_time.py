"""When a record happened, in one unit.

What it is: the event-time column of a table, whatever its type, as milliseconds since 1970 UTC.
What it promises: rounding is towards the past, so that a bucket never begins too early. A time that
is missing, or that no calendar holds in every zone, is null.
"""

import pyarrow as pa
import pyarrow.compute as pc

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
