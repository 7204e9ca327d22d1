"""What is known of a job that has no process here, by its logs."""

import pytest
from tests.unit.jobs.test_last_writer import NOBODY, take_over
from tests.unit.proof.lakes import Lake, make_lake

from ashore.errors import AshoreError, JobNotAnswering, JobNotRunning
from ashore.jobs import last_writer
from ashore.log.entries import Commit
from ashore.topics.use.stop import JobStopped
from ashore.topics.use.stop_check import look_at_logs

SILENT = JobNotRunning("there is no heartbeat")
IN_ORDER = "job clicks has already stopped"


def ended(lake: Lake, how: str, seconds_ago: float = 0.0) -> JobNotRunning:
    """What a heartbeat says of a process that has ended."""
    ended_ms = lake.clock.now_ms() - round(1000 * seconds_ago)
    return JobNotRunning(f"process 7 {how}", ended=how, beat_ms=ended_ms, pid=7)


def look(lake: Lake, found: JobNotRunning) -> str:
    stopped = look_at_logs(lake.opened(), found)
    assert stopped == JobStopped(None, None, (), stopped.sentence)
    return stopped.sentence


def refused(lake: Lake, found: JobNotRunning) -> AshoreError:
    with pytest.raises(AshoreError) as raised:
        look(lake, found)
    return raised.value


@pytest.fixture
def running() -> Lake:
    """A job whose log does not say that it stopped."""
    lake = make_lake()
    take_over(lake, NOBODY)
    lake.append(Commit("idle"))
    return lake


def test_a_log_that_is_closed_for_a_stop_says_so(running: Lake) -> None:
    running.land({running.key(0): (100, 100)})
    running.append(Commit("stop"))
    assert look(running, SILENT) == IN_ORDER
    earlier = ended(running, "failed", seconds_ago=60)
    assert look(running, earlier) == IN_ORDER, "it ran elsewhere since"
    running.clock.advance(1)
    died = ended(running, "failed")
    assert refused(running, died) is died, "it was started since, and wrote nothing"


def test_a_heartbeat_says_so_unless_the_log_has_grown_since(running: Lake) -> None:
    """As the log of a query, which ends with its last batch."""
    assert look(running, ended(running, "stopped")) == IN_ORDER
    assert str(refused(running, ended(running, "failed"))) == "process 7 failed"
    take_over(running, 7, "elsewhere")
    error = refused(running, ended(running, "stopped", seconds_ago=60))
    assert isinstance(error, JobNotAnswering)
    assert "process 7 on elsewhere" in error.message


def test_who_may_run_it_is_named(running: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    error = refused(running, SILENT)
    assert isinstance(error, JobNotRunning)
    assert f"process {NOBODY} of this machine" in error.message
    assert "is gone" in error.message
    with monkeypatch.context() as alive:
        alive.setattr(last_writer, "is_process_alive", lambda *_: True)
        error = refused(running, SILENT)
    assert isinstance(error, JobNotAnswering)
    assert "ASHORE_HOME" in error.hint
    take_over(running, 7, "elsewhere")
    error = refused(running, SILENT)
    assert isinstance(error, JobNotAnswering)
    assert error.hint.endswith("on elsewhere")


def test_one_that_never_wrote_a_log() -> None:
    lake = Lake()
    assert "never started" in look(lake, SILENT)
    died = JobNotRunning("process 7 is gone", pid=7, beat_ms=1)
    assert refused(lake, died) is died, "it was started, and died before its first entry"
