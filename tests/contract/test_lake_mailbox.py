"""A mailbox in the lake, on every storage: what a job is asked, and what it answers."""

# ruff: noqa: F811 -- fixtures are parameters
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.contract.test_storage_contract import bare, storage  # noqa: F401 - fixtures

from ashore.base.clock import SystemClock
from ashore.errors import JobNotAnswering, JobNotRunning, NotDone, QueryRefused
from ashore.jobs import ask
from ashore.jobs.ask import Patience, RunningJob
from ashore.jobs.heartbeat import Heart, Heartbeat, ProcessMark
from ashore.jobs.lake_mailbox import LakeMailbox
from ashore.jobs.listener import Listener, Verb
from ashore.jobs.mailbox import AnswerState, Request, RequestAnswer
from ashore.storage import MemoryStorage, Storage
from ashore_lab.testing import FakeClock

PATIENCE = Patience(done_s=60.0)
CLOCK = SystemClock()


@pytest.fixture(autouse=True)
def quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASHORE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(LakeMailbox, "poll_s", 0.02)
    monkeypatch.setattr(LakeMailbox, "look_s", 0.02)


@pytest.fixture
def own() -> Heartbeat:
    return Heart("clicks", "file:///lake", lambda: ("idle", 0), lambda: None).last


@pytest.fixture
def job(storage: Storage) -> RunningJob:
    box = LakeMailbox(storage, "clicks")
    return RunningJob("clicks", "file:///lake", CLOCK, lambda _line: None, lambda: box)


@pytest.fixture
def listening(storage: Storage, own: Heartbeat) -> Iterator[Callable[[], list[str]]]:
    counted: list[str] = []

    def count(text: str) -> str:
        counted.append(text)
        return json.dumps(len(counted))

    def refuse(_text: str) -> str:
        raise QueryRefused("not this one", hint="another")

    verbs = {
        "count": Verb(count),
        "refuse": Verb(refuse),
        "stop": Verb(lambda _text: "", ends_job=True),
    }
    box = LakeMailbox(storage, "clicks", own)
    listener = Listener(box, own_mark(own), verbs, lambda _line: None)
    listener.start()
    while LakeMailbox(storage, "clicks").find_process() is None:
        CLOCK.sleep(0.01)
    yield lambda: counted
    listener.end(lambda: "ended")


def own_mark(own: Heartbeat) -> ProcessMark:
    return ProcessMark(own.pid, own.started_ms)


def test_a_job_without_a_heartbeat_here_is_asked_by_its_lake(
    job: RunningJob, listening: Callable[[], list[str]], storage: Storage
) -> None:
    assert [job.ask("count", "{}", PATIENCE)[1] for _ in range(2)] == ["1", "2"]
    with pytest.raises(QueryRefused, match="not this one"):
        job.ask("refuse", "{}", PATIENCE)
    with pytest.raises(NotDone, match="to dance"):
        job.ask("dance", "{}", PATIENCE)
    files = [each.path.rpartition(".")[2] for each in storage.list(".ashore/clicks/_requests")]
    assert files == ["process"], "requests and answers are taken away"


def test_a_request_that_arrives_twice_is_done_once_and_an_expired_one_is_refused(
    listening: Callable[[], list[str]], storage: Storage, own: Heartbeat
) -> None:
    box, later_ms = LakeMailbox(storage, "clicks"), CLOCK.now_ms() + 60_000
    request = Request("a", "count", "{}", own.pid, own.started_ms, "ann", later_ms)
    assert box.ask(request)
    assert not box.ask(request)
    box.ask(replace(request, id="old", expires_ms=1))
    box.ask(replace(request, id="other", pid=own.pid + 1))
    for name in ("a", "old"):
        while (answer := box.read_answer(name)) is None or not answer.is_final:
            CLOCK.sleep(0.01)
    assert box.read_answer("a") == RequestAnswer("a", AnswerState.DONE, "1")
    box.withdraw("a")
    assert box.ask(request), "as a copy of it would come late"
    CLOCK.sleep(0.2)
    assert listening() == ["{}"]
    assert box.read_answer("other") is None


def test_a_job_that_has_ended_is_not_asked(
    job: RunningJob, storage: Storage, own: Heartbeat
) -> None:
    listener = Listener(LakeMailbox(storage, "clicks", own), own_mark(own), {}, lambda _line: None)
    listener.start()
    listener.end(lambda: "")
    with pytest.raises(JobNotRunning, match="no heartbeat"):
        job.ask("count", "{}", PATIENCE)


def test_an_announcement_that_a_dead_process_has_left(
    job: RunningJob, storage: Storage, own: Heartbeat, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ask, "ACCEPTED_BY_LAKE_S", 0.1)
    elsewhere = replace(own, host="elsewhere", started_ms=own.started_ms - 1)
    assert list(LakeMailbox(storage, "clicks", elsewhere).requests()) == []
    with pytest.raises(JobNotAnswering, match="on elsewhere has"):
        job.ask("count", "{}", PATIENCE)
    assert list(LakeMailbox(storage, "clicks", own).requests()) == [], "it is withdrawn"
    assert LakeMailbox(storage, "clicks").find_process() == own


def test_a_request_that_is_withdrawn_while_the_job_looks_is_none(
    storage: Storage, own: Heartbeat
) -> None:
    box, job_box = LakeMailbox(storage, "clicks"), LakeMailbox(storage, "clicks", own)
    assert list(job_box.requests()) == []
    for name in ("a", "b"):
        assert box.ask(Request(name, "count", "{}", *own_mark(own), "me", 0))
    found = job_box.requests()
    assert next(found)[0] == "a"
    box.withdraw("b")
    assert list(found) == []


def test_a_request_that_follows_the_announcement_is_kept(
    own: Heartbeat, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The storage's clock is far behind, so that all that is there looks old."""
    storage = MemoryStorage(FakeClock())
    box = LakeMailbox(storage, "clicks", own)
    request = Request("a", "count", "{}", own.pid, own.started_ms, "ann", CLOCK.now_ms() + 60_000)
    create = storage.create

    def create_and_be_asked(path: str, data: bytes) -> None:
        create(path, data)
        if path.endswith(".process"):
            LakeMailbox(storage, "clicks").ask(request)

    monkeypatch.setattr(storage, "create", create_and_be_asked)
    assert list(box.requests()) == [("a", request)]
