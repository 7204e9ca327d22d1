"""Time that a test moves."""

import pytest

from ashore.errors import InvariantBroken
from ashore_lab.testing import FakeClock


def test_time_passes_when_reported() -> None:
    clock = FakeClock(start_ms=1_000, monotonic_start_s=5)
    clock.advance(1.5)
    clock.sleep(0.5)
    assert clock.now_ms() == 3_000
    assert clock.monotonic_s() == 7


def test_the_wall_clock_may_jump_and_the_monotonic_one_does_not() -> None:
    clock = FakeClock(start_ms=10_000, monotonic_start_s=0)
    clock.jump_wall(-4)
    assert clock.now_ms() == 6_000
    assert clock.monotonic_s() == 0
    with pytest.raises(InvariantBroken):
        clock.advance(-1)


def test_monotonic_time_starts_anywhere() -> None:
    assert FakeClock().monotonic_s() != FakeClock().monotonic_s()
