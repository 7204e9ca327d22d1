from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from ashore.tables.names import DEFAULT_PARTITION
from ashore.topics.route.placement import Bucketer

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("country", pa.string()),
        ("day", pa.date32()),
        ("price", pa.decimal128(10, 2)),
        ("flag", pa.bool_()),
        ("x", pa.float64()),
    ]
)


def millis(text):
    return int(datetime.fromisoformat(text).timestamp() * 1000)


def assigned(partition_by, zone, times, rows=None):
    table = pa.Table.from_pylist(rows or [{} for _ in times], schema=SCHEMA)
    buckets = Bucketer(partition_by, zone, SCHEMA).assign(table, pa.array(times, pa.int64()))
    assert sorted(set(buckets.ids.to_pylist())) == list(range(len(buckets.values)))
    return [buckets.values[bucket] for bucket in buckets.ids.to_pylist()]


def test_times_are_in_the_zone_of_the_table():
    times = [millis("2026-11-21T15:59:59.999Z"), millis("2026-11-21T16:00:00Z")]
    by = ["date", "hour", "minute"]
    assert assigned(by, "Asia/Shanghai", times) == [
        ("2026-11-21", "23", "59"),
        ("2026-11-22", "00", "00"),
    ]
    assert assigned(["hour", "date"], "UTC", times) == [("15", "2026-11-21"), ("16", "2026-11-21")]


def test_the_hour_that_is_there_twice_is_one_bucket():
    first, second = millis("2026-10-25T00:30:00Z"), millis("2026-10-25T01:30:00Z")
    both = assigned(["date", "hour"], "Europe/Berlin", [first, second])
    assert both == [("2026-10-25", "02")] * 2


@pytest.mark.parametrize(
    ("zone", "time", "expected"),
    [
        ("Asia/Shanghai", "1890-12-31T15:54:17+00:00", ("1891-01-01", "00")),  # +08:05:43
        ("Asia/Shanghai", "1890-12-31T15:54:16+00:00", ("1890-12-31", "23")),
        ("Africa/Monrovia", "1971-12-31T23:44:30+00:00", ("1971-12-31", "23")),  # -00:44:30
        ("Asia/Kathmandu", "2026-01-01T18:15:00+00:00", ("2026-01-02", "00")),
        ("UTC", "0001-01-02T00:00:00+00:00", ("0001-01-02", "00")),
    ],
)
def test_odd_offsets(zone, time, expected):
    early = datetime.fromisoformat(time) - datetime(1970, 1, 1, tzinfo=UTC)
    times = [early.days * 86_400_000 + early.seconds * 1000]
    assert assigned(["date", "hour"], zone, times) == [expected]


def test_plain_columns_are_written_as_hive_does():
    rows = [
        {
            "country": "DE",
            "id": -7,
            "day": date(2026, 1, 2),
            "price": Decimal("1.50"),
            "flag": True,
        },
        {"country": "", "flag": False},
        {"country": None},
    ]
    by = ["country", "day", "price", "flag"]
    empty = DEFAULT_PARTITION
    assert assigned(by, "UTC", [0, 0, 0], rows) == [
        ("DE", "2026-01-02", "1.50", "true"),
        (empty, empty, empty, "false"),
        (empty, empty, empty, empty),
    ]
    assert assigned(["id"], "UTC", [0], rows[:1]) == [("-7",)]


def test_times_and_columns_may_be_mixed():
    rows = [{"country": country} for country in ["DE", "CN", "DE", "DE"]]
    times = [0, 0, 3_600_000, 60_000]
    assert assigned(["country", "date", "hour"], "UTC", times, rows) == [
        ("DE", "1970-01-01", "00"),
        ("CN", "1970-01-01", "00"),
        ("DE", "1970-01-01", "01"),
        ("DE", "1970-01-01", "00"),
    ]


def test_without_partitions_there_is_one_bucket():
    assert assigned([], "UTC", [0, 5]) == [(), ()]
    assert assigned([], "UTC", []) == []
    assert assigned(["date", "country"], "UTC", []) == []


def test_a_value_that_no_directory_can_be_named_after_is_reported():
    rows = [{"country": "x" * 247}, {"country": "x" * 248}, {"country": "%" * 90}]
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    buckets = Bucketer(["country"], "UTC", SCHEMA).assign(table, pa.array([0, 0, 0]))
    assert buckets.unnameable == {1, 2}


def test_partition_columns_are_not_in_the_files():
    bucketer = Bucketer(["date", "country"], "UTC", SCHEMA)
    assert bucketer.file_schema.names == ["id", "day", "price", "flag", "x"]
    named_date = pa.schema([("date", pa.string()), ("id", pa.int64())])
    bucketer = Bucketer(["date"], "UTC", named_date)
    table = pa.Table.from_pylist([{"date": "mine", "id": 1}], schema=named_date)
    assert bucketer.assign(table, pa.array([0])).values == (("mine",),)
    assert bucketer.file_schema.names == ["id"]


@pytest.mark.parametrize(
    ("by", "zone", "says"),
    [
        (["nope"], "UTC", "nope is neither"),
        (["x"], "UTC", "x is double"),
        (["date"], "Mars/Phobos", "Mars/Phobos"),
        (["date"], "../etc/passwd", "not known"),
        (["date", "Date"], "UTC", "twice"),
        (["id", "country", "day", "price", "flag"], "UTC", None),
    ],
)
def test_what_cannot_be_is_refused(by, zone, says):
    if says is None:
        with pytest.raises(ValueError, match="every column"):
            Bucketer(by, zone, SCHEMA.remove(5))
    else:
        with pytest.raises(ValueError, match=says):
            Bucketer(by, zone, SCHEMA)
