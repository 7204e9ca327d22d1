"""How long `ashore run` takes to the first row that can be read, and what shortens it.

    python -m bench.first_row

A topic of 1,000 small records on a real broker, a lake on local disk, Spark on two cores. Kept
classes: the archive that `ashore warm-up` makes. Workers that import: those of `pyspark.daemon`.
Rounds are interleaved; figures are medians.
Seconds of CPU are those of the command, its job process and the JVM, from the start to the end of
`--available-now`; those of Python workers are not in it, as their daemon waits for none of them.
"""

import ctypes
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import NamedTuple

from ashore.jobs.class_archive import find_archive
from ashore.topics.run.spark.daemon import PLAIN
from ashore.topics.run.spark.session import DAEMON, DRIVER_OPTIONS, LIGHT_JVM
from ashore.topics.use.warm_up import warm_up
from ashore_lab.services.kafka import Kafka
from ashore_lab.services.producer import Producer, create_topics
from bench.start_up import RECORDS
from bench.table import Row

ROUNDS = 4  # the first one warms up
# A job's own options, which have to do with an archive, are left as they are.
WITHOUT = f"{LIGHT_JVM[DRIVER_OPTIONS]} -DArchive=none"
CONF = {
    "without": {DRIVER_OPTIONS: WITHOUT},
    "imports": {DAEMON: PLAIN},
    "with": {},
}
PR_SET_CHILD_SUBREAPER = 36


class Start(NamedTuple):
    """What one run took."""

    said_s: float  # until the command said something
    row_s: float  # until the first row could be read
    all_s: float
    cpu_s: float


def write_job(folder: Path, name: str, servers: str, conf: dict[str, str]) -> Path:
    job = {
        "job": name,
        "lake": f"file://{folder}/lake-{name}",
        "source": {
            "kafka": {"bootstrap_servers": servers},
            "first_start": {"default": "earliest"},
        },
        "tables": [{"topic": "records", "table": "bench.records", "schema": "id BIGINT"}],
        "spark": {"master": "local[2]", "conf": conf},
    }
    path = folder / f"{name}.yaml"
    path.write_text(json.dumps(job), "utf-8")
    return path


def time_run(job_file: Path) -> Start:
    script = str(Path(sys.executable).with_name("ashore"))
    before = os.times()
    began_s, said_s, row_s = time.perf_counter(), 0.0, 0.0
    command = [script, "run", str(job_file), "--available-now"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        for line in process.stderr or ():
            said_s = said_s or time.perf_counter() - began_s
            if not row_s and " landed " in line:
                row_s = time.perf_counter() - began_s
    if process.returncode or not row_s:
        raise RuntimeError(f"the job ended with {process.returncode}")
    wait_for_orphans()
    all_s, after = time.perf_counter() - began_s, os.times()
    used = after.children_user + after.children_system
    return Start(said_s, row_s, all_s, used - before.children_user - before.children_system)


def wait_for_orphans() -> None:
    """Wait for the JVM, which nobody else waits for: only so its CPU time is counted."""
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not pid:
            return


def main() -> list[Row]:
    if find_archive() is None:
        warm_up()
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    found: dict[str, list[Start]] = {name: [] for name in CONF}
    with tempfile.TemporaryDirectory() as scratch, Kafka(Path(scratch) / "kafka") as kafka:
        folder, servers = Path(scratch), kafka.bootstrap_servers
        create_topics(servers, {"records": 2})
        with Producer(servers) as producer:
            for number in range(RECORDS):
                producer.send("records", number % 2, b'{"id": %d}' % number)
        for number in range(ROUNDS):
            for name, starts in found.items():
                job_file = write_job(folder, f"{name}-{number}", servers, CONF[name])
                starts.append(time_run(job_file))
                print(f"{name:8}", *(f"{each:6.2f}" for each in starts[-1]), file=sys.stderr)
    return rows_of({name: starts[1:] for name, starts in found.items()})


def rows_of(found: dict[str, list[Start]]) -> list[Row]:
    before, imports, after = (Start(*map(median, zip(*found[name], strict=True))) for name in CONF)
    return [
        Row("`ashore run`: first word", after.said_s, "s"),
        Row("`ashore run`: first row readable, without kept classes", before.row_s, "s"),
        Row("`ashore run`: first row readable, with kept classes", after.row_s, "s"),
        Row("`ashore run`: first row readable, workers that import", imports.row_s, "s"),
        Row("first row readable, with v. without kept classes", after.row_s / before.row_s),
        Row("CPU of such a run, with v. without kept classes", after.cpu_s / before.cpu_s),
    ]


if __name__ == "__main__":
    for row in main():
        print(row)
