"""A server is killed with SIGKILL at every step of a start: no job is doubled, none is lost.

The steps are all that Python's audit events see: each open, rename, lock, the start of the process,
each close that follows. A child of this process is the server that dies; this process is the next.
"""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from ashore.fleet.machine.processes import Processes
from ashore.fleet.operate.verbs import Verbs
from ashore.fleet.records.server_files import Asker, ServerFiles
from ashore.fleet.supervise.decide import Phase
from ashore.fleet.supervise.supervisor import Supervisor
from ashore_lab.testing.simulation import simulated_command, write_simulated_job

WITHIN_S = 60.0
STEPS_MAX = 600


@pytest.fixture
def files(tmp_path: Path) -> Iterator[ServerFiles]:
    (tmp_path / "jobs").mkdir()
    files = ServerFiles.of(tmp_path / "jobs")
    files.make()
    write_simulated_job(files.jobs, "clicks")
    yield files
    for pid in started(files):
        if lives(pid):
            os.kill(pid, signal.SIGKILL)


def server(files: ServerFiles) -> Supervisor:
    return Supervisor(files, Processes(files, simulated_command))


def warm_up(files: ServerFiles) -> None:
    """Have what is loaded late loaded: its files are no steps of a start."""
    supervisor = server(files)
    supervisor.look()
    supervisor.end()


def started(files: ServerFiles) -> list[int]:
    path = files.run_of("clicks").root / "starts"
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def look_until(supervisor: Supervisor, phase: Phase) -> None:
    deadline_s = time.monotonic() + WITHIN_S
    while time.monotonic() < deadline_s:
        supervisor.look()
        found = supervisor.views["clicks"]
        if found.phase is phase:
            return
        time.sleep(0.02)
    raise AssertionError(f"it is {found.phase}: {found.decision}")


def die_at(step: int, act: Callable[[], object]) -> bool:
    """Run `act` in a child that is killed at a step; return whether it was."""
    child = os.fork()
    if child == 0:
        seen = [0]

        def strike(_event: str, _arguments: tuple[object, ...]) -> None:
            seen[0] += 1
            if seen[0] == step:
                os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(strike)
        act()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert status in {0, signal.SIGKILL}, status
    return os.WIFSIGNALED(status)


# Every step in the long run; in the everyday run a part of them, as steps differ little.
EVERY = pytest.param(1, marks=pytest.mark.long)


@pytest.mark.parametrize("stride", [9, EVERY])
def test_a_server_that_is_killed_at_any_step_of_a_start_doubles_no_job(
    files: ServerFiles, stride: int
) -> None:
    warm_up(files)
    Verbs(files).start("clicks", Asker("test"))
    had_process, step = set(), 0
    for step in range(1, STEPS_MAX, stride):
        was_killed = die_at(step, lambda: server(files).look())
        supervisor = server(files)
        look_until(supervisor, Phase.RUNNING)
        pids = started(files)
        assert [pid for pid in pids if lives(pid)] == [supervisor.views["clicks"].process.pid]
        assert not (files.run_of("clicks").root / "doubled").exists(), f"step {step}"
        had_process.add(len(pids) == 1)
        for pid in pids:
            if lives(pid):
                os.kill(pid, signal.SIGKILL)
        while any(lives(pid) for pid in pids):
            time.sleep(0.005)
        supervisor.end()
        for path in files.run_of("clicks").root.iterdir():
            path.unlink()
        if not was_killed:
            break
    assert 20 < step < STEPS_MAX - stride, "the start has an end"
    assert had_process == {True}, "each life began one process, the dead server's or the next one's"


@pytest.mark.parametrize("stride", [40, EVERY])
def test_a_server_that_is_killed_at_any_step_of_a_stop_stops_the_job_once(
    files: ServerFiles, stride: int
) -> None:
    warm_up(files)
    verbs = Verbs(files)
    for step in range(1, STEPS_MAX, stride):
        verbs.start("clicks", Asker("test"))
        supervisor = server(files)
        look_until(supervisor, Phase.RUNNING)
        supervisor.end()
        verbs.stop("clicks", Asker("test"))
        was_killed = die_at(step, lambda: server(files).look())
        supervisor = server(files)
        look_until(supervisor, Phase.STOPPED)
        last = supervisor.views["clicks"].last
        assert last is not None
        assert last.code == 0, last
        supervisor.end()
        if not was_killed:
            break
    assert 10 < step < STEPS_MAX - stride
    assert not any(lives(pid) for pid in started(files))


def test_a_killed_process_is_started_again_and_its_number_is_not_trusted(
    files: ServerFiles,
) -> None:
    Verbs(files).start("clicks", Asker("test"))
    supervisor = server(files)
    look_until(supervisor, Phase.RUNNING)
    first = started(files)
    os.kill(first[0], signal.SIGKILL)
    look_until(supervisor, Phase.BACKING_OFF)
    assert supervisor.views["clicks"].last.code == 137
    look_until(supervisor, Phase.RUNNING)
    assert len(started(files)) == 2
    supervisor.end()
