"""From produced to readable: a job of Ashore whose query has state.

What it is: Kafka, its records joined with themselves, a table on the local disk, the checkpoint on
HDFS. Each record is new, and either side of the join keeps it, so that each batch adds to the
state, which begins with all keys of the case.
What it promises: the job is started as users start it; a mode is what its job file says under
`spark.conf`. A file counts from the moment that it has its final name.
What it must not know: what Ashore does inside.
"""

import json
import os
import shutil
import threading
import time
from collections import deque
from pathlib import Path

from ashore.jobs.launch import JobLaunch
from ashore_lab.services.kafka import BrokerOptions, Kafka
from ashore_lab.services.producer import create_topics
from bench.checkpoints.modes import CORES, KEEP_S, Case, overrides
from bench.checkpoints.results import Fresh
from bench.checkpoints.run import Site, now
from bench.peers.streaming import Watcher, list_final, summarize, wait_for_rows
from bench.peers.workload import PARTITIONS, SMALL, produce_steadily
from bench.processes import ChildFailed

TOPIC = "checkpoints"
FILL_PER_S = 50_000
RECORDS_PER_S = 2_000
FILL_DEADLINE_S = 900.0
LOOK_EVERY_S = 0.1  # at many files: looking takes time of the same two cores
# Of what SQL has, an inner join alone both keeps state and hands each row on at once: a window, and
# DISTINCT too, waits for the watermark.
SQL = """
    INSERT INTO bench.joined SELECT a.id, a.ts, a.event_time
    FROM records a JOIN records b ON a.id = b.id AND a.event_time = b.event_time;
"""


def write_job_file(case: Case, servers: str, checkpoints: str, root: Path) -> Path:
    """Write the job and return its path."""
    records = {
        "topic": TOPIC,
        "table": "bench.records",
        "land": False,
        "on_invalid": "fail",
        "schema": SMALL.ddl,
        "event_time": {"column": "ts"},
        "late": {"after": "1h"},
    }
    job = {
        "job": "fresh",
        "lake": f"file://{root}/lake",
        "source": {
            "kafka": {"bootstrap_servers": servers},
            "first_start": {"default": "earliest"},
        },
        "tables": [records, {"table": "bench.joined", "partition_by": []}],
        "sql": {
            "text": SQL,
            "checkpoints": checkpoints,
            "state_partitions": case.partitions,
            "keep": f"{KEEP_S:g}s",
        },
        "batch": {"interval": f"{round(case.interval_s * 1000)}ms"},
        "spark": {
            "master": f"local[{CORES}]",
            "conf": {"spark.driver.memory": "3g", **overrides(case.mode)},
        },
    }
    path = root / "fresh.yaml"
    path.write_text(json.dumps(job, indent=1), "utf-8")
    return path


def measure_fresh(site: Site, case: Case) -> Fresh:
    """Return how long records took from being produced to being readable."""
    when, root = now(), site.directory / "fresh"
    root.mkdir()
    os.environ["HADOOP_CONF_DIR"] = str(site.hdfs.conf_dir)
    os.environ["ASHORE_HOME"] = str(root / "home")
    table = root / "lake" / "bench.db" / "joined"
    try:
        with Kafka(root / "kafka", BrokerOptions(heap="512m")) as kafka:
            servers = kafka.bootstrap_servers
            create_topics(servers, {TOPIC: PARTITIONS})
            job_file = write_job_file(case, servers, f"{site.root}/{case.name}", root)
            launch = JobLaunch("run", job_file)
            with launch, Watcher(lambda: list_final(table), LOOK_EVERY_S) as watcher:
                reported = _listen(launch)
                known = produce_steadily(servers, TOPIC, FILL_PER_S, case.keys / FILL_PER_S)
                _wait(watcher, known, reported)
                time.sleep(2 * case.interval_s)
                began_ms = time.time() * 1000
                count = produce_steadily(servers, TOPIC, RECORDS_PER_S, site.lengths.steady_s)
                _wait(watcher, known + count, reported)
        found = summarize(watcher.seen_ms, began_ms)
    finally:
        shutil.rmtree(root)
    if found.records != count:
        raise ChildFailed(f"{found.records:,} records of {count:,} are readable")
    return Fresh(case, when, count, found.p50_s, found.p99_s)


def _listen(launch: JobLaunch) -> deque[object]:
    """Let the job go on talking. Returns what it says last."""
    said: deque[object] = deque(maxlen=10)
    threading.Thread(target=lambda: said.extend(launch.events()), daemon=True).start()
    return said


def _wait(watcher: Watcher, count: int, reported: deque[object]) -> None:
    try:
        wait_for_rows(watcher, count, FILL_DEADLINE_S)
    except ChildFailed as error:
        raise ChildFailed(f"{error}; the job said last: {list(reported)}") from None
