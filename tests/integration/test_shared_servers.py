"""The servers of a run of tests: one of each, alone where it is broken, gone when the run ends."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.servers import SharedServers

from ashore_lab.services.process import ProcessId

pytestmark = pytest.mark.long  # tests of what each run of tests uses

ROOT = Path(__file__).parents[2]
# A run in the background of a shell takes no notice of Ctrl-C, nor does what it starts.
PYTEST = """
import signal, sys, pytest
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.exit(pytest.main())
"""
CONFTEST = 'pytest_plugins = ["tests.fixtures_servers"]\n'
TESTS = """
import os, pathlib, time
import pytest

def note(kind, server):
    found = server.process.id()
    path = pathlib.Path(os.environ["NOTES"]) / f"{kind}-{os.getpid()}"
    path.write_text(f"{found.pid} {found.started}")

@pytest.mark.parametrize("number", range(8))
def test_shared(shared_servers, number):
    note("shared", shared_servers.zookeeper())
    if os.environ["END"] == "crash" and number == 0:
        os._exit(1)
    time.sleep(100 if os.environ["END"] == "interrupt" else 0.2)

@pytest.mark.parametrize("number", range(4))
def test_alone(zookeeper, number):
    note("alone", zookeeper)
"""


@contextmanager
def running(directory: Path, end: str = "") -> Iterator[subprocess.Popen[str]]:
    """Run the tests above by two workers."""
    (directory / "conftest.py").write_text(CONFTEST)
    (directory / "test_it.py").write_text(TESTS)
    (directory / "pytest.ini").write_text("[pytest]\nmarkers =\n    breaks: servers\n")
    (directory / "notes").mkdir()
    options = ["-n", "2", "--dist", "loadgroup", "--basetemp", str(directory / "temp")]
    options += ["--max-worker-restart", "0"]  # a run whose worker has crashed ends at once
    command = [sys.executable, "-c", PYTEST, "-q", *options, str(directory)]
    environment = {**os.environ, "NOTES": str(directory / "notes"), "END": end}
    environment.pop("PYTEST_XDIST_WORKER", None)
    with subprocess.Popen(
        command,
        cwd=directory,
        env={**environment, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        yield process


def servers(directory: Path, kind: str) -> dict[str, ProcessId]:
    """Return the server that each worker has met, by the worker."""
    found = {}
    for path in (directory / "notes").glob(f"{kind}-*"):
        pid, started = map(int, path.read_text().split())
        found[path.name.removeprefix(f"{kind}-")] = ProcessId(pid, started)
    return found


def wait_for(condition, within_s: float = 100.0) -> None:
    end_s = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < end_s, "waited too long"
        time.sleep(0.05)


def test_workers_share_one_and_who_has_it_alone_is_one_group(tmp_path: Path):
    with running(tmp_path) as process:
        reported, _ = process.communicate(timeout=200)
    assert process.returncode == 0, reported
    assert len(servers(tmp_path, "shared")) == 2, reported
    assert len(servers(tmp_path, "alone")) == 1, "a group is for one worker"
    (server,) = {*servers(tmp_path, "shared").values(), *servers(tmp_path, "alone").values()}
    assert not server.is_alive()


@pytest.mark.long  # of the tests themselves, and only where a worker crashes
def test_a_worker_that_crashes_leaves_none(tmp_path: Path):
    with running(tmp_path, "crash") as process:
        reported, _ = process.communicate(timeout=200)
    assert process.returncode == 1, reported
    assert "crashed" in reported
    (server,) = set(servers(tmp_path, "shared").values())
    assert not server.is_alive()


def test_a_run_that_is_interrupted_leaves_none(tmp_path: Path):
    with running(tmp_path, "interrupt") as process:
        wait_for(lambda: len(servers(tmp_path, "shared")) == 2)
        process.send_signal(signal.SIGINT)
        reported, _ = process.communicate(timeout=200)
    assert process.returncode == pytest.ExitCode.INTERRUPTED, reported
    (server,) = set(servers(tmp_path, "shared").values())
    assert not server.is_alive()


def test_who_has_servers_alone_is_waited_for(tmp_path: Path):
    ours, theirs = SharedServers(tmp_path), SharedServers(tmp_path)
    order: list[str] = []

    def other() -> None:
        with theirs.alone({"hive", "hdfs"}):
            order.append("they")

    with ours.alone({"hdfs"}):
        thread = threading.Thread(target=other)
        thread.start()
        with theirs.alone({"zookeeper"}):  # another one is free
            time.sleep(0.2)
        order.append("we")
    thread.join()
    assert order == ["we", "they"]
