"""A light writer that stands for many jobs: `python -m bench.serve_writer DIR BROKERS JOB...`.

Each job lands a batch of one file every 2 s: an entry of its landing log, which is a real one, and
the files of its run. It holds the lock of each run, so a server adopts it as the process of each.
"""

import json
import os
import sys
import time
from dataclasses import replace
from pathlib import Path

import psutil

from ashore.base import codec
from ashore.base.clock import SystemClock
from ashore.base.unique import unique
from ashore.fleet.machine.locks import take_lock
from ashore.fleet.records.job_files import digest_job_file
from ashore.fleet.records.server_files import (
    BatchSeen,
    Desired,
    DesiredState,
    ProcessRecord,
    RunFiles,
    RunSeen,
    ServerFiles,
    SliceSeen,
    StepTaken,
    desired_name,
)
from ashore.fleet.records.store import write_hint, write_record
from ashore.jobs.file import Job
from ashore.jobs.heartbeat import Heartbeat, heartbeat_path
from ashore.log.entries import Commit, Draft, Join, Joined, Open, Prepare, ShardRead, write_entry
from ashore.log.extend import extend
from ashore.log.files import Role, Target
from ashore.log.fold import EMPTY
from ashore.log.names import SliceName, entry_path, log_directory, snapshot_path, table_path
from ashore.log.positions import BatchTime, OffsetRange, ShardKey
from ashore.log.snapshot import write_snapshot
from ashore.log.store.log import SNAPSHOT_EVERY
from ashore.topics.loop.job import load_job_file
from ashore.topics.read.kafka import KafkaSource
from ashore_lab.testing.simulation import write_simulated_job
from bench.log_start import DDL, Writer

EVERY_S, ENTRIES, DAYS, HOURS = 2.0, 1_500, 4, 24
STEPS = ("plan", "write", "prepare", "move", "seal", "idle")


class ActiveJob(Writer):
    """One job: its log, and the files of its run."""

    def __init__(self, files: ServerFiles, name: str, stream_id: str) -> None:
        self.name, self.table = name, f"ods.{name.replace('-', '_')}"
        self.key = ShardKey("kafka", name, 1, "0")
        self.lake = files.jobs / "lake" / name
        self.slice = SliceName(name, "main")
        self.run: RunFiles = files.run_of(name)
        self.job: Job = load_job_file(files.jobs / f"{name}.yaml")
        self.clock, self.fold, self.batches = SystemClock(), EMPTY, ()
        self._shards = 1
        self.process = psutil.Process()
        (self.lake / log_directory(self.slice)).mkdir(parents=True)
        for day in range(DAYS):
            for hour in range(HOURS):
                part = f"date=2026-11-{20 + day:02d}/hour={hour:02d}"
                (self.lake / table_path(self.table) / part).mkdir(parents=True)
        self.append(Open("bench", os.getpid(), "0.1.0"))
        self.append(Join((Joined(self.key, stream_id, 0, "earliest"),)))
        while self.fold.end < ENTRIES:
            self.land()
        self.adopt(files)

    def append(self, body: Open | Join | Prepare | Commit) -> None:
        closing = None if isinstance(body, Open | Join) else self.closing()
        number, last = self.fold.end + 1, self.fold.last
        draft = Draft(number, unique() + unique(), 1, self.clock.now_ms(), last, closing, body)
        entry, data = write_entry(draft)
        self.fold = extend(self.fold, entry)
        path = self.lake / entry_path(self.slice, entry.number)
        made = path.with_name(f".{path.name}")
        made.write_bytes(data)
        made.rename(path)
        if isinstance(body, Commit):
            snapshot = self.lake / snapshot_path(self.slice, entry.number)
            snapshot.write_bytes(write_snapshot(self.fold))
            self.fold = replace(self.fold, base=entry.number)

    def land(self) -> None:
        batch, size, now_ms = self.fold.next_batch, 0, self.clock.now_ms()
        reads = ShardRead(
            key=self.key, offsets=OffsetRange(0, size), table=self.table, fetched=0, landed=0,
            dead=0, filtered=0, dropped=0, size_bytes=0, event_max_ms=now_ms,
        )  # fmt: skip
        target = Target(self.table, Role.MAIN, "", (), DDL, "parquet")
        body = Prepare(batch, BatchTime(now_ms), (reads,), (target,), (), (), None)
        self.append(body)
        if self.fold.end - self.fold.base >= SNAPSHOT_EVERY:
            self.append(Commit("snapshot"))

    def adopt(self, files: ServerFiles) -> None:
        """Become the process of the job."""
        self.run.root.mkdir(parents=True)
        self.lock = take_lock(self.run.lock)
        now_ms = self.clock.now_ms()
        wanted = Desired(DesiredState.RUNNING, 0, 1, "b", now_ms)
        write_record(files.state / desired_name(self.name), wanted)
        self.started_ms = round(self.process.create_time() * 1000)
        digest = digest_job_file(files.jobs / f"{self.name}.yaml", self.job)
        numbers = (0, 1, os.getpid(), self.started_ms, digest)
        write_record(self.run.process, ProcessRecord("bench", self.name, *numbers))
        self.report()

    def report(self) -> None:
        """Write where the run is, as a job process that lands small batches does."""
        now_ms, end = self.clock.now_ms(), self.fold.end
        steps = tuple(StepTaken(each, 12) for each in STEPS)
        batch = BatchSeen(end, end, 100, 1, now_ms, steps, (self.table,))
        self.batches = (*self.batches, batch)[-20:]
        seen = SliceSeen(
            "main", "running", "idle", now_ms, 1, end, end, 0, 50, 100 * end, now_ms, now_ms,
            batches=self.batches, lag_at_ms=now_ms,
        )  # fmt: skip
        whole = RunSeen("bench", self.name, now_ms, "running", os.getpid(), (seen,))
        write_hint(self.run.seen, json.dumps(codec.encode_object(whole)))
        lake = str(self.job.lake)
        marks = (os.uname().nodename, os.getpid(), self.started_ms, now_ms, "plan", now_ms)
        beat = Heartbeat(self.name, lake, *marks)
        path = heartbeat_path(self.name, lake)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_hint(path, json.dumps(codec.encode_object(beat)))


def main() -> None:
    directory, brokers, *names = sys.argv[1:]
    files = ServerFiles.of(Path(directory))
    for name in names:
        path = write_simulated_job(files.jobs, name, files.jobs / "lake" / name)
        path.write_text(path.read_text("utf-8").replace("127.0.0.1:1", brokers), "utf-8")
    source = KafkaSource(brokers, {}, 30.0)
    streams = source.describe_streams(names)
    jobs = [ActiveJob(files, name, streams[name].stream_id) for name in names]
    print("ready", flush=True)
    while True:
        for each in jobs:
            began_s = time.monotonic()
            each.land()
            each.report()
            time.sleep(max(0.0, EVERY_S / len(jobs) - (time.monotonic() - began_s)))


if __name__ == "__main__":
    main()
