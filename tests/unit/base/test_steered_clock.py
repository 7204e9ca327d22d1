"""The clock of drills: steered by a file, from outside, while a process runs."""

import time
from pathlib import Path

import pytest

from ashore.base.clock import SteeredClock, Steering, SystemClock

START_MS = 1_795_000_000_000


def test_time_runs_at_the_speed_of_the_file():
    steering = Steering(real_ms=1_000, shown_ms=START_MS, speed=120)
    assert steering.at(1_000) == START_MS
    assert steering.at(1_500) == START_MS + 60_000
    assert steering.at(500) == START_MS - 60_000  # the machine's clock may go back


def test_a_clock_follows_its_file_while_it_is_in_use(tmp_path: Path):
    file, now_ms = tmp_path / "clock.json", SystemClock().now_ms()
    Steering(now_ms, START_MS).write(file)
    clock = SteeredClock(file)
    assert START_MS <= clock.now_ms() < START_MS + 60_000
    Steering(now_ms, START_MS - 3_600_000, speed=0).write(file)  # back, and it stands still
    assert clock.now_ms() == START_MS - 3_600_000
    assert abs(clock.monotonic_s() - time.monotonic()) < 60  # deadlines stay real
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("text", [None, "", "[]", "{}", '{"real_ms": 1, "shown_ms": "x"}'])
def test_a_file_that_steers_nothing_is_named(tmp_path: Path, text: str | None):
    file = tmp_path / "clock.json"
    if text is not None:
        file.write_text(text, "utf-8")
    with pytest.raises(ValueError, match=r"clock\.json steers"):
        SteeredClock(file)
