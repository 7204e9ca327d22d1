"""Spark waits for ever for a Python worker that a signal has stopped."""

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from ashore.topics.run.spark.daemon import MODULE
from ashore.topics.run.spark.stopped_workers import StoppedWorkers


@pytest.fixture
def started() -> Iterator[list["subprocess.Popen[bytes]"]]:
    processes: list[subprocess.Popen[bytes]] = []
    yield processes
    for each in processes:
        each.kill()
        each.wait()


def start(processes: list["subprocess.Popen[bytes]"], *arguments: str) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-c", "import time; time.sleep(600)", *arguments]
    processes.append(subprocess.Popen(command))
    return processes[-1]


def test_a_stopped_worker_is_reported_and_killed_and_no_other_process(started) -> None:
    worker, working, other = start(started, MODULE), start(started, MODULE), start(started)
    for each in (worker, other):
        each.send_signal(signal.SIGSTOP)
    reported: list[str] = []
    is_reported = threading.Event()

    def report(text: str) -> None:
        reported.append(text)
        is_reported.set()

    with StoppedWorkers(report, stopped_s=0.3, look_s=0.1):
        assert is_reported.wait(60)
        assert worker.wait(60) == -signal.SIGKILL
    (text,) = reported
    assert text.startswith(f"Python worker {worker.pid} of Spark ")
    assert [each.poll() for each in (working, other)] == [None, None]
