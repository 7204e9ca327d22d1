"""Servers that end with their owner, also one that is killed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ashore.base.clock import SystemClock
from ashore_lab.services.guard import GuardedServers
from ashore_lab.services.process import Command, ProcessId, ServerProcess, session_members

CLOCK = SystemClock()
DEADLINE_S = 20


class Sleeper(GuardedServers):
    """A server with a child of its own, in a process group of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.process = ServerProcess("sleeper", directory)

    def start(self) -> None:
        child = f"{sys.executable} -S -c 'import os, time; os.setpgid(0, 0); time.sleep(60)'"
        script = f"{child} & echo ready; wait"
        command = Command("sleeper", ("/bin/sh", "-c", script), self.directory)
        self.process.start(command, lambda log: "ready" in log)

    def stop(self) -> None:
        self.process.stop()


OWNER = f"""
import sys, time
from contextlib import nullcontext
from pathlib import Path
sys.path.insert(0, {str(Path(__file__).parents[3])!r})
from tests.unit.lab.test_guard import Sleeper

servers, how = Sleeper(Path(sys.argv[1])), sys.argv[2]
with nullcontext() if how == "plainly" else servers:
    if how == "again":
        servers.stop()
    if how != "once":
        servers.start()
    print("up", flush=True)
    time.sleep(60)
"""


def wait_until(is_so) -> None:
    deadline = CLOCK.monotonic_s() + DEADLINE_S
    while not is_so():
        assert CLOCK.monotonic_s() < deadline, "waited too long"
        CLOCK.sleep(0.02)


def known(directory: Path) -> ProcessId:
    process = ServerProcess("sleeper", directory).id()
    assert process is not None
    return process


def start_and_kill_owner(directory: Path, how: str) -> ProcessId:
    command = [sys.executable, "-c", OWNER, str(directory), how]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"up\n"
        server = known(directory)
        assert len(session_members(server)) == 2
        os.killpg(owner.pid, signal.SIGKILL)  # the whole group, as a terminal that is closed
    return server


@pytest.mark.parametrize("how", ["once", "again"])
def test_servers_end_with_an_owner_that_is_killed(tmp_path: Path, how: str):
    server = start_and_kill_owner(tmp_path, how)
    wait_until(lambda: not session_members(server))
    wait_until(lambda: ServerProcess("sleeper", tmp_path).id() is None)


def test_servers_that_were_started_plainly_stay(tmp_path: Path):
    server = start_and_kill_owner(tmp_path, "plainly")
    CLOCK.sleep(0.3)
    assert len(session_members(server)) == 2
    ServerProcess("sleeper", tmp_path).kill()


def test_after_the_end_neither_server_nor_guard_is_left(tmp_path: Path):
    with Sleeper(tmp_path) as servers:
        server = known(tmp_path)
        guard = servers._guard._process
        assert guard.poll() is None
    assert session_members(server) == []
    assert guard.returncode == 0


class Broken(Sleeper):
    """A server that fails after its process was started."""

    def start(self) -> None:
        super().start()
        raise OSError("broken")


def test_what_a_failed_start_has_left_is_ended(tmp_path: Path):
    with pytest.raises(OSError, match="broken"), Broken(tmp_path):
        pass
    assert ServerProcess("sleeper", tmp_path).id() is None
