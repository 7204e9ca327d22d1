"""A topic of a query that is cut and grows on: a broker whose log is cut under a real query."""

import json
import shutil
from collections import Counter
from pathlib import Path
from uuid import uuid4

import pyarrow.parquet as pq
import pytest
from tests.job_files import job_content
from tests.kafka_tools import create_topic, produce
from tests.spark.test_processes import LOCAL, ended, launched, wait_for
from typer.testing import CliRunner

from ashore.cli.app import app
from ashore.jobs.events import Event, Landed, WarningEvent
from ashore.jobs.failure import Failed
from ashore_lab.services.kafka import Kafka

PARTITION = 0


def values(first: int, count: int, mark: str) -> list[bytes]:
    return [
        json.dumps({"id": number, "mark": mark}).encode() for number in range(first, first + count)
    ]


def job_with(kafka: Kafka, topic: str, directory: Path) -> Path:
    table = {"topic": topic, "table": "ods.events", "land": False, "on_invalid": "drop"}
    content = job_content(
        kafka.bootstrap_servers,
        directory,
        topic,
        tables=[{**table, "schema": "id BIGINT, mark STRING"}, {"table": "ods.all"}],
        sql={"text": "INSERT INTO ods.all SELECT id, mark FROM events;"},
        batch={"interval": "100ms"},
        spark=LOCAL,
    )
    path = directory / "job.yaml"
    path.write_text(json.dumps(content))
    return path


def is_landed(event: Event) -> bool:
    return isinstance(event, Landed) and event.rows > 0


def is_started_again(event: Event) -> bool:
    return isinstance(event, WarningEvent) and "has a new leader" in event.message


def rows(directory: Path) -> Counter[str]:
    found = pq.read_table(directory / "lake" / "ods.db" / "all").to_pylist()
    return Counter(row["mark"] for row in found)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_what_has_grown_in_place_of_what_was_read_is_not_read_on(
    mortal_kafka: Kafka, tmp_path: Path
) -> None:
    kafka, topic = mortal_kafka, f"cut-{uuid4().hex[:10]}"
    servers = kafka.bootstrap_servers
    create_topic(servers, topic, 1)
    place = kafka.directory / "data" / f"{topic}-{PARTITION}"
    job_file = job_with(kafka, topic, tmp_path)
    produce(servers, topic, values(0, 10, "first"), partition=PARTITION)
    with launched(job_file) as launch:
        wait_for(launch, is_landed)
        kafka.stop()
        shutil.copytree(place, tmp_path / "kept")
        kafka.start()
        produce(servers, topic, values(10, 10, "lost"), partition=PARTITION)
        wait_for(launch, is_started_again)
        wait_for(launch, is_landed)
        launch.stop()
        assert ended(launch)[0] == 0

    kafka.stop()
    shutil.rmtree(place)
    shutil.copytree(tmp_path / "kept", place)
    kafka.start()
    produce(servers, topic, values(10, 15, "regrown"), partition=PARTITION)
    with launched(job_file, available_now=True) as launch:
        code, events = ended(launch)
    [failed] = [each for each in events if isinstance(each, Failed)]
    assert (code, failed.code) == (4, "history-truncated"), events[-3:]
    assert "--to 20 --table ods.all" in failed.hint
    assert rows(tmp_path) == {"first": 10, "lost": 10}

    skip = ("skip", str(job_file), f"{topic}/0", "--to", "20", "--table", "ods.all")
    done = CliRunner().invoke(app, [*skip, "--why", "kept", "--take-over"])
    assert done.exit_code == 0, done.output
    with launched(job_file, available_now=True) as launch:
        assert ended(launch)[0] == 0
    assert rows(tmp_path) == {"first": 10, "lost": 10, "regrown": 5}
