"""How a job process ends, as its parent sees it."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path

import psutil
import pytest
from tests.unit.cli.test_commands import JOB

from ashore.base.clock import SystemClock
from ashore.errors import Fenced, NotDone
from ashore.jobs.ask import Patience, RunningJob
from ashore.jobs.requests import StopRequest, write_request
from ashore.topics.loop.process import ORPHAN_S

PROGRAM = """
import sys
from ashore.topics.loop.process import run_process

class Broken:
    def start(self, job):
        raise ZeroDivisionError("by what the JVM said\\n\\tat java.lang.Thread")

    def stop(self):
        pass

sys.exit(run_process("broken", sys.argv[1:], lambda options: Broken(), {}))
"""


SLOW = """
import subprocess, sys, time
from ashore.topics.loop.process import run_process

class Starting:
    def start(self, job):
        child = subprocess.Popen(["sleep", "60"])
        sys.stdout.write(f"{child.pid}\\n")  # at once: print writes the end of a line by itself
        sys.stdout.flush()
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


ASKED = """
import sys, threading
from contextlib import nullcontext
from types import SimpleNamespace
from ashore.errors import Fenced
from ashore.jobs.listener import Verb
from ashore.topics.loop.process import run_process

stopped = threading.Event()

class Loop:
    def run(self, probe):
        stopped.wait(60)
        if not self.finishes:
            raise Fenced("another one came")
    def stop(self, finishes):
        self.finishes = finishes
        stopped.set()
    def log_ends(self): return ()

class Engine:
    def start(self, job): pass
    def stop(self): pass
    def assemble(self, *_): return nullcontext(
        SimpleNamespace(loop=lambda until_drained: Loop(), runner=None))

verbs = {"look": Verb(lambda text: text.upper())}
sys.exit(run_process("asked", sys.argv[1:], lambda _: Engine(), {}, lambda job, loop: verbs))
"""


@pytest.mark.parametrize(
    "fails", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["in order", "fails"]
)
def test_it_is_asked_to_stop_and_what_its_engine_offers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    job_file, lake = tmp_path / "job.yaml", tmp_path / "lake"
    job_file.write_text(JOB.format(lake=lake))
    monkeypatch.setenv("ASHORE_HOME", str(tmp_path))
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    command = [sys.executable, "-c", ASKED, "run", str(job_file)]
    running = RunningJob("clicks", f"file://{lake}", SystemClock(), lambda _line: None)
    with subprocess.Popen(command, **pipes) as process:
        reported = iter(process.stdout.readline, "")
        assert any(json.loads(line)["event"] == "started" for line in reported)

        def ask_it(verb: str, text: str) -> str:
            return running.ask(verb, text, Patience(done_s=60, accepted_s=60))[1]

        assert ask_it("look", "here") == "HERE"
        with pytest.raises(NotDone, match="cannot be read"):
            ask_it("stop", '{"how": "softly"}')
        with pytest.raises(Fenced, match="another one") if fails else nullcontext():
            done = ask_it("stop", write_request(StopRequest(finishes=not fails)))
            assert done == '{"logs": []}'
        assert process.wait(60) == (3 if fails else 0)
        messages = [json.loads(line).get("message", "") for line in process.stdout]
    assert sum(each.endswith(" asks to stop") for each in messages) == 2


def test_an_error_that_nobody_expects_is_reported_in_a_sentence(tmp_path: Path) -> None:
    job_file = tmp_path / "job.yaml"
    job_file.write_text(JOB.format(lake=tmp_path / "lake"))
    command = [sys.executable, "-c", PROGRAM, "run", str(job_file)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    reported = [json.loads(line) for line in ended.stdout.splitlines()]
    assert (ended.returncode, reported[-1]["exit_code"], reported[-1]["code"]) == (1, 1, "error")
    assert reported[-1]["message"].endswith("ZeroDivisionError: by what the JVM said")
    assert "Traceback" in ended.stderr
