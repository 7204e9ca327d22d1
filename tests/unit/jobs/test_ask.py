"""Asking a job process: a real one, which answers, refuses, is frozen and dies."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.frozen import freeze

from ashore.base import codec
from ashore.base.clock import SystemClock
from ashore.cli.run import warn_running
from ashore.errors import AshoreError, JobNotAnswering, JobNotRunning, NotDone, QueryRefused
from ashore.jobs import heartbeat
from ashore.jobs.ask import Patience, RunningJob
from ashore.jobs.heartbeat import Heartbeat, ProcessMark, heartbeat_path
from ashore.jobs.mailbox import AnswerState, Mailbox, Request, RequestAnswer
from ashore_lab.testing import FakeClock

CLOCK = SystemClock()
NAMED = RunningJob("clicks", "file:///lake", CLOCK, lambda _line: None)
QUICK = Patience(done_s=30.0, accepted_s=20.0, silent_s=20.0)  # where an answer is sure to come
HASTY = Patience(done_s=1.0, accepted_s=1.0, silent_s=20.0)
ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASHORE_HOME", str(tmp_path))


@pytest.fixture
def process() -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-m", "tests.unit.proof.asked_job", NAMED.job, NAMED.lake]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "listens\n"
            yield process
        finally:
            process.kill()


def asked(
    verb: str, patience: Patience = QUICK, report: Callable[[str], None] = lambda _line: None
) -> str:
    return replace(NAMED, report=report).ask(verb, "{}", patience)[1]


def files() -> list[str]:
    return sorted(each.name for each in Mailbox(NAMED.job, NAMED.lake).path.iterdir())


def test_it_is_asked_and_answers(process: "subprocess.Popen[str]") -> None:
    told: list[str] = []
    assert [asked("count", report=told.append), asked("count")] == ["1", "2"]
    assert told[0] == f"asked process {process.pid} to count"
    with pytest.raises(QueryRefused, match="not this one") as refused:
        asked("refuse")
    assert refused.value.hint == "another"
    with pytest.raises(NotDone, match="to dance") as unknown:
        asked("dance")
    assert "count, refuse, stop" in unknown.value.hint
    assert asked("stop") == "closed"
    assert process.wait(10) == 0
    assert files() == []
    with pytest.raises(JobNotRunning, match="before it was asked"):
        asked("stop")


def test_a_request_that_arrives_twice_is_done_once(process: "subprocess.Popen[str]") -> None:
    beat, mailbox = NAMED.find_process(), Mailbox(NAMED.job, NAMED.lake)
    request = Request("a", "count", "{}", beat.pid, beat.started_ms, "ann", CLOCK.now_ms() + 60_000)
    assert mailbox.ask(request)
    assert not mailbox.ask(request)
    while (answer := mailbox.read_answer("a")) is None or not answer.is_final:
        time.sleep(0.02)
    mailbox.withdraw("a")
    assert mailbox.ask(request), "as a copy of it would come late"
    assert asked("count") == "2"
    assert mailbox.read_answer("a") == RequestAnswer("a", AnswerState.DONE, "1")


def test_requests_that_nobody_is_to_do_are_not_done(process: "subprocess.Popen[str]") -> None:
    beat, mailbox = NAMED.find_process(), Mailbox(NAMED.job, NAMED.lake)
    mark = ProcessMark(beat.pid, beat.started_ms)
    mailbox.ask(Request("old", "count", "{}", *mark, "ann", CLOCK.now_ms() - 5_000))
    later = CLOCK.now_ms() + 60_000
    mailbox.ask(Request("other", "count", "{}", mark.pid, mark.started_ms - 9, "ann", later))
    (mailbox.path / "wrong.request").write_text("{")
    (mailbox.path / "large.request").write_text("[" * 60_000)
    assert asked("count") == "1"
    answers = {each: mailbox.read_answer(each) for each in ("old", "other", "wrong", "large")}
    assert answers["other"] is None, "it is of another process"
    words = {name: each.message for name, each in answers.items() if each}
    assert "had expired" in words["old"]
    assert "cannot be read" in words["wrong"]
    assert "cannot be read" in words["large"]


def test_one_that_dies_before_it_has_answered(process: "subprocess.Popen[str]") -> None:
    def kill(line: str) -> None:
        if "accepted" in line:
            os.kill(process.pid, signal.SIGKILL)

    with pytest.raises(JobNotRunning, match="it had accepted"):
        asked("wait", report=kill)
    # Nobody has waited for it yet, as of a job whose parent is frozen.
    with pytest.raises(JobNotRunning, match="without an error message"):
        asked("wait")


def test_one_that_is_frozen(process: "subprocess.Popen[str]") -> None:
    freeze(process.pid)
    with pytest.raises(JobNotAnswering, match="has not answered") as silent:
        asked("count", HASTY)
    assert f"kill -9 {process.pid}" in silent.value.hint
    assert files() == [], "what was not read is withdrawn"
    os.kill(process.pid, signal.SIGCONT)
    assert asked("count") == "1"


def test_one_that_takes_longer_than_is_waited_for(process: "subprocess.Popen[str]") -> None:
    with pytest.raises(JobNotAnswering, match="continues with it"):
        asked("wait", replace(QUICK, done_s=0.0))
    told: list[AshoreError] = []

    def wait() -> None:
        try:
            asked("wait")
        except NotDone as error:
            told.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    while not any(each.endswith(".answer") for each in files()):
        time.sleep(0.02)
    assert asked("stop") == "closed", "what is under way does not keep it"
    waiting.join(20)
    assert "before it was done" in str(told[0])


def write_beat(**more: object) -> Heartbeat:
    beat = Heartbeat(NAMED.job, NAMED.lake, "elsewhere", 7, 1, 10_000, "idle", 1)
    found = replace(beat, **more)
    path = heartbeat_path(NAMED.job, NAMED.lake)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(codec.encode_object(found)))
    return found


class Beating(FakeClock):
    """A clock during whose sleeps a process on another machine beats."""

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        write_beat(beat_ms=10_001)


def test_one_of_another_machine_is_known_by_its_beats() -> None:
    write_beat()
    with pytest.raises(JobNotAnswering, match="on elsewhere has") as silent:
        replace(NAMED, clock=FakeClock()).find_process()
    assert "look on elsewhere" in silent.value.hint
    assert replace(NAMED, clock=Beating()).find_process().beat_ms == 10_001, (
        "its clock may be another"
    )


@pytest.mark.parametrize(
    ("more", "runs"),
    [
        ({}, True),
        ({"beat_ms": -1}, False),
        ({"ended": "stopped"}, False),
        ({"host": heartbeat.socket.gethostname(), "pid": 1 << 30}, False),
    ],
    ids=["beats", "silent", "ended", "gone"],
)
def test_who_starts_a_job_learns_that_it_runs(
    more: dict[str, object], runs: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = FakeClock()
    write_beat(**{"beat_ms": clock.now_ms(), **more})
    found = replace(NAMED, clock=clock).find_beating()
    assert (found is not None) is runs
    warn_running(replace(NAMED, clock=clock))
    said = " ".join(capsys.readouterr().err.split())
    wanted = "running on elsewhere, process 7"
    assert (wanted in said) is runs


def test_one_of_an_earlier_release_cannot_be_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    own = write_beat(host=heartbeat.socket.gethostname(), pid=os.getpid(), beat_ms=CLOCK.now_ms())
    monkeypatch.setattr(Heartbeat, "is_alive", True)
    with pytest.raises(JobNotAnswering, match="cannot be asked anything") as refused:
        asked("stop")
    assert f"kill {own.pid}" in refused.value.hint


def test_there_is_none() -> None:
    with pytest.raises(JobNotRunning, match="no heartbeat"):
        asked("stop")
