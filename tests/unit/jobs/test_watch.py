"""A job process that is silent is told of, and killed when patience ends."""

import threading

import pytest

from ashore.topics.use import run_job as run
from ashore.topics.use.run_job import Watch

PATIENCE_S = 0.4


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "LOOK_S", 0.02)
    monkeypatch.setattr(run, "REPORTED_AFTER_S", 0.1)


class Process:
    def __init__(self) -> None:
        self.lines_read = 0
        self.has_ended = False
        self.killed = threading.Event()

    def kill(self) -> None:
        self.killed.set()


def test_a_silent_process_is_reported_of_once_and_killed() -> None:
    process, reported = Process(), list[str]()
    process.lines_read = 1
    with Watch(process, PATIENCE_S, reported.append):
        assert process.killed.wait(10)
    assert len(reported) == 2
    assert "frozen, or it hangs" in reported[0]
    assert reported[1].endswith("it is killed")


def test_a_process_that_says_nothing_at_first_has_patience_too() -> None:
    process, reported = Process(), list[str]()
    with Watch(process, PATIENCE_S, reported.append):
        assert process.killed.wait(10)
    assert len(reported) == 1


def test_a_process_that_has_reported_its_end_is_not_called_frozen() -> None:
    process, reported = Process(), list[str]()
    process.lines_read, process.has_ended = 1, True
    with Watch(process, PATIENCE_S, reported.append):
        assert process.killed.wait(10)
    assert [each.endswith("it is killed") for each in reported] == [True]


def test_a_process_that_answers_again_lives() -> None:
    process, reported = Process(), list[str]()
    is_reported = threading.Event()

    def report(message: str) -> None:
        reported.append(message)
        is_reported.set()

    process.lines_read = 1
    with Watch(process, 60, report):
        assert is_reported.wait(10)
        is_reported.clear()
        process.lines_read += 1
        assert is_reported.wait(10)
    assert not process.killed.is_set()
    assert reported[1].endswith("responds again")
