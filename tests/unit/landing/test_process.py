"""How a job process ends, as its parent sees it."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from tests.unit.cli.test_commands import JOB

from ashore.landing.process import ORPHAN_S

PROGRAM = """
import sys
from ashore.landing.process import run_process

class Broken:
    def start(self, job):
        raise ZeroDivisionError("by what the JVM said\\n\\tat java.lang.Thread")

    def stop(self):
        pass

sys.exit(run_process("broken", sys.argv[1:], lambda options: Broken(), {}))
"""


SLOW = """
import subprocess, sys, time
from ashore.landing.process import run_process

class Starting:
    def start(self, job):
        child = subprocess.Popen(["sleep", "60"])
        print(child.pid, flush=True)
        time.sleep(60)

    def stop(self):
        pass

sys.exit(run_process("slow", sys.argv[1:], lambda options: Starting(), {}))
"""


@pytest.mark.slow
def test_it_does_not_outlive_its_parent_by_more_than_a_second(tmp_path: Path) -> None:
    """With what it has started; also where a stop in order would take longer."""
    job_file = tmp_path / "job.yaml"
    job_file.write_text(JOB.format(lake=tmp_path / "lake"))
    command = [sys.executable, "-c", SLOW, "run", str(job_file)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    home = {**os.environ, "ASHORE_HOME": str(tmp_path)}
    with subprocess.Popen(command, start_new_session=True, text=True, env=home, **pipes) as process:
        reported = iter(process.stdout.readline, "")  # it may beat before
        assert any(json.loads(line)["event"] == "starting" for line in reported)
        lines = (process.stdout.readline() for _ in range(99))  # beats go on meanwhile
        child = psutil.Process(next(int(line) for line in lines if line.strip().isdigit()))
        assert child.is_running()
        began_s = time.monotonic()
        process.stdin.close()  # what the kernel does when the parent dies
        assert process.wait(timeout=30) == -signal.SIGKILL
        assert ORPHAN_S <= time.monotonic() - began_s < 10
        assert psutil.wait_procs([child], timeout=10)[1] == []


def test_an_error_that_nobody_expects_is_reported_in_a_sentence(tmp_path: Path) -> None:
    job_file = tmp_path / "job.yaml"
    job_file.write_text(JOB.format(lake=tmp_path / "lake"))
    command = [sys.executable, "-c", PROGRAM, "run", str(job_file)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    reported = [json.loads(line) for line in ended.stdout.splitlines()]
    assert (ended.returncode, reported[-1]["exit_code"], reported[-1]["code"]) == (1, 1, "error")
    assert reported[-1]["message"].endswith("ZeroDivisionError: by what the JVM said")
    assert "Traceback" in ended.stderr
