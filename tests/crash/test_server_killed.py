"""The drill: the server is killed while 20 jobs run and a savepoint is taken."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil
from bench.serve import end_jobs, phases

from ashore.fleet.operate.verbs import Verbs
from ashore.fleet.records.server_files import Asker, ServerFiles
from ashore_lab.testing.simulation import write_simulated_job

ROOT = Path(__file__).parents[2]
JOBS, WITHIN_S = 20, 120.0


@contextmanager
def serving(directory: Path) -> Iterator[tuple[httpx.Client, "subprocess.Popen[str]"]]:
    command = [sys.executable, "-m", "bench.serve_process", str(directory), "8"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            with httpx.Client(base_url=server.stdout.readline().strip(), timeout=60) as client:
                yield client, server
        finally:
            server.kill()


def wait_running(client: httpx.Client) -> dict[str, int]:
    """Return the process of each job, once all of them run."""
    deadline_s = time.monotonic() + WITHIN_S
    while phases(client) != {"running": JOBS}:
        assert time.monotonic() < deadline_s, phases(client)
        time.sleep(0.1)
    jobs = client.get("/api/jobs").json()["jobs"]
    return {each["name"]: each["process"]["pid"] for each in jobs}


def test_no_job_notices_and_none_doubles_and_the_savepoint_is_taken(tmp_path: Path) -> None:
    jobs = tmp_path / "jobs"
    jobs.mkdir()
    files = ServerFiles.of(jobs)
    files.make()
    for number in range(JOBS):
        write_simulated_job(jobs, f"job-{number}")
        Verbs(files).start(f"job-{number}", Asker("drill"))
    try:
        with serving(jobs) as (client, server):
            before = wait_running(client)
            asked = client.post(
                "/api/jobs/job-0/operations/checkpoint/savepoint", json={"to": "savepoints"}
            ).json()
            deadline_s = time.monotonic() + WITHIN_S
            while client.get(f"/api/operations/{asked['id']}").json()["state"] != "running":
                assert time.monotonic() < deadline_s
                time.sleep(0.05)
            os.kill(server.pid, signal.SIGKILL)
            server.wait()
            assert all(psutil.pid_exists(pid) for pid in before.values()), "no job noticed"
        with serving(jobs) as (client, _server):
            assert wait_running(client) == before, "each was adopted"
            found = client.get(f"/api/operations/{asked['id']}?wait_s=60").json()
            assert (found["state"], found["result"]) == ("done", {"savepoint": "taken"})
            adopted = client.get("/api/events?limit=1000").json()["events"]
            assert {each["job"] for each in adopted if each["event"] == "adopted"} == set(before)
        for name in before:
            root = files.run_of(name).root
            assert len((root / "starts").read_text().split()) == 1
            assert not (root / "doubled").exists()
        assert (files.operations / asked["id"] / "starts").read_text() == "x"
        assert json.loads((files.operations / asked["id"] / "output").read_text())
    finally:
        end_jobs(files)
