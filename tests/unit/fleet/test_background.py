"""A thread that works again and again."""

import threading

import pytest

from ashore.fleet.machine.background import Background

WITHIN_S = 30.0


def test_who_wakes_it_while_it_works_has_it_work_once_more() -> None:
    begun, go_on, calls = threading.Semaphore(0), threading.Semaphore(0), list[int]()

    def work() -> float:
        begun.release()
        assert go_on.acquire(timeout=WITHIN_S)
        calls.append(1)
        return 3600.0

    thread = Background("test", work)
    thread.start()
    assert begun.acquire(timeout=WITHIN_S)
    thread.wake()  # it works: what it looked at may be old already
    go_on.release()
    assert begun.acquire(timeout=WITHIN_S)
    go_on.release()
    thread.end(WITHIN_S)
    assert (len(calls), thread.is_alive) == (2, False)


def test_an_exception_is_said_and_does_not_end_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ashore.fleet.machine.background.FIRST_PAUSE_S", 0.01)
    failures, failed, worked = list[str](), threading.Event(), threading.Event()

    def work() -> float:
        failures.append(thread.failure)
        if not failed.is_set():
            failed.set()
            raise ValueError("a disk is full")
        worked.set()
        return 3600.0

    thread = Background("test", work)
    thread.start()
    assert worked.wait(WITHIN_S)
    thread.end(WITHIN_S)
    assert failures == ["", "ValueError: a disk is full"]
    assert thread.failure == "", "it worked since"
    assert "a disk is full" in capsys.readouterr().err


def test_one_that_never_began_is_ended() -> None:
    Background("test", lambda: 0.0).end()
