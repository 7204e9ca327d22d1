"""What a command costs whose answer somebody waits for: the CPU time of its whole process.

    python -m bench.commands

User and system time, as nothing else is the command's own: `status` and `validate` also wait five
seconds for a Kafka that does not answer. The job has no SQL and has never run. Medians of five, the
byte code of all modules kept.
"""

import os
import resource
import subprocess
import sys
import tempfile
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
# Command lines, and the seconds that the whole command may take.
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
            spent_s = median(cpu_seconds(command, environment) for _ in range(ROUNDS))
            question = f"ashore {line.format(lake='DIR', job='JOB.yaml')}, CPU"
            print(f"  {question:42} {spent_s:.2f} s", flush=True)
            rows.append(Row(question, spent_s, "s", at_most=at_most))
    return rows


if __name__ == "__main__":
    main()
