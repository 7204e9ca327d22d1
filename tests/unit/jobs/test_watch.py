"""A job process that is silent is told of, and killed when patience ends."""

import threading

import pytest

from ashore.jobs import watch
from ashore.jobs.watch import Watch

PATIENCE_S = 0.4


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "LOOK_S", 0.02)
    monkeypatch.setattr(watch, "TOLD_AFTER_S", 0.1)


class Process:
    def __init__(self) -> None:
        self.lines_heard = 0
        self.killed = threading.Event()

    def kill(self) -> None:
        self.killed.set()


def test_a_silent_process_is_told_of_once_and_killed() -> None:
    process, told = Process(), list[str]()
    process.lines_heard = 1
    with Watch(process, PATIENCE_S, told.append):
        assert process.killed.wait(10)
    assert len(told) == 2
    assert "frozen, or it hangs" in told[0]
    assert told[1].endswith("it is killed")


def test_a_process_that_says_nothing_at_first_has_patience_too() -> None:
    process, told = Process(), list[str]()
    with Watch(process, PATIENCE_S, told.append):
        assert process.killed.wait(10)
    assert len(told) == 1


def test_a_process_that_answers_again_lives() -> None:
    process, told = Process(), list[str]()
    is_told = threading.Event()

    def tell(message: str) -> None:
        told.append(message)
        is_told.set()

    process.lines_heard = 1
    with Watch(process, 60, tell):
        assert is_told.wait(10)
        is_told.clear()
        process.lines_heard += 1
        assert is_told.wait(10)
    assert not process.killed.is_set()
    assert told[1] == "the job process answers again"
