"""How a job process ends, as its parent sees it."""

import json
import subprocess
import sys
from pathlib import Path

from tests.unit.cli.test_commands import JOB

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


def test_an_error_that_nobody_expects_is_told_in_a_sentence(tmp_path: Path) -> None:
    job_file = tmp_path / "job.yaml"
    job_file.write_text(JOB.format(lake=tmp_path / "lake"))
    command = [sys.executable, "-c", PROGRAM, "run", str(job_file)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    told = [json.loads(line) for line in ended.stdout.splitlines()]
    assert (ended.returncode, told[-1]["exit_code"], told[-1]["code"]) == (1, 1, "error")
    assert told[-1]["message"].endswith("ZeroDivisionError: by what the JVM said")
    assert "Traceback" in ended.stderr
