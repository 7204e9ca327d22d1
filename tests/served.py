"""Servers of real jobs, as processes: what tests of several folders start them with."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import psutil
from tests.job_files import job_content
from tests.kafka_tools import create_topic, produce

from ashore.fleet.records.server_files import RunSeen, ServerFiles
from ashore.fleet.records.store import read_record
from ashore.log.entries import Prepare
from ashore.log.store.reader import read_history
from ashore.topics.open_job import open_job

ROOT = Path(__file__).parents[1]
SCRIPT = "from ashore.cli import main; main()"
WITHIN_S = 120.0
UNDER_WAY = {"queued", "running"}

Serving = tuple[httpx.Client, "subprocess.Popen[str]"]


@contextmanager
def serving(directory: Path, *options: str, before: Sequence[str] = ()) -> Iterator[Serving]:
    """Have a server of a directory of job files, which is killed at the end; its jobs go on.

    `before`: of its command.
    """
    command = [sys.executable, "-c", SCRIPT, "serve", str(directory), "--port", "0", "--no-token"]
    with subprocess.Popen(
        [*before, *command, *options], cwd=ROOT, stderr=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stderr is not None
            url = server.stderr.readline().split()[-1]
            with httpx.Client(base_url=url, timeout=60, follow_redirects=True) as client:
                yield client, server
        finally:
            server.kill()


def wait_for(
    look: Callable[[], Any], is_so: Callable[[Any], bool] = bool, within_s: float = WITHIN_S
) -> Any:
    """Look until it is so, and return what was seen then."""
    deadline_s = time.monotonic() + within_s
    while True:
        found = look()
        if is_so(found):
            return found
        assert time.monotonic() < deadline_s, found
        time.sleep(0.1)


def ended(client: httpx.Client, operation: str, within_s: float = WITHIN_S) -> dict[str, Any]:
    """Wait for an operation, and return it."""
    found: dict[str, Any] = wait_for(
        lambda: client.get(f"/api/operations/{operation}?wait_s=20").json(),
        lambda each: each["state"] not in UNDER_WAY,
        within_s,
    )
    return found


def kill_tree(pid: int) -> None:
    """Kill a process and all that come from it."""
    if psutil.pid_exists(pid):
        for each in [*psutil.Process(pid).children(recursive=True), psutil.Process(pid)]:
            each.kill()


def kill_jobs(files: ServerFiles) -> None:
    """Kill the jobs that a server has left."""
    for path in files.runs.glob("*/process.json"):
        kill_tree(int(json.loads(path.read_text("utf-8"))["pid"]))


class ServedJob:
    """A directory with the file of one job without Spark, its topic and its lake."""

    def __init__(self, directory: Path, bootstrap: str, partitions: int = 1) -> None:
        self.jobs = directory / "jobs"
        self.jobs.mkdir()
        self.files = ServerFiles.of(self.jobs)
        self.bootstrap = bootstrap
        self.topic = f"served-{uuid4().hex[:10]}"
        create_topic(bootstrap, self.topic, partitions)
        content = job_content(bootstrap, directory, self.topic, batch={"interval": "100ms"})
        (self.jobs / "landing.yaml").write_text(json.dumps(content))
        self.sent = 0

    def produce(self, count: int) -> None:
        values = [json.dumps({"id": self.sent + each}).encode() for each in range(count)]
        produce(self.bootstrap, self.topic, values, partition=0)
        self.sent += count

    def landed(self) -> int:
        """Return the rows that the run has landed, as it says itself."""
        seen = read_record(RunSeen, self.files.run_of("landing").seen)
        return 0 if seen is None else sum(each.rows for each in seen.slices)

    def rows_in_log(self) -> int:
        """Return the rows that its log lists, whoever landed them."""
        with open_job(self.jobs / "landing.yaml") as opened:
            bodies = [each.body for each in read_history(opened.storage, opened.name)]
        files = [each.files for each in bodies if isinstance(each, Prepare)]
        return sum(file.rows for each in files for file in each)
