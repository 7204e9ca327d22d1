"""What a command costs whose answer somebody waits for.

    python -m bench.commands

Two figures: the CPU time of the whole process, user and system; and the seconds from its start to
the first text on a terminal, which need an idle machine. The job has no SQL and has never run, and
its Kafka does not answer: `status` and `validate` wait five seconds for it, after their first
text. Medians of five, the byte code of all modules kept.
"""

import os
import pty
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from bench.table import Row

ROUNDS = 5
JOB = """\
job: {name}
lake: file://{lake}
source:
  kafka: {{bootstrap_servers: "127.0.0.1:1"}}
tables:
  - topic: clicks
    table: ods.clicks
    schema: "id BIGINT, ts BIGINT"
    event_time: {{column: ts}}
    partition_by: [date]
"""
# Command lines, and the seconds that each of both figures may take.
COMMANDS = {
    "--help": 0.2,
    "--version": 0.2,
    "schema": 0.5,
    "services status": 0.5,
    "checkpoint inspect {lake}": 0.5,
    "stop {job}": 0.5,
    "recover {job} --explain": 0.5,
    "status {job}": 0.5,
    "validate {job}": 1.0,
}


def cpu_seconds(command: list[str], environment: dict[str, str]) -> float:
    """Run a command to its end, and return the CPU time of its process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True)  # noqa: PLW1510 - a job that never ran is told by an exit code
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


CONTROL = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]|\s")  # what moves a cursor, or colours


def seconds_to_first_text(command: list[str], environment: dict[str, str]) -> float:
    """Run a command on a terminal, and return the seconds until something can be read on it."""
    reads, writes = pty.openpty()
    began = time.perf_counter()
    process = subprocess.Popen(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=writes, stderr=writes
    )
    os.close(writes)
    text = b""
    try:
        while not CONTROL.sub(b"", text):
            text += os.read(reads, 4096)  # fails where a command ends without a word
        return time.perf_counter() - began
    finally:
        process.kill()
        process.wait()
        os.close(reads)


MEASURES = {"CPU": cpu_seconds, "first text": seconds_to_first_text}


def main() -> list[Row]:
    script = str(Path(sys.executable).with_name("ashore"))
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = {"lake": folder / "lake", "job": folder / "job.yaml"}
        files["lake"].mkdir()
        files["job"].write_text(JOB.format(name="clicks", lake=files["lake"]), "utf-8")
        environment = {
            key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"
        }
        environment |= {"ASHORE_HOME": str(folder), "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}
        for line, at_most in COMMANDS.items():
            command = [script, *line.format(**files).split()]
            cpu_seconds(command, environment)  # compiles
            for what, measure in MEASURES.items():
                spent_s = median(measure(command, environment) for _ in range(ROUNDS))
                question = f"ashore {line.format(lake='DIR', job='JOB.yaml')}, {what}"
                print(f"  {question:50} {spent_s:.2f} s", flush=True)
                rows.append(Row(question, spent_s, "s", at_most=at_most))
    return rows


if __name__ == "__main__":
    main()
