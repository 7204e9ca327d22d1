"""Where a row is filed: when its record happened, the late policy, and the partition.

What it is: the event-time column of a table, whatever its type, as milliseconds since 1970 UTC;
the late policy of the table, applied to the event times of a batch; and the values of the partition
columns for each row: `date`, `hour` and `minute` of a time in the table's zone, and columns of the
table.
What it promises: rounding is towards the past, so that a bucket never begins too early. A time that
is missing, or that no calendar holds in every zone, is null, and so is a field of a struct that is
null. A column whose own name has a dot is found before a field. What cannot be a time is refused
before a row is read. Every row is filed under a time, so every row has a bucket. It depends on
nothing but the arguments: a batch that is written again is filed the same way. Values of partition
columns are the strings that stand in paths, before escaping. Partition columns are not part of the
files: readers take them from the path, and Hive cannot have them twice.

A record is *late* if it happened more than `after_ms` before the watermark, the highest event time
that was landed before this batch; *future* if it happened more than `future_max_ms` after the
batch's `now_ms`; *untimed* if it has no event time. In a query Spark decides what is late, by the
watermark of `queries/spark/sql/views`. The policy for them:

| policy | late                 | future               | untimed        |
|--------|----------------------|----------------------|----------------|
| rehome | current bucket       | current bucket       | current bucket |
| keep   | own bucket, see below| current bucket       | current bucket |
| side   | side, current bucket | side, current bucket | current bucket |

`keep` reaches back `keep_ms` from `now_ms`, as far as the log remembers sealed partitions: what is
older goes to the side, current bucket.

The current bucket is that of `now_ms`. Side rows get it too, so that a late table has no more
partitions than time has passed, whatever the records say.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ashore.base.time_format import TimeFormat, parse_time_format
from ashore.errors import check
from ashore.tables.names import DEFAULT_PARTITION, fits_path
from ashore.tables.transforms import Transform, find_transforms, partition_name
from ashore.topics.route.event_columns import EventColumn
from ashore.topics.route.transforms import NO_VALUE, check_source, transform_texts

PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}

# A day off the ends of years 1 and 9999, so that local time is within them in every zone.
EVENT_MS_MIN = -62_135_510_400_000
EVENT_MS_MAX = 253_402_214_399_999

# From a day before 1970 to March of 1970: the times between 1970 and 2096 come there when they are
# read in a unit that is too small (seconds as milliseconds), and so do 0 and -1.
NEAR_1970_MS = -86_400_000, 5_097_600_000

POLICIES = ("rehome", "keep", "side")


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


@dataclass(frozen=True, slots=True)
class Lateness:
    """A late policy and the times of one batch. Raises ValueError for an unknown policy."""

    policy: str
    after_ms: int
    future_max_ms: int
    now_ms: int
    watermark_ms: int | None  # None: nothing was landed yet, nothing is late
    keep_ms: int | None = None  # how far back `keep` reaches; None: as far as there is

    def __post_init__(self) -> None:
        if self.policy not in POLICIES:
            raise ValueError(f"late: policy {self.policy} is not one of {', '.join(POLICIES)}")


@dataclass(frozen=True, slots=True)
class Placement:
    """What the rows of a batch are filed under."""

    bucket_ms: pa.Int64Array  # never null
    side: pa.BooleanArray | None  # rows for the late table; None: none
    late: int
    future: int
    untimed: int
    near_1970: int = 0  # in `NEAR_1970_MS`: wherever they are filed


def place(event_ms: pa.Int64Array, lateness: Lateness) -> Placement:
    """Return the bucket time of each row. `event_ms` as from `event_millis`."""
    after = lateness.now_ms + lateness.future_max_ms
    before = None
    if lateness.watermark_ms is not None:
        before = lateness.watermark_ms - lateness.after_ms
    limits = pc.min_max(event_ms)
    least, most = limits["min"].as_py(), limits["max"].as_py()
    oldest = None
    if lateness.policy == "keep" and lateness.keep_ms is not None:
        oldest = lateness.now_ms - lateness.keep_ms
    floors = [each for each in (before, oldest) if each is not None]
    is_usual = least is not None and most <= after and all(least >= each for each in floors)
    near_1970 = _count_near_1970(event_ms, least)
    if is_usual and not event_ms.null_count:
        return Placement(event_ms, None, 0, 0, 0, near_1970)

    none = pa.scalar(False)
    is_late = pc.less(event_ms, before) if before is not None else pc.and_(event_ms.is_null(), none)
    is_late = pc.fill_null(is_late, none)
    is_future = pc.and_not(pc.fill_null(pc.greater(event_ms, after), none), is_late)
    untimed = event_ms.is_null()
    moved = pc.or_(is_future, untimed)
    side = None
    if lateness.policy != "keep":
        moved = pc.or_(moved, is_late)
    if lateness.policy == "side":
        side = pc.or_(is_late, is_future)
    if oldest is not None:
        side = pc.fill_null(pc.less(event_ms, oldest), none)
        moved = pc.or_(moved, side)
    bucket_ms = pc.if_else(moved, pa.scalar(lateness.now_ms, pa.int64()), event_ms)
    return Placement(
        bucket_ms,
        side if side is not None and side.true_count else None,
        late=is_late.true_count,
        future=is_future.true_count,
        untimed=untimed.true_count,
        near_1970=near_1970,
    )


def _count_near_1970(event_ms: pa.Int64Array, least: int | None) -> int:
    """Return how many times are near 1970; `least`: the lowest one, which mostly answers it."""
    low, high = NEAR_1970_MS
    if least is None or least >= high:
        return 0
    inside = pc.and_(pc.greater_equal(event_ms, low), pc.less(event_ms, high))
    return int(inside.true_count)


# ---- partitions

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
        unnameable: the buckets whose directory no file system could name: a value is too long, or
            a transform has none.

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
    The column of a transform stays in the files. `partition_by` has the names of directories.
    Raises ValueError for a column that is not there or of no fitting type, for an unknown zone, and
    where no column would be left for the files.
    """

    def __init__(self, partition_by: Sequence[str], timezone: str, schema: pa.Schema) -> None:
        self.partition_by = tuple(map(partition_name, partition_by))
        try:
            self._zone = ZoneInfo(timezone)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise ValueError(f"timezone {timezone!r} is not known") from None
        if len({name.lower() for name in self.partition_by}) != len(self.partition_by):
            raise ValueError("partition_by has a column twice")
        self._transforms = find_transforms(partition_by)
        fields = [each.field for each in self._transforms]
        for name in self.partition_by:
            if name not in fields:
                _check_column(name, schema)
        for each in self._transforms:
            _check_transform(each, schema)
        self._plain = tuple(name for name in self.partition_by if name in schema.names)
        known = {*self._plain, *fields}
        self._times = tuple(name for name in self.partition_by if name not in known)
        order = [*self._times, *self._plain, *fields]
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
        for each in self._transforms:
            coded = _combine(coded, _code_transform(each, table.column(each.column)))
        values = tuple(tuple(value[i] for i in self._order) for value in coded.values)
        unnameable = frozenset(
            bucket
            for bucket, value in enumerate(values)
            if NO_VALUE in value or not all(map(fits_path, self.partition_by, value))
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


def _check_transform(transform: Transform, schema: pa.Schema) -> None:
    if transform.column not in schema.names:
        raise ValueError(f"partition_by: {transform}: {transform.column} is not a column")
    if transform.field in schema.names:
        raise ValueError(f"partition_by: {transform} is called {transform.field}, as a column is")
    check_source(transform, schema.field(transform.column).type)


def _code_transform(transform: Transform, column: pa.ChunkedArray) -> _Coded:
    indices, texts = transform_texts(transform, column.combine_chunks())
    return _merge_equal(indices, [(text,) for text in texts])


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
