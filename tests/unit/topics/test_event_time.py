from datetime import UTC, datetime

import pyarrow as pa
import pytest

from ashore.topics.route.placement import EVENT_MS_MAX, EVENT_MS_MIN, event_millis


@pytest.mark.parametrize(
    ("unit", "given", "expected"),
    [
        ("s", [1, -1, 0], [1000, -1000, 0]),
        ("ms", [1, -1], [1, -1]),
        ("us", [1999, -1, -1000, -1001], [1, -1, -1, -2]),
        ("ns", [1_999_999, -1, -1_000_001], [1, -1, -2]),
    ],
)
def test_numbers_round_towards_the_past(unit, given, expected):
    assert event_millis(pa.array(given, pa.int64()), unit).to_pylist() == expected
    assert event_millis(pa.chunked_array([given, given]), unit).to_pylist() == expected * 2


@pytest.mark.parametrize("unit", ["s", "ms", "us"])
def test_times_that_no_calendar_holds_are_no_times(unit):
    column = pa.array([None, 2**63 - 1, -(2**63), 5], pa.int64())
    assert event_millis(column, unit).to_pylist()[:3] == [None] * 3
    assert event_millis(column, unit)[3].is_valid


def test_the_limits_are_times():
    column = pa.array([EVENT_MS_MIN - 1, EVENT_MS_MIN, EVENT_MS_MAX, EVENT_MS_MAX + 1])
    assert event_millis(column, "ms").to_pylist() == [None, EVENT_MS_MIN, EVENT_MS_MAX, None]


def test_floats_and_other_integers():
    floats = pa.array([1.5, -0.0001, float("nan"), float("inf"), None, 1e300])
    assert event_millis(floats, "s").to_pylist() == [1500, -1, None, None, None, None]
    assert event_millis(floats, "us").to_pylist()[:3] == [0, -1, None]
    assert event_millis(pa.array([7], pa.int32()), "s").to_pylist() == [7000]


@pytest.mark.parametrize(
    "kind", [pa.timestamp("us", "UTC"), pa.timestamp("us"), pa.timestamp("ns")]
)
def test_timestamps_know_their_unit(kind):
    at = datetime(2026, 11, 21, 8, 0, 0, 123999, tzinfo=UTC)
    column = pa.array([at if kind.tz else at.replace(tzinfo=None), None], kind)
    assert event_millis(column, "s").to_pylist() == [int(at.timestamp() * 1000), None]


def test_other_columns_are_refused():
    with pytest.raises(ValueError, match="string"):
        event_millis(pa.array(["2026"]), "ms")
    with pytest.raises(ValueError, match="unit h"):
        event_millis(pa.array([1]), "h")
