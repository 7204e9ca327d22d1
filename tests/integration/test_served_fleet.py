"""The drill: a server is killed while 20 real jobs land from Kafka and a savepoint is taken.

Most jobs have no Spark, so that two cores are enough; four land by Spark, and one computes SQL with
state, of which the savepoint is. Each process is one that a user has: server, jobs, operation.
"""

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import psutil
import pytest
from tests.frozen import freeze
from tests.job_files import job_content
from tests.kafka_tools import create_topic, produce
from tests.served import ended, kill_jobs, serving, wait_for
from tests.spark.site import SHORT_LIVED

from ashore.fleet.records.server_files import RunSeen, ServerFiles
from ashore.fleet.records.store import read_record
from ashore.jobs.heartbeat import read_heartbeat
from ashore.log.store.reader import read_history
from ashore.topics.open_job import open_job
from ashore_lab.services.kafka import Kafka

LOCAL, ON_SPARK, AT_ONCE = 15, 4, 5  # 20 with the one that computes
START_MS, MINUTE_MS = 1_795_003_200_000, 60_000
BATCH = 120  # records of each topic and stage: two minutes of event time, one a second
STARTED_S = 300.0
SMALL = {
    "master": "local[1]",
    "conf": {
        **SHORT_LIVED,
        "spark.driver.memory": "600m",
    },
}
COUNTS = """
    INSERT INTO ods.per_minute
    SELECT window.start AS minute, count(*) AS clicks, sum(id) AS ids
    FROM clicks GROUP BY window(event_time, '1 minute');
"""
Epochs = dict[str, tuple[int, ...]]  # by slice


class Fleet:
    """Twenty job files, each with its topic and its lake."""

    def __init__(self, directory: Path, bootstrap: str) -> None:
        self.directory = directory
        self.bootstrap = bootstrap
        self.files = ServerFiles.of(directory / "jobs")
        self.files.jobs.mkdir()
        self.topics: dict[str, str] = {}
        self.sent = 0
        for number in range(LOCAL):
            self._write(f"local-{number:02d}")
        for number in range(ON_SPARK):
            self._write(f"spark-{number}", spark=SMALL)
        self._write(
            "sql",
            spark=SMALL,
            sql={"text": COUNTS, "state_partitions": 2},
            tables=[
                {
                    "table": "ods.clicks",
                    "land": False,
                    "on_invalid": "drop",
                    "schema": "id BIGINT, ts BIGINT",
                    "event_time": {"column": "ts"},
                    "late": {"after": "10s"},
                },
                {"table": "ods.per_minute", "event_time": {"column": "minute"}},
            ],
        )

    def _write(self, name: str, **more: Any) -> None:
        topic = self.topics[name] = f"fleet-{name}-{uuid4().hex[:8]}"
        create_topic(self.bootstrap, topic, 1)
        more.setdefault("tables", [{"table": "ods.events", "schema": "id BIGINT, ts BIGINT"}])
        more["tables"][0]["topic"] = topic
        more |= {"job": name, "batch": {"interval": "500ms"}}
        content = job_content(self.bootstrap, self.directory / name, topic, **more)
        (self.files.jobs / f"{name}.yaml").write_text(json.dumps(content, indent=1))

    def produce(self) -> None:
        """Send the same records to all topics."""
        numbers = range(self.sent, self.sent + BATCH)
        values = [json.dumps({"id": each, "ts": START_MS + each * 1000}) for each in numbers]
        for topic in self.topics.values():
            produce(self.bootstrap, topic, [each.encode() for each in values], partition=0)
        self.sent += BATCH

    def landed(self) -> dict[str, int]:
        """Return the rows of each job, as its process says; of the query, those of closed minutes.

        Its watermark is ten seconds behind the newest record, so the last minute stays open.
        """
        seen = {name: read_record(RunSeen, self.files.run_of(name).seen) for name in self.topics}
        return {
            name: 0 if each is None else sum(part.rows for part in each.slices)
            for name, each in seen.items()
        }

    def is_landed(self, found: dict[str, int]) -> bool:
        """Tell whether all that was sent has landed."""
        minutes = self.sent * 1000 // MINUTE_MS - 1
        return all(
            rows == (minutes if name == "sql" else self.sent) for name, rows in found.items()
        )

    def epochs(self) -> Epochs:
        """Return of each slice in which epochs its entries were written: one for each owner."""
        found: Epochs = {}
        for name in self.topics:
            with open_job(self.files.jobs / f"{name}.yaml") as opened:
                for each in opened.slices:
                    entries = read_history(opened.storage, each)
                    found[f"{name}/{each.slice}"] = tuple(sorted({one.epoch for one in entries}))
        return found

    def pids(self) -> dict[str, tuple[int | None, int | None]]:
        """Return the process that runs each job, and the job process that beats."""
        found = {}
        for name in self.topics:
            process = json.loads(self.files.run_of(name).process.read_text("utf-8"))
            beat = read_heartbeat(name, f"file://{self.directory / name}/lake")
            found[name] = process["pid"], beat.pid if beat is not None and beat.is_alive else None
        return found

    def beats_ms(self) -> dict[str, int]:
        found = {}
        for name in self.topics:
            beat = read_heartbeat(name, f"file://{self.directory / name}/lake")
            found[name] = 0 if beat is None else beat.beat_ms
        return found

    def runners(self) -> dict[str, int]:
        """Return how many processes run each job, of all that this machine has."""
        counts = dict.fromkeys(self.topics, 0)
        for process in psutil.process_iter(["cmdline"]):
            line = process.info["cmdline"] or []
            for name in self.topics:
                is_run = "ashore.fleet.machine.run" in line
                counts[name] += is_run and str(self.files.jobs / f"{name}.yaml") in line
        return counts


@pytest.fixture
def fleet(kafka: Kafka, tmp_path: Path) -> Iterator[Fleet]:
    made = Fleet(tmp_path, kafka.bootstrap_servers)
    try:
        yield made
    finally:
        kill_jobs(made.files)


def phases(client: httpx.Client) -> dict[str, str]:
    return {each["name"]: each["phase"] for each in client.get("/api/jobs").json()["jobs"]}


def start_all(client: httpx.Client, fleet: Fleet) -> None:
    """Start a few at a time, or the machine does nothing but start them."""
    names = list(fleet.topics)
    for first in range(0, len(names), AT_ONCE):
        these = names[first : first + AT_ONCE]
        for name in these:
            client.post(f"/api/jobs/{name}/start", json={}).raise_for_status()
        wait_for(
            lambda these=these: [phases(client)[name] for name in these],
            lambda found: set(found) == {"running"},
            STARTED_S,
        )


def ask_for_savepoint(client: httpx.Client, fleet: Fleet) -> tuple[str, int]:
    """Ask for a savepoint, and hold its process by SIGSTOP; return the operation and the process.

    So the savepoint is being taken when the server dies, and not just done with.
    """
    asked = client.post(
        "/api/jobs/sql/operations/checkpoint/savepoint",
        json={"to": str(fleet.directory / "sql" / "lake" / "savepoints")},
    )
    asked.raise_for_status()
    operation = str(asked.json()["id"])
    record = fleet.files.operations / operation / "process.json"
    wait_for(record.exists)
    pid = int(json.loads(record.read_text("utf-8"))["pid"])
    freeze(pid)
    found = client.get(f"/api/operations/{operation}").json()
    assert (found["state"], found["exit_code"]) == ("running", None)
    return operation, pid


@pytest.mark.long
@pytest.mark.timeout(2400)
def test_no_job_notices_none_doubles_and_the_savepoint_ends_as_its_record_says(
    fleet: Fleet,
) -> None:
    fleet.produce()
    with serving(fleet.files.jobs) as (client, server):
        start_all(client, fleet)
        wait_for(fleet.landed, fleet.is_landed, STARTED_S)
        before, owners, beats = fleet.pids(), fleet.epochs(), fleet.beats_ms()
        assert all(None not in each for each in before.values()), before
        assert {len(each) for each in owners.values()} == {1}, owners
        operation, savepoint_pid = ask_for_savepoint(client, fleet)
        os.kill(server.pid, signal.SIGKILL)
        server.wait()

    fleet.produce()  # nobody serves
    wait_for(fleet.landed, fleet.is_landed, STARTED_S)
    assert fleet.pids() == before
    wait_for(fleet.beats_ms, lambda found: all(found[name] > beats[name] for name in beats))
    os.kill(savepoint_pid, signal.SIGCONT)

    with serving(fleet.files.jobs) as (client, _server):
        wait_for(lambda: phases(client), lambda found: set(found.values()) == {"running"})
        time.sleep(3)  # looks of the supervisor, which could start something
        taken = ended(client, operation, STARTED_S)
        assert taken["state"] == "done", taken
        events = client.get("/api/events?limit=1000").json()["events"]
        kinds = [(each["event"], each["job"]) for each in events]
        assert sorted(job for kind, job in kinds if kind == "adopted") == sorted(fleet.topics)
        assert sorted(job for kind, job in kinds if kind == "started") == sorted(fleet.topics)

        fleet.produce()
        wait_for(fleet.landed, fleet.is_landed, STARTED_S)
        assert fleet.pids() == before, "each is the process that it was"
        assert fleet.runners() == dict.fromkeys(fleet.topics, 1)
        assert fleet.epochs() == owners, "nobody has taken a log over"
        savepoint = client.post(
            "/api/operations/checkpoint/verify",
            json={"savepoint": taken["result"]["path"]},
        )
        verdicts = {"savepoint": ended(client, savepoint.json()["id"], STARTED_S)}
        asked = {
            name: client.post(f"/api/jobs/{name}/operations/verify", json={}).json()["id"]
            for name in fleet.topics
        }
        verdicts |= {name: ended(client, each, STARTED_S) for name, each in asked.items()}
    for name, each in verdicts.items():
        assert each["exit_code"] == 0, (name, each)
        for table in each["result"].get("tables", []):
            assert (table["lost"], table["duplicated"]) == (0, 0), (name, table)
    landed = [
        table["landed"]
        for name in fleet.topics
        if name != "sql"
        for table in verdicts[name]["result"]["tables"]
    ]
    assert landed == [fleet.sent] * (LOCAL + ON_SPARK)
