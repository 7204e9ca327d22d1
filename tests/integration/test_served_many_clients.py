"""Clients of a server slow no job: a thousand that poll, and some that send byte by byte."""

import json
import statistics
import subprocess
import sys
import time

import httpx
import pytest
from tests.served import ROOT, ServedJob, serving, wait_for

POLLERS, SLOW = 1_000, 50
ROUNDS, RECORDS, EVERY_S = 25, 400, 0.3
SETTLE_S = 6.0  # until each of the clients has begun
SLOWER = 2.0  # times: on two cores, which the clients and other tests use as well


def land_rounds(client: httpx.Client, site: ServedJob) -> float:
    """Land records again and again; return the median of what a batch took, in milliseconds."""
    for _ in range(ROUNDS):
        site.produce(RECORDS)
        time.sleep(EVERY_S)
    wait_for(site.landed, lambda rows: rows == site.sent)
    (part,) = client.get("/api/jobs/landing").json()["slices"]
    taken = [sum(step["took_ms"] for step in each["steps"]) for each in part["batches"]]
    assert len(taken) >= ROUNDS - 5, "the newest twenty, all of these rounds"
    return statistics.median(taken)


@pytest.mark.long  # it compares times, which other tests beside it make longer
def test_many_clients_and_slow_ones_do_not_slow_a_job(site: ServedJob) -> None:
    with serving(site.jobs) as (client, _server):
        client.post("/api/jobs/landing/start", json={}).raise_for_status()
        site.produce(RECORDS)
        wait_for(site.landed, lambda rows: rows == site.sent)
        alone_ms = land_rounds(client, site)
        clients = [sys.executable, "-m", "bench.serve_pollers", str(client.base_url)]
        with subprocess.Popen(
            [*clients, str(POLLERS), str(SLOW)],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        ) as many:  # fmt: skip
            time.sleep(SETTLE_S)
            beside_ms = land_rounds(client, site)
            told = json.loads(many.communicate(timeout=60)[0])
        sys.stderr.write(f"a batch: {alone_ms:.0f} ms alone, {beside_ms:.0f} ms beside; {told}\n")
        assert told["gave_up"] == 0
        assert told["answers"] > POLLERS, "they were all served"
        assert beside_ms < SLOWER * alone_ms
        assert client.get("/api/jobs/landing").json()["phase"] == "running"
