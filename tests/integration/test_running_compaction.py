"""Jobs that put small files together between their batches, on real servers, and are killed."""

import json
import os
import signal
from collections import Counter
from pathlib import Path
from uuid import uuid4

import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog
from tests.integration.test_iceberg import verify
from tests.integration.test_local_jobs import launched
from tests.job_files import job_content, land
from tests.kafka_tools import create_topic, produce

from ashore.jobs.events import Event, Note, moment_of
from ashore.log.progress import FilesCompacted, Step
from ashore_lab.services.kafka import Kafka

RECORDS, BATCH = 400, 20


def write_job(kafka: Kafka, directory: Path, topic: str, table_format: str) -> Path:
    table = {
        "topic": topic,
        "table": "ods.events",
        "schema": "id BIGINT",
        "format": table_format,
        "partition_by": [],
        "compact": {"every": "100ms", "min_files": 3},
    }
    batch = {"interval": "50ms", "max_records": BATCH}
    content = job_content(kafka.bootstrap_servers, directory, topic, tables=[table], batch=batch)
    path = directory / "job.yaml"
    path.write_text(json.dumps(content))
    return path


def read(directory: Path, table_format: str) -> tuple[Counter[int], int]:
    """Return how often each id is in the table, and the number of its files."""
    if table_format == "delta":
        table = DeltaTable(directory / "lake/ods.db/events")
        rows, files = table.to_pyarrow_table(), len(table.file_uris())
    else:
        catalog = load_catalog("ashore", type="sql", uri=f"sqlite:///{directory}/lake/iceberg.db")
        scan = catalog.load_table("ods.events").scan()
        rows, files = scan.to_arrow(), len(list(scan.plan_files()))
    return Counter(rows.column("id").to_pylist()), files


def kill_after(job_file: Path, step: Step, count: int = 1) -> list[Event]:
    """Kill a running job when a compaction has begun and `count` more steps of a kind have."""
    events = list[Event]()
    with launched(job_file, available_now=False) as launch:
        for event in launch.events():
            events.append(event)
            begun = [moment_of(each) for each in events]
            if Step.COMPACT in begun and begun[begun.index(Step.COMPACT) :].count(step) == count:
                break
        os.kill(launch.pid, signal.SIGKILL)
        assert launch.wait() == -signal.SIGKILL
    return events


def send(kafka: Kafka, topic: str, numbers: range) -> None:
    produce(kafka.bootstrap_servers, topic, [b'{"id": %d}' % number for number in numbers])


@pytest.mark.thirds("a running compaction")
@pytest.mark.parametrize("table_format", ["iceberg", "delta"])
def test_each_record_is_there_once_whenever_a_compaction_is_killed(
    table_format: str, kafka: Kafka, tmp_path: Path
) -> None:
    topic = f"compact_{uuid4().hex[:8]}"
    create_topic(kafka.bootstrap_servers, topic)
    job_file = write_job(kafka, tmp_path, topic, table_format)
    send(kafka, topic, range(300))
    kill_after(job_file, Step.COMPACT)
    kill_after(job_file, Step.MOVE)
    send(kafka, topic, range(300, RECORDS))
    events = kill_after(job_file, Step.PLAN)
    assert [each.written for each in events if isinstance(each, FilesCompacted)] == [1]
    assert any("became 1" in each.message for each in events if isinstance(each, Note))
    land(job_file)
    offsets, files = read(tmp_path, table_format)
    assert offsets == Counter(range(RECORDS))
    assert files <= 2
    assert verify(job_file) == (0, "lost 0, duplicated 0")
