"""The supervisor where its own disk fails it, and where a process dies before it says a word."""

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from ashore.base.http_post import ALLOW
from ashore.errors import KILLED, ServerDiskFailed
from ashore.fleet.machine.processes import (
    LOOK_EVERY_MS,
    Command,
    Processes,
    ServerLimits,
    StartOrder,
)
from ashore.fleet.operate.verbs import Verbs
from ashore.fleet.records.job_files import JobFiles
from ashore.fleet.records.journal import Happened
from ashore.fleet.records.server_files import Asker, ExitRecord, ServerFiles
from ashore.fleet.records.store import read_record
from ashore.fleet.server.serve import ServerSettings, serve
from ashore.fleet.supervise.decide import Phase
from ashore.fleet.supervise.supervisor import Supervisor
from ashore.jobs.file import Job
from ashore.topics.loop.job import load_job_file
from ashore_lab.testing.clock import FakeClock
from ashore_lab.testing.simulation import simulated_command, write_simulated_job

WITHIN_S = 60.0


@pytest.fixture
def files(tmp_path: Path) -> Iterator[ServerFiles]:
    (tmp_path / "jobs").mkdir()
    files = ServerFiles.of(tmp_path / "jobs")
    files.make()
    for name in ("clicks", "orders"):
        write_simulated_job(files.jobs, name)
        Verbs(files).start(name, Asker("test"))
    yield files
    for path in files.runs.glob("*/starts"):
        for pid in path.read_text().split():
            if psutil.pid_exists(int(pid)):
                os.kill(int(pid), signal.SIGKILL)


def look_until(supervisor: Supervisor, job: str, *phases: Phase) -> None:
    deadline_s = time.monotonic() + WITHIN_S
    while True:
        supervisor.look()
        found = supervisor.views[job]
        if found.phase in phases:
            return
        assert time.monotonic() < deadline_s, found.decision
        time.sleep(0.02)


def test_a_disk_that_takes_no_writes_is_said_and_keeps_no_job_from_being_started_again(
    files: ServerFiles,
) -> None:
    """What cannot be written is a file whose name a directory has."""
    supervisor = Supervisor(files, Processes(files, simulated_command))
    for name in ("clicks", "orders"):
        look_until(supervisor, name, Phase.RUNNING)
    assert supervisor.problem == ""
    run = files.run_of("clicks")
    for path in (run.exit, run.retry):
        path.mkdir()
    process = supervisor.views["clicks"].process
    assert process is not None
    os.kill(process.pid, signal.SIGKILL)
    look_until(supervisor, "clicks", Phase.BACKING_OFF)
    look_until(supervisor, "clicks", Phase.RUNNING)
    assert f"{run.root}" in supervisor.problem
    assert "cannot be written" in supervisor.problem
    assert supervisor.views["orders"].phase is Phase.RUNNING
    assert len((run.root / "starts").read_text().split()) == 2
    for path in (run.exit, run.retry):
        path.rmdir()
    supervisor.look()
    assert supervisor.problem == "", "what was owed is written"
    last = read_record(ExitRecord, run.exit)
    assert last is not None
    assert (last.run, last.code) == (process.run, KILLED)
    supervisor.end()


def test_a_lock_that_cannot_be_read_is_a_problem_of_the_server(files: ServerFiles) -> None:
    supervisor = Supervisor(files, Processes(files, simulated_command))
    look_until(supervisor, "clicks", Phase.RUNNING)
    run = files.run_of("clicks")
    process = supervisor.views["clicks"].process
    assert process is not None
    run.lock.rename(run.root / "aside")
    run.lock.mkdir()
    os.kill(process.pid, signal.SIGKILL)
    psutil.wait_procs([psutil.Process(process.pid)], 10)
    supervisor.look()
    assert "run.lock cannot be read" in supervisor.problem
    assert "process of clicks lives" in supervisor.problem
    run.lock.rmdir()
    (run.root / "aside").rename(run.lock)
    look_until(supervisor, "clicks", Phase.BACKING_OFF)
    assert supervisor.problem == ""
    supervisor.end()


def test_a_job_file_that_takes_long_to_check_keeps_no_job_from_its_turn(
    files: ServerFiles,
) -> None:
    """And is neither started, nor called invalid or changed, before that has ended."""
    told, slow, go = list[Happened](), set[str](), threading.Event()

    def load(path: Path) -> Job:
        if path.stem in slow:
            go.wait(WITHIN_S)
        return load_job_file(path)

    supervisor = Supervisor(files, Processes(files, simulated_command), report=told.append)
    supervisor.job_files = JobFiles(files.jobs, load)
    look_until(supervisor, "clicks", Phase.RUNNING)
    slow |= {"clicks", "late"}
    for name in ("clicks", "late"):
        path = write_simulated_job(files.jobs, name)
        path.write_text(f"# again\n{path.read_text()}")
    Verbs(files).start("late", Asker("test"))
    look_until(supervisor, "late", Phase.WAITING)
    assert supervisor.views["late"].decision.why.endswith("is being checked")
    look_until(supervisor, "orders", Phase.RUNNING)
    clicks = supervisor.views["clicks"]
    assert (clicks.phase, clicks.is_changed) == (Phase.RUNNING, False)
    assert clicks.file is not None
    assert clicks.file.job is not None, "as it was before"
    go.set()
    look_until(supervisor, "late", Phase.RUNNING)
    look_until(supervisor, "clicks", Phase.RUNNING)
    assert supervisor.views["clicks"].is_changed
    phases = {str(each.fields.get("phase")) for each in told if each.kind == "phase"}
    assert "invalid" not in phases
    assert [each.job for each in told if each.kind == "changed"] == ["clicks"]
    supervisor.end()


@pytest.mark.parametrize("allowed", [None, "10.0.0.0/8"])
def test_jobs_post_to_inner_addresses_only_if_the_server_says_so(
    files: ServerFiles, monkeypatch: pytest.MonkeyPatch, allowed: str | None
) -> None:
    monkeypatch.delenv(ALLOW, raising=False)
    if allowed is not None:
        monkeypatch.setenv(ALLOW, allowed)
    supervisor = Supervisor(files, Processes(files, simulated_command))
    look_until(supervisor, "clicks", Phase.RUNNING)
    process = supervisor.views["clicks"].process
    assert process is not None
    found = Path(f"/proc/{process.pid}/environ").read_text().split("\0")
    assert f"{ALLOW}={allowed or ''}" in found
    supervisor.end()


def test_a_process_that_dies_before_it_says_a_word_is_backed_off_from(files: ServerFiles) -> None:
    """Whatever the run before it has left."""
    command: list[Command] = [simulated_command]
    told: list[Happened] = []
    clock = FakeClock(time.time_ns() // 1_000_000)

    def start(order: StartOrder) -> list[str]:
        return command[0](order)

    processes = Processes(files, start)
    supervisor = Supervisor(files, processes, report=told.append, clock=clock)
    look_until(supervisor, "clicks", Phase.RUNNING)
    process = supervisor.views["clicks"].process
    assert process is not None
    os.kill(process.pid, signal.SIGKILL)
    look_until(supervisor, "clicks", Phase.BACKING_OFF)

    def mute(_order: StartOrder) -> list[str]:
        return ["/bin/false"]

    command[0] = mute
    waits = []
    for _ in range(4):
        retry = supervisor.views["clicks"].retry
        assert retry is not None
        waits.append(retry.not_before_ms - clock.now_ms())
        clock.advance(waits[-1] / 1000)
        look_until(supervisor, "clicks", Phase.STARTING)
        look_until(supervisor, "clicks", Phase.BACKING_OFF)
    starts = [each for each in told if each.kind == "started" and each.job == "clicks"]
    assert waits == [1_000, 2_000, 4_000, 8_000]
    assert len(starts) == 5, "each start was waited for"
    supervisor.end()


def test_a_process_above_its_limit_is_stopped_says_so_and_waits_longer_each_time(
    files: ServerFiles,
) -> None:
    hungry(files, memory_bytes=100_000_000)
    clock, told = FakeClock(time.time_ns() // 1_000_000), list[Happened]()
    limits = ServerLimits(job_memory_max_bytes=60_000_000)
    processes = Processes(files, simulated_command)
    supervisor = Supervisor(files, processes, limits, told.append, clock)
    waits = []
    for _ in range(3):
        look_until_over(supervisor, clock)
        look_until(supervisor, "clicks", Phase.BACKING_OFF)
        found = supervisor.views["clicks"]
        assert found.last is not None
        assert found.retry is not None
        assert found.last.code == 0, "it was stopped gracefully"
        assert "above the limit of 60 MB (--max-job-memory)" in found.decision.why
        assert "--max-job-memory" in found.decision.hint
        waits.append(found.retry.not_before_ms - clock.now_ms())
        clock.advance(waits[-1] / 1000)
    assert waits == [1_000, 2_000, 4_000]
    assert len([each for each in told if each.kind == "memory"]) == 3
    assert supervisor.views["orders"].phase is Phase.RUNNING, "its neighbour runs on"
    supervisor.end()


def test_a_process_above_its_limit_that_does_not_end_is_killed(files: ServerFiles) -> None:
    hungry(files, memory_bytes=100_000_000, deaf=True)
    clock = FakeClock(time.time_ns() // 1_000_000)
    limits = ServerLimits(job_memory_max_bytes=60_000_000)
    supervisor = Supervisor(files, Processes(files, simulated_command), limits, clock=clock)
    look_until_over(supervisor, clock)
    assert "it is stopped" in supervisor.views["clicks"].decision.why
    clock.advance(600)
    look_until(supervisor, "clicks", Phase.BACKING_OFF)
    last = supervisor.views["clicks"].last
    assert last is not None
    assert last.code == KILLED
    assert "above the limit" in last.message
    supervisor.end()


def look_until_over(supervisor: Supervisor, clock: FakeClock) -> None:
    """Look until the job is stopped for its memory, which is looked at now and then."""
    deadline_s = time.monotonic() + WITHIN_S
    supervisor.look()
    while supervisor.views["clicks"].phase is not Phase.STOPPING:
        assert time.monotonic() < deadline_s
        time.sleep(0.05)
        clock.advance(LOOK_EVERY_MS / 1000)
        supervisor.look()


def hungry(files: ServerFiles, **behave: object) -> None:
    """Have the process of a job use memory, and maybe not hear that it is to end."""
    run = files.run_of("clicks").root
    run.mkdir(parents=True)
    (run / "behave.json").write_text(json.dumps(behave))


def test_since_when_a_job_is_in_its_phase_survives_the_server(files: ServerFiles) -> None:
    clock = FakeClock(time.time_ns() // 1_000_000)
    Verbs(files).stop("orders", Asker("test"))

    def served() -> Supervisor:
        return Supervisor(files, Processes(files, simulated_command), clock=clock)

    first = served()
    look_until(first, "clicks", Phase.RUNNING)
    look_until(first, "orders", Phase.STOPPED)
    since_ms = {name: view.since_ms for name, view in first.views.items()}
    first.end()
    clock.advance(3_600)
    second = served()
    second.look()
    assert {name: view.since_ms for name, view in second.views.items()} == since_ms
    process = second.views["clicks"].process
    assert process is not None
    second.end()
    os.kill(process.pid, signal.SIGKILL)
    third = served()
    look_until(third, "clicks", Phase.BACKING_OFF)
    clock.advance(3_600)
    look_until(third, "clicks", Phase.RUNNING)
    assert third.views["clicks"].since_ms > since_ms["clicks"], "another run"
    assert third.views["orders"].since_ms == since_ms["orders"]
    third.end()


def test_a_state_directory_that_cannot_be_written_ends_the_start_of_a_server(
    tmp_path: Path,
) -> None:
    (tmp_path / "full").write_text("")
    interval_s = sys.getswitchinterval()
    try:
        with pytest.raises(ServerDiskFailed, match="full/state cannot be written") as failed:
            serve(ServerSettings(tmp_path, tmp_path / "full" / "state"), lambda _url: None)
    finally:
        sys.setswitchinterval(interval_s)
    assert "--state" in (failed.value.hint or "")
