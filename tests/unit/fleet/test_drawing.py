"""Charts: round numbers and times on the axes, and the line within the picture."""

import re

import pytest

from ashore.fleet.server.pages.drawing import (
    CHART_HEIGHT,
    CHART_WIDTH,
    TIMES_MAX,
    chart,
    time_ticks,
    value_ticks,
)

NOON_MS = 1_767_268_800_000  # 2026-01-01 12:00 UTC


@pytest.mark.parametrize(
    ("top", "expected"),
    [(100, [0, 50, 100]), (1_234, [0, 500, 1_000]), (3, [0, 1, 2, 3]), (0.3, [0, 0.1, 0.2, 0.3])],
)
def test_numbers_on_the_axis_are_round(top: float, expected: list[float]) -> None:
    assert value_ticks(top) == expected


@pytest.mark.parametrize("span_ms", [900, 5_000, 61_000, 3_600_000, 86_400_000, 604_800_000])
def test_times_on_the_axis_are_few_and_inside(span_ms: int) -> None:
    found = time_ticks(NOON_MS + 123, NOON_MS + 123 + span_ms)
    assert len(found) <= TIMES_MAX + 1
    assert all(NOON_MS + 123 <= each <= NOON_MS + 123 + span_ms for each in found)


def test_a_chart_has_axes_and_a_gap_where_nothing_was_known() -> None:
    times = [NOON_MS + 60_000 * each for each in range(61)]
    values = [None if each == 30 else float(each) for each in range(61)]
    found = chart(times, values, "lag <x>")
    assert found.count("M") - found.count('class="grid"') == 2, "two lines, around the gap"
    assert ">12:30</text>" in found
    assert ">20</text>" in found
    assert "lag &lt;x&gt; from 12:00:00 to 13:00:00 UTC, at most 60" in found
    line = re.search(r'class="line" d="([^"]*)"', found)
    assert line is not None
    for x, y in re.findall(r"[ML]([\d.]+),([\d.]+)", line[1]):
        assert float(x) <= CHART_WIDTH
        assert float(y) <= CHART_HEIGHT


def test_one_value_or_one_moment_makes_no_chart() -> None:
    assert chart([1], [1.0], "x") == ""
    assert chart([1, 1], [1.0, 2.0], "x") == ""
    assert chart([1, 2], [None, 2.0], "x") == ""
