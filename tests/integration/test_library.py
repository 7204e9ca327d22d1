"""The library over a real job: what a notebook does."""

import json
from pathlib import Path
from uuid import uuid4

import pytest
from tests.job_files import job_content
from tests.kafka_tools import create_topic, produce

import ashore
from ashore_lab.services.kafka import Kafka

RECORDS = 1_000


def test_a_job_is_run_looked_at_and_verified(kafka: Kafka, tmp_path: Path) -> None:
    topic = f"library-{uuid4().hex[:10]}"
    create_topic(kafka.bootstrap_servers, topic, 1)
    values = [json.dumps({"id": number}).encode() for number in range(RECORDS)]
    produce(kafka.bootstrap_servers, topic, values, partition=0)
    path = tmp_path / "job.yaml"
    batch = {"interval": "100ms", "max_records": 600}
    content = job_content(kafka.bootstrap_servers, tmp_path, topic, batch=batch)
    path.write_text(json.dumps(content))

    job = ashore.Job.load(path)
    seen: list[ashore.Landed] = []
    result = job.run(on_landed=seen.append)
    assert result == ashore.RunResult("landing", 2, RECORDS, 2, ("ods.events",), ())
    assert [each.rows for each in seen] == [600, 400]
    assert job.run().rows == 0

    (main,) = job.status().slices
    assert (main.landed, main.lag, job.slices()) == (RECORDS, 0, ("main",))
    assert job.verify().summary == "lost 0, duplicated 0"
    entries = list(job.read_log())
    assert [each.number for each in entries] == list(range(len(entries)))
    assert [each.kind for each in entries if each.kind == "prepare"] == ["prepare"] * 2
    assert [each.number for each in job.read_log(start=3)] == list(range(3, len(entries)))

    # What a job process reports is raised as what it is.
    table = {"topic": topic, "table": "ods.events", "schema": "id STRING"}
    other = {**content, "tables": [table]}
    path.write_text(json.dumps(other))
    with pytest.raises(ashore.AshoreError) as refused:
        job.run()
    assert refused.value.code == "schema-conflict"


def test_an_exception_stops_the_job_in_order(kafka: Kafka, tmp_path: Path) -> None:
    topic = f"library-{uuid4().hex[:10]}"
    create_topic(kafka.bootstrap_servers, topic, 1)
    produce(kafka.bootstrap_servers, topic, [b'{"id": 1}'] * 100, partition=0)
    path = tmp_path / "job.yaml"
    path.write_text(json.dumps(job_content(kafka.bootstrap_servers, tmp_path, topic)))

    def interrupt(_batch: ashore.Landed) -> None:
        raise KeyboardInterrupt

    job = ashore.Job.load(path)
    with pytest.raises(KeyboardInterrupt):
        job.run(available_now=False, on_landed=interrupt)
    *_, last = job.read_log()
    assert last.kind == "commit", "nothing is left to recover"
