"""Requests and answers as files: who may write them, and what becomes of old ones."""

import os
import stat
import time
from pathlib import Path

import pytest

from ashore.jobs import listener, mailbox
from ashore.jobs.heartbeat import ProcessMark
from ashore.jobs.listener import Listener
from ashore.jobs.mailbox import KEEP_S, AnswerState, Mailbox, Request, RequestAnswer

SOMEBODY = 54_321
REQUEST = Request("a", "stop", "{}", 7, 1, "ann", 1)


@pytest.fixture
def box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mailbox:
    monkeypatch.setenv("ASHORE_HOME", str(tmp_path))
    return Mailbox("clicks", "file:///lake")


def test_a_request_and_its_answers_are_what_was_written(box: Mailbox) -> None:
    box.open()
    assert box.ask(REQUEST)
    assert list(box.requests()) == [("a", REQUEST)]
    for answer in (
        RequestAnswer("a", AnswerState.ACCEPTED),
        RequestAnswer("a", AnswerState.DONE, "42"),
    ):
        box.answer(answer)
        assert box.read_answer("a") == answer
    box.forget("a")
    assert list(box.path.iterdir()) == []
    box.forget("a")


def test_the_directory_is_this_users_alone(box: Mailbox, monkeypatch: pytest.MonkeyPatch) -> None:
    box.path.mkdir(parents=True, mode=0o777)
    box.open()
    assert stat.S_IMODE(box.path.stat().st_mode) == 0o700
    told: list[str] = []
    monkeypatch.setattr(mailbox.os, "geteuid", lambda: SOMEBODY)
    with pytest.raises(PermissionError):
        box.open()
    deaf = Listener(box, ProcessMark(7, 1), {}, told.append)
    deaf.start()
    deaf.end(lambda: "")
    assert len(told) == 1
    assert "cannot be asked" in told[0]


def test_a_link_in_its_place_is_not_followed(box: Mailbox, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o755)
    box.path.parent.mkdir(parents=True)
    box.path.symlink_to(elsewhere)
    with pytest.raises(PermissionError):
        box.open()
    assert stat.S_IMODE(elsewhere.stat().st_mode) == 0o755


def test_requests_of_others_are_passed_over(box: Mailbox, monkeypatch: pytest.MonkeyPatch) -> None:
    box.open()
    box.ask(REQUEST)
    if os.geteuid() == 0:
        os.chown(box.path / "a.request", SOMEBODY, -1)
    else:
        monkeypatch.setattr(mailbox.os, "geteuid", lambda: SOMEBODY)
    assert list(box.requests()) == []


def test_what_nobody_has_taken_away_goes_with_the_next_start(box: Mailbox) -> None:
    box.open()
    box.ask(REQUEST)
    box.answer(RequestAnswer("b", AnswerState.DONE))
    old_s = time.time() - KEEP_S - 1
    os.utime(box.path / "a.request", (old_s, old_s))
    box.open()
    assert [each.name for each in box.path.iterdir()] == ["b.answer"], "somebody may wait for it"


def test_a_request_of_the_last_moment_is_answered(
    box: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "POLL_S", 60.0)
    began: list[str] = []

    def act(text: str) -> str:
        began.append(text)
        return ""

    verbs = {"stop": listener.Verb(act, ends_job=True), "look": listener.Verb(act)}
    own = Listener(box, ProcessMark(7, 1), verbs, lambda _line: None)
    own.start()
    time.sleep(0.1)  # it has looked, and would look again in a minute
    later_ms = round(1000 * time.time()) + 60_000
    for name, verb in (("a", "stop"), ("b", "look")):
        box.ask(Request(name, verb, verb, 7, 1, "ann", later_ms))
    own.end(lambda: "ended")
    assert box.read_answer("a") == RequestAnswer("a", AnswerState.DONE, "ended")
    answer = box.read_answer("b")
    assert answer is not None
    assert (answer.state, answer.code) == (AnswerState.REFUSED, "not-done")
    assert began == ["stop"]
