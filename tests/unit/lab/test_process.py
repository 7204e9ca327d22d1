"""Servers as processes, tried on small shell scripts."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ashore.errors import ServiceError
from ashore_lab.services import process
from ashore_lab.services.notes import write_note
from ashore_lab.services.process import (
    Command,
    ProcessId,
    ServerProcess,
    SlowStart,
    children_of,
    session_members,
    signal_process,
)

STAY = "echo ready; exec sleep 60"
STUBBORN = "trap '' TERM; echo ready; while :; do sleep 0.05; done"
# A child in a process group of its own, as PySpark's daemon is.
FAMILY = (
    f"{sys.executable} -S -c 'import os, time; os.setpgid(0, 0); time.sleep(60)' & echo ready; wait"
)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    process = ServerProcess("server", tmp_path)
    yield process
    process.kill()


def start(server: ServerProcess, script: str, deadline_s: float = 10) -> ProcessId:
    directory = server.log_path.parent
    command = Command(server.name, ("/bin/sh", "-c", script), directory, {"GREETING": "ahoy"})
    server.start(command, lambda log: "ready" in log, deadline_s=deadline_s)
    known = server.id()
    assert known is not None
    return known


def test_start_waits_until_ready_and_stop_ends_it(server: ServerProcess):
    process = start(server, "sleep 0.1; " + STAY)
    assert server.is_alive()
    server.stop()
    assert not process.is_alive()
    assert server.id() is None
    server.stop()


def test_it_runs_in_its_directory_with_its_environment_and_no_stdin(server: ServerProcess):
    start(server, "cat; pwd; echo $GREETING; " + STAY)
    assert server.log_path.read_text().split() == [str(server.log_path.parent), "ahoy", "ready"]


def test_readiness_is_judged_by_this_start_alone(server: ServerProcess):
    start(server, STAY)
    server.stop()
    with pytest.raises(ServiceError, match="server ended"):
        start(server, "exit 3")


def test_a_server_that_ends_shows_the_end_of_its_log(server: ServerProcess):
    with pytest.raises(ServiceError, match="no such harbour") as caught:
        start(server, "for i in $(seq 100); do echo line $i; done; echo no such harbour; exit 1")
    assert "line 99" in caught.value.message
    assert "line 20\n" not in caught.value.message
    assert str(server.log_path) in caught.value.hint
    assert server.id() is None


def test_a_server_that_is_not_ready_in_time_is_ended(server: ServerProcess):
    with pytest.raises(ServiceError, match="was not ready after"):
        start(server, "echo $$ > pid; exec sleep 60", deadline_s=0.1)
    pid = int((server.log_path.parent / "pid").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def start_slowly(server: ServerProcess, script: str, most_s: float) -> list[str]:
    """Start a server that may be silent for 0.5 s; return what was said."""
    said: list[str] = []
    command = Command(server.name, ("/bin/sh", "-c", script), server.log_path.parent)
    slow = SlowStart(most_s, said.append)
    server.start(command, lambda log: "ready" in log, deadline_s=0.5, slow=slow)
    return said


def test_a_server_is_waited_for_while_its_log_grows(
    server: ServerProcess, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(process, "SAY_EVERY_S", 0.2)
    said = start_slowly(server, f"for i in $(seq 12); do echo $i; sleep 0.1; done; {STAY}", 60)
    assert said
    assert all("its log grows" in each and str(server.log_path) in each for each in said)


def test_but_not_for_ever(server: ServerProcess):
    with pytest.raises(ServiceError, match="was not ready after"):
        start_slowly(server, "while :; do echo still; sleep 0.1; done", 0.3)


def test_nor_where_it_grows_no_more(server: ServerProcess):
    with pytest.raises(ServiceError, match="was not ready after"):
        start_slowly(server, "echo once; exec sleep 60", 60)


def test_a_running_server_is_not_started_twice(server: ServerProcess):
    process = start(server, STAY)
    with pytest.raises(ServiceError, match="is already running"):
        start(server, STAY)
    assert server.id() == process


def test_a_stubborn_server_is_killed_after_the_grace_time(server: ServerProcess):
    process = start(server, STUBBORN)
    server.stop(grace_s=0.1)
    assert session_members(process) == []


@pytest.mark.parametrize("end", [ServerProcess.stop, ServerProcess.kill])
def test_the_whole_session_ends(server: ServerProcess, end):
    process = start(server, FAMILY)
    assert len(session_members(process)) == 2
    assert len(children_of(process)) == 1
    end(server)
    assert session_members(process) == []


def test_children_that_outlive_a_server_are_ended_too(server: ServerProcess):
    process = start(server, FAMILY)
    signal_process(process, signal.SIGKILL)
    while process.is_alive():
        pass
    assert len(session_members(process)) == 1
    server.stop()
    assert session_members(process) == []


def test_a_frozen_server_is_alive_and_goes_on_when_thawed(server: ServerProcess):
    process = start(server, STAY)
    assert not server.is_frozen()
    server.freeze()
    assert server.is_frozen()
    assert process.is_alive()
    server.thaw()
    assert not server.is_frozen()
    assert process.is_alive()


def test_a_frozen_server_stops_in_order(server: ServerProcess):
    script = "trap 'echo in order; kill $!; exit' TERM; echo ready; sleep 60 & wait"
    start(server, script)
    server.freeze()
    server.stop()
    assert "in order" in server.log_path.read_text()
    with pytest.raises(ServiceError, match="is not running"):
        server.freeze()


def test_another_object_stands_for_the_same_server(server: ServerProcess, tmp_path: Path):
    process = start(server, STAY)
    ServerProcess("server", tmp_path).stop()
    assert not process.is_alive()
    assert not server.is_alive()


def test_a_stranger_with_the_noted_pid_is_left_alone(server: ServerProcess, tmp_path: Path):
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as stranger:
        write_note(tmp_path / "server.process.json", {"pid": stranger.pid, "started": 1})
        assert not server.is_alive()
        server.stop()
        assert server.id() is None
        signal_process(ProcessId(stranger.pid, started=1), signal.SIGKILL)
        assert stranger.poll() is None
        stranger.kill()


@pytest.mark.parametrize("note", ["", "[]", '{"pid": 1}', '{"pid": 1, "started": null}'])
def test_a_damaged_note_is_named(server: ServerProcess, tmp_path: Path, note: str):
    path = tmp_path / "server.process.json"
    path.write_text(note)
    with pytest.raises(ServiceError, match=r"server\.process\.json is"):
        server.stop()
    path.unlink()
