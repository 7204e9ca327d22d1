"""Draining a real job: what was in its topic lands, and then it is stopped."""

import json
import os
import signal
import subprocess
import sys
from typing import Any

import httpx
import psutil
import pytest
from tests.served import ROOT, SCRIPT, ServedJob, ended, kill_tree, serving, wait_for

from ashore.log.entries import Commit
from ashore.log.store.reader import read_history
from ashore.topics.open_job import open_job

JOB = "/api/jobs/landing"
BATCHES, BATCH = 240, 20


@pytest.fixture
def site(site: ServedJob) -> ServedJob:
    """Return a job whose batches are small, so that what waits takes it a while."""
    path = site.jobs / "landing.yaml"
    content = json.loads(path.read_text())
    content["batch"] = {"interval": "100ms", "max_records": BATCH}
    path.write_text(json.dumps(content))
    site.produce(BATCHES * BATCH)
    return site


def phase(client: httpx.Client) -> str:
    return str(client.get(JOB).json()["phase"])


def drain(client: httpx.Client) -> str:
    asked = client.post(f"{JOB}/operations/stop", json={"drain": True}).raise_for_status()
    return str(asked.json()["id"])


def landing(client: httpx.Client, operation: str) -> Any:
    """Wait until an operation has landed something, and return it: it has more to land."""
    return wait_for(
        lambda: client.get(f"/api/operations/{operation}").json(),
        lambda each: each["progress"] is not None and each["progress"]["done"] > 0,
    )


def suspend_tree(pid: int) -> None:
    process = psutil.Process(pid)
    for each in (process, *process.children(recursive=True)):
        each.suspend()


@pytest.mark.thirds("a server of real jobs")
def test_what_was_there_lands_and_then_the_job_is_stopped(site: ServedJob) -> None:
    with serving(site.jobs) as (client, _server):
        client.post(f"{JOB}/start", json={}).raise_for_status()
        wait_for(site.landed, lambda rows: rows > 0)
        asked = drain(client)
        at = landing(client, asked)
        assert (at["state"], at["progress"]["what"]) == ("running", "records landed")
        assert 0 < at["progress"]["done"] < at["progress"]["total"] <= site.sent
        assert phase(client) == "stopping"
        assert asked in client.get("/ui/jobs/landing").text, "the page names what stops it"

        found = ended(client, asked)
        assert (found["state"], found["exit_code"]) == ("done", 0), found
        assert found["progress"]["done"] == found["progress"]["total"]
        assert 0 < found["result"]["drained"]["rows"] < site.sent, "the process before landed some"
        assert site.rows_in_log() == site.sent
        wait_for(lambda: phase(client), lambda found: found == "stopped")
        assert client.get(JOB).json()["desired"]["state"] == "stopped"

        site.produce(BATCH)  # afterwards nothing lands, until somebody drains it again
        form = {"why": "a test", "csrf": csrf(client)}
        client.post("/ui/jobs/landing/do/drain", data=form).raise_for_status()
        newest = client.get("/api/operations").json()["operations"][0]
        assert (newest["command"], ended(client, newest["id"])["state"]) == ("stop", "done")
        assert site.rows_in_log() == site.sent

        site.produce(BATCH)
        command = [sys.executable, "-c", SCRIPT, "--server", str(client.base_url)]
        done = subprocess.run(
            [*command, "stop", "landing", "--drain"],
            cwd=ROOT, capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert f"landed {BATCH} records in 1 batches: drained" in done.stdout
        checked = client.post(f"{JOB}/operations/verify", json={}).json()["id"]
        assert ended(client, checked)["result"]["status"] == "ok"


def csrf(client: httpx.Client) -> str:
    page = client.get("/ui/jobs/landing/do/drain").text
    return page.partition('name="csrf" value="')[2].partition('"')[0]


@pytest.mark.long  # cancelled operations: test_served_jobs.py
def test_a_drain_that_is_cancelled_is_a_stop_in_order(site: ServedJob) -> None:
    with serving(site.jobs) as (client, _server):
        asked = drain(client)  # of a job that was never started
        landing(client, asked)
        client.post(f"/api/operations/{asked}/cancel").raise_for_status()
        assert ended(client, asked)["state"] == "cancelled"
        wait_for(lambda: phase(client), lambda found: found == "stopped")
        with open_job(site.jobs / "landing.yaml") as opened:
            *_, last = read_history(opened.storage, opened.name)
        assert isinstance(last.body, Commit), "nothing is left to recover"
        assert 0 < site.rows_in_log() < site.sent

        second = drain(client)
        landing(client, second)
        client.post(f"{JOB}/start", json={}).raise_for_status()  # somebody wants it to run on
        assert ended(client, second)["state"] in {"cancelled", "failed"}
        wait_for(site.rows_in_log, lambda rows: rows == site.sent)
        assert phase(client) == "running"


@pytest.mark.long  # every day a server that is killed: tests/crash/test_server_killed.py
def test_a_drain_that_is_killed_holds_the_job_no_longer_though_the_server_was_killed(
    site: ServedJob,
) -> None:
    with serving(site.jobs) as (client, server):
        client.post(f"{JOB}/start", json={}).raise_for_status()
        wait_for(site.landed, lambda rows: rows > 0)
        asked = drain(client)
        landing(client, asked)
        os.kill(server.pid, signal.SIGKILL)
        server.wait()
    record = json.loads((site.files.operations / asked / "process.json").read_text("utf-8"))
    suspend_tree(record["pid"])  # else it could be done before the next server is up
    with serving(site.jobs) as (client, _server):
        assert phase(client) == "stopping", "it lives, and holds the job"
        assert client.get(f"/api/operations/{asked}").json()["state"] == "running"
        kill_tree(record["pid"])
        wait_for(lambda: phase(client), lambda found: found == "stopped", within_s=5)
        assert client.get(f"/api/operations/{asked}").json()["state"] == "lost"
        assert 0 < site.rows_in_log() < site.sent
        again = drain(client)
        assert ended(client, again)["state"] == "done"
        assert site.rows_in_log() == site.sent
        checked = client.post(f"{JOB}/operations/verify", json={}).json()["id"]
        assert ended(client, checked)["result"]["status"] == "ok"
