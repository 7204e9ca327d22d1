"""Disks that are full, for real: that of a job's lake, and that of a server. A page says it."""

import html
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.full_disk import fill, free, on_small_disk, seen_by
from tests.served import ServedJob, ended, kill_tree, serving, wait_for

from ashore_lab.services.kafka import Kafka

SAID_S = 5.0
SIZE = "4m"


@pytest.fixture
def site(kafka: Kafka, tmp_path: Path) -> ServedJob:
    return ServedJob(tmp_path, kafka.bootstrap_servers)


def page(client: httpx.Client) -> str:
    text = re.sub(r"<[^>]+>", " ", client.get("/ui/jobs").text)
    return html.unescape(re.sub(r"\s+", " ", text))


def job(client: httpx.Client) -> Any:
    return client.get("/api/jobs/landing").json()


def end(client: httpx.Client) -> None:
    process = job(client)["process"]
    if process is not None:
        kill_tree(process["pid"])


def rows_of(client: httpx.Client) -> Callable[[], int]:
    return lambda: sum(each["rows"] for each in job(client)["slices"])


def said(client: httpx.Client, *words: str) -> None:
    wait_for(lambda: page(client), lambda text: all(each in text for each in words), SAID_S)


def test_a_full_lake_is_said_with_what_to_do_and_the_job_goes_on_once_there_is_room(
    site: ServedJob,
) -> None:
    lake = site.jobs.parent / "lake"
    on_disk = on_small_disk(lake, SIZE, [])
    site.produce(100)
    with serving(site.jobs, before=on_disk) as (client, server):
        client.post("/api/jobs/landing/start", json={}).raise_for_status()
        try:
            wait_for(rows_of(client), lambda rows: rows == 100)
            said(client, "None needs a person")
            disk = seen_by(server.pid, lake)
            fill(disk)
            began_s = time.monotonic()
            site.produce(50)
            said(client, "No space left on device", "free space on the disk", "tries again")
            assert time.monotonic() - began_s < SAID_S
            assert job(client)["phase"] == "running"

            free(disk)
            wait_for(rows_of(client), lambda rows: rows == 150)
            said(client, "None needs a person")
            asked = client.post("/api/jobs/landing/operations/verify", json={}).json()["id"]
            assert ended(client, asked)["result"]["status"] == "ok"
        finally:
            end(client)


@pytest.mark.long  # records that are not written: tests/unit/fleet
def test_a_server_whose_disk_is_full_says_so_and_keeps_its_jobs_running(site: ServedJob) -> None:
    state = site.jobs.parent / "state"
    on_disk = on_small_disk(state, SIZE, [])
    site.produce(100)
    with serving(site.jobs, "--state", str(state), before=on_disk) as (client, server):
        client.post("/api/jobs/landing/start", json={}).raise_for_status()
        try:
            wait_for(rows_of(client), lambda rows: rows == 100)
            first = job(client)["process"]["pid"]
            disk = seen_by(server.pid, state)
            fill(disk)
            refused = client.post("/api/jobs/landing/pause", json={})
            assert (refused.status_code, refused.json()["code"]) == (507, "server-disk-failed")
            assert str(state) in refused.json()["hint"]
            site.produce(50)
            wait_for(site.rows_in_log, lambda rows: rows == 150)  # nobody can write that down
            kill_tree(first)
            began_s = time.monotonic()
            said(client, "cannot be written: No space left on device", "Jobs are kept as they are")
            assert time.monotonic() - began_s < SAID_S

            free(disk)
            wait_for(lambda: "cannot be written" in page(client), lambda found: not found, 20)
            site.produce(50)
            wait_for(site.rows_in_log, lambda rows: rows == 200)
            assert job(client)["process"]["pid"] != first, "it is started again by itself"
        finally:
            end(client)
