"""Limits of a server over real jobs: who waits for what, and what becomes of one above its own."""

import json
import re
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.served import ServedJob, serving, wait_for

START = {"why": "a test"}


@pytest.fixture
def site(site: ServedJob, tmp_path: Path) -> ServedJob:
    """Return a job and another one, over the same topic, with a lake of its own."""
    content = json.loads((site.jobs / "landing.yaml").read_text())
    content |= {"job": "second", "lake": f"file://{tmp_path}/second"}
    (site.jobs / "second.yaml").write_text(json.dumps(content))
    site.produce(10)
    return site


def job(client: httpx.Client, name: str) -> Any:
    return client.get(f"/api/jobs/{name}").json()


def page(client: httpx.Client) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", client.get("/ui/jobs").text))


def wait_for_phase(client: httpx.Client, name: str, phase: str) -> Any:
    return wait_for(lambda: job(client, name), lambda found: found["phase"] == phase)


@pytest.mark.thirds("a server of real jobs")
def test_a_job_beyond_max_jobs_waits_says_so_and_has_its_turn(site: ServedJob) -> None:
    with serving(site.jobs, "--max-jobs", "1") as (client, _server):
        client.post("/api/jobs/landing/start", json=START).raise_for_status()
        wait_for_phase(client, "landing", "running")
        client.post("/api/jobs/second/start", json=START).raise_for_status()
        found = wait_for_phase(client, "second", "waiting")
        assert found["why"].startswith("1 jobs run, ")
        assert "--max-jobs" in found["why"]
        assert found["process"] is None
        wait_for(lambda: page(client), lambda text: found["why"] in text, within_s=5)
        assert job(client, "landing")["phase"] == "running", "nothing is ended for another"
        client.post("/api/jobs/landing/stop", json=START).raise_for_status()
        wait_for_phase(client, "second", "running")
        assert job(client, "landing")["phase"] == "stopped"


# Every day with a simulated process: tests/unit/fleet/test_supervisor.py.
@pytest.mark.long
def test_a_job_above_max_job_memory_is_stopped_says_what_to_do_and_keeps_no_other(
    site: ServedJob,
) -> None:
    limit = "--max-job-memory"
    with serving(site.jobs, limit, "1GB", "--max-memory", "1.5GB") as (client, _server):
        client.post("/api/jobs/landing/start", json=START).raise_for_status()
        wait_for_phase(client, "landing", "running")
        client.post("/api/jobs/second/start", json=START).raise_for_status()
        found = wait_for_phase(client, "second", "waiting")
        assert "--max-memory" in found["why"], "one that starts may need 1.5 GB"
    with serving(site.jobs, limit, "20MB") as (client, _server):
        found = wait_for(
            lambda: job(client, "landing"), lambda each: each["phase"] == "backing-off"
        )
        assert "above the limit of 20 MB (--max-job-memory)" in found["why"]
        assert found["last"]["code"] == 0, "it was stopped gracefully"
        wait_for(
            lambda: page(client),
            lambda text: "above the limit" in text and "smaller batches" in text,
        )
        events = client.get("/api/events?job=landing").json()["events"]
        assert "memory" in [each["event"] for each in events]
