"""A server over a real job: it lands from Kafka while its server is killed, and is adopted.

The job has no Spark, so that it starts quickly; server, job, broker and operations are processes.
"""

import json
import os
import re
import signal
import sys
import time
from typing import Any

import psutil
import pytest
from tests.frozen import freeze
from tests.kafka_tools import delete_topic
from tests.served import ServedJob, ended, kill_tree, serving, wait_for


@pytest.mark.thirds("a server of real jobs")
def test_a_real_job_lands_on_while_its_server_is_dead_and_is_adopted(site: ServedJob) -> None:
    def job() -> Any:
        return client.get("/api/jobs/landing").json()

    site.produce(100)
    with serving(site.jobs) as (client, server):
        client.post("/api/jobs/landing/start", json={}).raise_for_status()
        first = wait_for(job, lambda found: found["phase"] == "running")
        wait_for(site.landed, lambda rows: rows == 100)
        os.kill(server.pid, signal.SIGKILL)
        server.wait()
    site.produce(50)
    wait_for(site.landed, lambda rows: rows == 150)  # nobody serves
    with serving(site.jobs) as (client, _server):
        found = wait_for(job, lambda found: found["phase"] == "running")
        assert found["process"] == first["process"], "it is adopted, not started again"
        events = client.get("/api/events?job=landing").json()["events"]
        assert [each["event"] for each in events].count("adopted") == 1
        site.produce(25)
        wait_for(site.landed, lambda rows: rows == 175)

        asked = client.post("/api/jobs/landing/operations/verify", json={}).json()["id"]
        done = ended(client, asked)
        assert (done["state"], done["result"]["status"]) == ("done", "ok"), done

        kill_tree(found["process"]["pid"])
        wait_for(
            lambda: client.get("/ui/jobs").text,
            lambda page: "backing off" in page or "killed" in page,
        )
        again = wait_for(job, lambda each: each["phase"] == "running")
        assert again["process"]["pid"] != found["process"]["pid"]
        site.produce(5)
        wait_for(site.landed, lambda rows: rows == 5)
        client.post("/api/jobs/landing/stop", json={}).raise_for_status()
        stopped = wait_for(job, lambda each: each["phase"] == "stopped")
        assert stopped["last"]["code"] == 0


@pytest.mark.thirds("a server of real jobs")
def test_a_real_operation_is_cancelled(site: ServedJob) -> None:
    """It is held by SIGSTOP meanwhile, so that it cannot be done before."""
    site.produce(10)
    with serving(site.jobs) as (client, _server):
        client.post("/api/jobs/landing/start", json={}).raise_for_status()
        wait_for(
            lambda: site.files.run_of("landing").seen.exists() and site.landed(), lambda n: n == 10
        )
        asked = client.post("/api/jobs/landing/operations/verify", json={}).json()["id"]
        place = site.files.operations / asked / "process.json"
        wait_for(place.exists, bool)
        pid = json.loads(place.read_text("utf-8"))["pid"]
        freeze(pid)
        client.post(f"/api/operations/{asked}/cancel").raise_for_status()
        assert client.get(f"/api/operations/{asked}").json()["state"] == "running"
        os.kill(pid, signal.SIGCONT)  # now it hears it
        found = ended(client, asked)
        assert found["state"] == "cancelled", found
        assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
        assert client.get("/api/jobs/landing").json()["phase"] == "running", "the job goes on"


@pytest.mark.thirds("a server of real jobs")
def test_a_broken_file_a_changed_schema_and_a_deleted_topic_are_said_with_what_to_do(
    site: ServedJob,
) -> None:
    """A night on call: each is on the page of all jobs, by itself, with the next step."""
    job_file = site.jobs / "landing.yaml"
    good = job_file.read_text("utf-8")

    def page() -> str:
        return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", client.get("/ui/jobs").text))

    def said(*words: str) -> None:
        began_s = time.monotonic()
        wait_for(page, lambda text: all(each in text for each in words))
        sys.stderr.write(f"said after {time.monotonic() - began_s:.1f} s: {', '.join(words)}\n")

    site.produce(100)
    with serving(site.jobs) as (client, _server):
        client.post("/api/jobs/landing/start", json={}).raise_for_status()
        wait_for(site.landed, lambda rows: rows == 100)
        said("None needs a person")

        job_file.write_text(good.replace("BIGINT", "BIGNT"))
        said("its file cannot be run", "line 1", "BIGNT")
        job_file.write_text(good)
        said("None needs a person")

        job_file.write_text(good.replace("id BIGINT", "id STRING"))
        said("its file has changed", "restart it")
        client.post("/api/jobs/landing/restart", json={}).raise_for_status()
        said("needs decision", "ods.events", "next")
        job_file.write_text(good)
        client.post("/api/jobs/landing/start", json={}).raise_for_status()
        said("None needs a person")

        delete_topic(site.bootstrap, site.topic)
        said("does not exist", f"ashore rejoin {job_file}")
