"""Whose process wrote a log last, and what that says of a job without a heartbeat here."""

import os
import socket
from dataclasses import replace

import pytest
from tests.unit.jobs.test_state import HERE, INTERVAL_MS, LOG, NOW_MS
from tests.unit.proof.lakes import Lake, make_lake
from tests.unit.proof.test_health import ailing

from ashore.jobs import last_writer
from ashore.jobs.heartbeat import Heartbeat, is_process_alive
from ashore.jobs.last_writer import find_writer
from ashore.jobs.state import JobState, judge_state
from ashore.log.entries import Commit, Open, Skip
from ashore.log.store.reader import read_log
from ashore.proof.status.status import read_status

NOBODY = 2**22 + 1  # above what Linux gives to a process
LONG_MS = 3_600_000


@pytest.fixture
def killed() -> Lake:
    """A job that has landed everything and was idle when its process was killed, an hour ago."""
    lake = make_lake()
    take_over(lake, NOBODY)
    lake.append(Commit("idle"))
    lake.clock.advance(LONG_MS / 1000)
    return lake


def take_over(lake: Lake, pid: int, host: str = socket.gethostname()) -> None:
    lake.epoch += 1
    lake.append(Open(host, pid, "0"))


def beat_of(lake: Lake, **changed: object) -> Heartbeat:
    """What the job said last: that it was idle, when it was killed."""
    beat = Heartbeat("landing", "lake", socket.gethostname(), NOBODY, 0, 0, "idle", 0)
    return replace(beat, **{"beat_ms": lake.clock.now_ms() - LONG_MS, **changed})


def test_a_killed_job_without_lag_is_no_healthy_one(killed: Lake) -> None:
    status = read_status(killed.opened())
    assert (status.state, status.lag) == (JobState.FAILED, 0)
    assert status.since_ms == killed.clock.now_ms() - LONG_MS
    code, text = ailing(killed)
    assert code == 1
    assert text.startswith("failed 1.0 h ago: ")


def test_a_job_that_is_there_or_stopped_or_is_elsewhere_is_as_before(
    killed: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as alive:
        alive.setattr(last_writer, "is_process_alive", lambda *_: True)
        assert read_status(killed.opened()).state == JobState.IDLE
    take_over(killed, NOBODY, "elsewhere")
    killed.clock.advance(LONG_MS / 1000)
    assert read_status(killed.opened()).state == JobState.IDLE
    stopped = make_lake()
    take_over(stopped, NOBODY)
    stopped.append(Commit("stop"))
    assert read_status(stopped.opened()).state == JobState.STOPPED


def test_what_a_command_writes_later_hides_no_killed_job(killed: Lake) -> None:
    beat = beat_of(killed)
    take_over(killed, NOBODY)
    killed.append(Skip((), None, (), (), "ana", "why"))
    killed.clock.advance(60)
    found = read_status(killed.opened(), beat)
    assert (found.state, found.since_ms) == (JobState.FAILED, beat.beat_ms)
    assert read_status(killed.opened(), replace(beat, ended="stopped")).state == JobState.STOPPED
    without = read_status(killed.opened())
    assert without.state == JobState.STOPPED
    assert "a command" in without.why
    take_over(killed, NOBODY)  # a job, which was killed at once
    assert read_status(killed.opened(), beat).state == JobState.FAILED
    assert read_status(killed.opened()).state == JobState.FAILED


@pytest.mark.parametrize("entries", [0, 1, 2, 7, 40])
def test_the_writer_is_found_however_long_the_log_is(entries: int) -> None:
    lake = make_lake()
    for pid in (11, 12, 13):
        take_over(lake, pid)
        for _ in range(entries):
            lake.append(Skip((), None, (), (), "job", "nothing"))
        writer = find_writer(lake.storage, lake.name, read_log(lake.storage, lake.name))
        assert writer is not None
        assert (writer.pid, writer.host) == (pid, socket.gethostname())


def test_a_number_that_another_process_has_by_now_is_a_process_that_is_gone() -> None:
    here, pid = socket.gethostname(), os.getpid()
    assert is_process_alive(here, pid, NOW_MS) is True
    assert is_process_alive(here, pid, 1_000) is False
    assert is_process_alive(here, NOBODY, NOW_MS) is False
    assert is_process_alive("elsewhere", NOBODY, NOW_MS) is None


@pytest.mark.parametrize(("is_of_command", "state"), [(False, "running"), (True, "running")])
def test_a_heartbeat_that_is_fresh_says_more_than_the_log(is_of_command: bool, state: str) -> None:
    log = replace(LOG, dead_writer="process 7", is_of_command=is_of_command)
    assert judge_state(log, HERE, NOW_MS, INTERVAL_MS).state == state
