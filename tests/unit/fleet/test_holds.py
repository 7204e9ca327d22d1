"""A job that an operation holds is left alone by the supervisor until that has ended."""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import psutil
import pytest

from ashore.errors import JobUnknown, OperationUnknown
from ashore.fleet.machine.processes import Processes
from ashore.fleet.operate.operations import Operations, OperationState
from ashore.fleet.operate.verbs import Verbs
from ashore.fleet.records.server_files import Asker, OperationFiles, OperationProcess, ServerFiles
from ashore.fleet.supervise.decide import Phase
from ashore.fleet.supervise.supervisor import Supervisor
from ashore_lab.testing.simulation import simulated_command, write_simulated_job

WITHIN_S = 60.0
WHAT = ("stop", "clicks", "test")
ANN = Asker("ann")
# It says which process it is, as that of an operation does, and sleeps until it is ended.
SLEEPS = """
import json, os, sys, time, psutil
path, started = sys.argv[1], round(psutil.Process().create_time() * 1000)
open(path + ".new", "w").write(json.dumps({"pid": os.getpid(), "started_ms": started}))
os.replace(path + ".new", path)
time.sleep(600)
"""


def sleeping(files: OperationFiles, _lock: int) -> list[str]:
    return [sys.executable, "-c", SLEEPS, str(files.process)]


class Server:
    """What a server has of jobs, without HTTP: it is dropped where a server is killed."""

    def __init__(self, files: ServerFiles) -> None:
        self.operations = Operations(files.operations, files.jobs, sleeping)
        processes = Processes(files, simulated_command, self.operations.is_under_way)
        self.supervisor = Supervisor(files, processes)
        self.verbs = Verbs(files, cancel=self.operations.cancel)

    def hold(self) -> str:
        return self.operations.ask(
            WHAT, ["stop"], is_json=False, hold=partial(self.verbs.stop, "clicks", ANN)
        )

    def look(self) -> Phase:
        self.operations.look()
        self.supervisor.look()
        return self.supervisor.views["clicks"].phase

    def look_until(self, *phases: Phase) -> None:
        until(lambda: self.look() in phases)


def until(is_so: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + WITHIN_S
    while not is_so():
        assert time.monotonic() < deadline_s
        time.sleep(0.02)


@pytest.fixture
def files(tmp_path: Path) -> Iterator[ServerFiles]:
    (tmp_path / "jobs").mkdir()
    files = ServerFiles.of(tmp_path / "jobs")
    files.make()
    write_simulated_job(files.jobs, "clicks")
    yield files
    starts = [pid for path in files.runs.glob("*/starts") for pid in path.read_text().split()]
    for pid in starts:
        if psutil.pid_exists(int(pid)):
            os.kill(int(pid), signal.SIGKILL)


@pytest.fixture
def server(files: ServerFiles) -> Iterator[Server]:
    made = Server(files)
    made.verbs.start("clicks", ANN)
    made.look_until(Phase.RUNNING)
    yield made
    for each in made.operations.all():
        if each.process is not None and not each.is_final:
            os.kill(each.process.pid, signal.SIGKILL)


def process_of(server: Server, operation: str) -> OperationProcess:
    until(lambda: server.operations.get(operation).process is not None)
    found = server.operations.get(operation).process
    assert found is not None
    return found


def test_a_hold_ends_with_its_operation_though_the_server_was_killed_too(
    server: Server, files: ServerFiles
) -> None:
    held = server.hold()
    assert server.look() is Phase.STOPPING
    pid = process_of(server, held).pid
    server.supervisor.end()
    again = Server(files)  # of the next process: it knows what files say
    for _ in range(3):
        assert again.look() is Phase.STOPPING
    assert again.supervisor.views["clicks"].process is not None, "it is left to the operation"
    assert held in again.supervisor.views["clicks"].decision.why

    os.kill(pid, signal.SIGKILL)
    again.look_until(Phase.STOPPED)
    assert again.operations.get(held).state is OperationState.LOST
    assert again.supervisor.views["clicks"].process is None
    again.supervisor.end()


def test_who_wants_something_else_meanwhile_ends_the_operation(server: Server) -> None:
    held = server.hold()
    server.look()
    pid = process_of(server, held).pid
    server.verbs.start("clicks", ANN)
    server.look_until(Phase.RUNNING)
    until(lambda: server.look() is Phase.RUNNING and server.operations.get(held).is_final)
    is_gone = not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    assert is_gone, "it may still wait to be reaped"
    assert server.operations.get(held).state is OperationState.CANCELLED
    server.supervisor.end()


def test_an_operation_that_was_forgotten_holds_nothing(server: Server) -> None:
    server.verbs.stop("clicks", ANN, held_by="1795510849712-48ac95e9")
    server.look_until(Phase.STOPPED)
    server.verbs.start("clicks", ANN)  # nothing is there to be cancelled
    server.look_until(Phase.RUNNING)
    server.supervisor.end()


def test_nothing_is_asked_for_where_the_job_cannot_be_held(server: Server) -> None:
    hold = partial(server.verbs.stop, "klicks", ANN)
    with pytest.raises(JobUnknown):
        server.operations.ask(("stop", "klicks", "test"), ["stop"], is_json=False, hold=hold)
    assert server.operations.all() == []
    with pytest.raises(OperationUnknown):
        server.operations.get("1795510849712-48ac95e9")
    server.supervisor.end()
