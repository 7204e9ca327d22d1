"""Partition transforms, compared with the examples of the specification and with pyiceberg."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg import types as iceberg
from pyiceberg.transforms import parse_transform as parse_iceberg
from tests.examples import examples

from ashore.tables.names import DEFAULT_PARTITION, parse_partition_path, partition_path
from ashore.tables.transforms import Transform, parse_transform, read_value
from ashore.topics.route.placement import Bucketer
from ashore.topics.route.transforms import NO_VALUE, check_source, transform_texts

LONGS = st.integers(-(1 << 63), (1 << 63) - 1)
INTS = st.integers(-(1 << 31), (1 << 31) - 1)
INSTANTS = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31))  # noqa: DTZ001 - UTC
BELOW = object()  # what a type has no value for
TYPES = {  # Arrow's, Iceberg's, DDL, values
    "long": (pa.int64(), iceberg.LongType(), "BIGINT", LONGS),
    "int": (pa.int32(), iceberg.IntegerType(), "INT", INTS),
    "string": (pa.string(), iceberg.StringType(), "STRING", st.text()),
    "binary": (pa.binary(), iceberg.BinaryType(), "BINARY", st.binary()),
    "date": (pa.date32(), iceberg.DateType(), "DATE", st.dates()),
    "instant": (pa.timestamp("us", "UTC"), iceberg.TimestamptzType(), "TIMESTAMP", INSTANTS),
    "wall": (pa.timestamp("us"), iceberg.TimestampType(), "TIMESTAMP_NTZ", INSTANTS),
    "decimal": (
        pa.decimal128(38, 2),
        iceberg.DecimalType(38, 2),
        "DECIMAL(38,2)",
        st.integers(-(10**36), 10**36).map(lambda n: Decimal(f"{n}e-2")),
    ),
}
CASES = [
    *((f"{kind}(c)", name) for kind in ("year", "month", "day") for name in ("date", "instant")),
    *((f"{kind}(c)", "wall") for kind in ("day", "hour")),
    ("hour(c)", "instant"),
    *((f"bucket({n}, c)", name) for n in (1, 7, 16) for name in TYPES),
    *((f"truncate({w}, c)", n) for w in (1, 3, 10, 64) for n in ("long", "int", "string")),
    ("truncate(50, c)", "decimal"),
]


def computed(transform: Transform, column: pa.Array, ddl: str) -> list[object]:
    """Return the values that a commit reads from the log."""
    indices, texts = transform_texts(transform, column)
    found = list[object]()
    for text in (texts[index] for index in indices.to_pylist()):
        if text == NO_VALUE:
            found.append(BELOW)
        elif text == DEFAULT_PARTITION:
            found.append(None)
        else:
            path = partition_path([transform.field], [text])
            ((name, there),) = parse_partition_path(path)
            assert name == transform.field
            found.append(read_value(transform, ddl, there))
    return found


@pytest.mark.parametrize(("spelling", "name"), CASES)
def test_values_are_those_of_another_implementation(spelling: str, name: str) -> None:
    arrow, of_iceberg, ddl, values = TYPES[name]
    transform = parse_transform(spelling)
    assert transform is not None
    other = parse_iceberg(transform.iceberg).transform(of_iceberg)

    @settings(max_examples=examples(150))
    @given(st.lists(st.none() | values))
    def compare(rows: list[object]) -> None:
        found = computed(transform, pa.array(rows, arrow), ddl)
        expected = [other(_with_zone(row, name)) for row in rows]
        for mine, theirs in zip(found, expected, strict=True):
            if mine is BELOW:
                least = -(1 << 63) if name == "long" else -(1 << 31)
                assert theirs < least
            else:
                assert mine == theirs

    compare()


def _with_zone(row: object, name: str) -> object:
    return row.replace(tzinfo=UTC) if isinstance(row, datetime) and name == "instant" else row


MOMENT = datetime(2017, 11, 16, 22, 31, 8, tzinfo=UTC)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [  # appendix B of the specification
        ("int", 34, 2017239379),
        ("long", 34, 2017239379),
        ("decimal", Decimal("14.20"), -500754589),
        ("date", date(2017, 11, 16), -653330422),
        ("wall", MOMENT.replace(tzinfo=None), -2047944441),
        ("instant", MOMENT, -2047944441),
        ("instant", MOMENT + timedelta(microseconds=1), -1207196810),
        ("string", "iceberg", 1210000089),
        ("binary", b"\x00\x01\x02\x03", -188683207),
    ],
)
def test_hashes_are_those_of_the_specification(name: str, value: object, expected: int) -> None:
    arrow, _, ddl, _ = TYPES[name]
    most = (1 << 31) - 1
    found = computed(Transform("bucket", "c", most), pa.array([value], arrow), ddl)
    assert found == [(expected & most) % most]


@pytest.mark.parametrize(
    ("name", "width", "value", "expected"),
    [
        ("int", 10, 1, 0),
        ("int", 10, -1, -10),
        ("long", 10, -1, -10),
        ("decimal", 50, Decimal("10.65"), Decimal("10.50")),
        ("decimal", 50, Decimal("-0.05"), Decimal("-0.50")),
        ("string", 3, "iceberg", "ice"),
        ("string", 3, "", ""),
        ("string", 30, DEFAULT_PARTITION, DEFAULT_PARTITION),
        ("string", 1, '"a', '"'),
        ("string", 2, "𝛼𝛽𝛾", "𝛼𝛽"),
    ],
)
def test_truncation_is_that_of_the_specification(
    name: str, width: int, value: object, expected: object
) -> None:
    arrow, _, ddl, _ = TYPES[name]
    assert computed(Transform("truncate", "c", width), pa.array([value], arrow), ddl) == [expected]


@pytest.mark.parametrize(
    ("kind", "expected"), [("year", -1), ("month", -1), ("day", -1), ("hour", -1)]
)
def test_times_before_1970_are_floored(kind: str, expected: int) -> None:
    last = datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
    arrow, _, ddl, _ = TYPES["instant"]
    assert computed(Transform(kind, "c"), pa.array([last], arrow), ddl) == [expected]


@pytest.mark.parametrize(
    "text", ["day(ts)", "bucket(16, id)", "truncate(4, name)", "hour(ts)", "DAY( ts )"]
)
def test_a_spelling_gives_the_transform_back(text: str) -> None:
    found = parse_transform(text)
    assert parse_transform(str(found)) == found


@pytest.mark.parametrize(
    "text", ["day(3, ts)", "bucket(id)", "bucket(0, id)", "bucket(16", "week(ts)", "day(a.b)"]
)
def test_other_spellings_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"takes a number|is not one of"):
        parse_transform(text)


def test_types_without_a_transform_are_refused() -> None:
    for spelling, kind in (
        ("day(c)", pa.int64()),
        ("hour(c)", pa.date32()),
        ("bucket(4, c)", pa.float64()),
        ("bucket(4, c)", pa.bool_()),
        ("truncate(4, c)", pa.binary()),
    ):
        transform = parse_transform(spelling)
        assert transform is not None
        with pytest.raises(ValueError, match="cannot be computed"):
            check_source(transform, kind)


def test_rows_are_in_one_bucket_for_each_value_and_keep_the_column() -> None:
    schema = pa.schema([("id", pa.int32()), ("country", pa.string())])
    rows = [{"id": -(1 << 31), "country": "de"}, {"id": 7, "country": "de"}, {"id": None}]
    bucketer = Bucketer(["truncate(10, id)", "country"], "UTC", schema)
    buckets = bucketer.assign(pa.Table.from_pylist(rows, schema), pa.array([0, 0, 0], pa.int64()))
    assert bucketer.partition_by == ("id_trunc", "country")
    assert bucketer.file_schema.names == ["id"]
    values = [buckets.values[bucket] for bucket in buckets.ids.to_pylist()]
    assert values[1:] == [("0", "de"), (DEFAULT_PARTITION, DEFAULT_PARTITION)]
    assert buckets.unnameable == {buckets.ids[0].as_py()}, "an int has no such value"
