"""Delta tables beside faults: processes that are killed, other writers, a table that is replaced.

delta-rs reads the tables: each record is there once.
"""

import json
import os
import shutil
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event as Signal
from threading import Thread
from uuid import uuid4

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from tests.integration.test_iceberg import stop, verify
from tests.integration.test_local_jobs import launched, wait_for
from tests.job_files import compact, job_content, land
from tests.kafka_tools import create_topic, produce

from ashore.errors import ExitCode
from ashore.log.progress import Step
from ashore.topics.open_job import open_job
from ashore.topics.use.clean import clean_job, plan_clean_job
from ashore_lab.services.hdfs import Hdfs
from ashore_lab.services.kafka import Kafka
from ashore_lab.testing import FakeClock

RECORDS, BATCH = 3_000, 200
DAY_MS = 86_400_000
MOMENTS = (Step.MOVE, Step.PREPARE, Step.WRITE, "landed", Step.MOVE, Step.PREPARE, Step.MOVE)


def send(kafka: Kafka, topic: str, first: int, end: int) -> None:
    values = [json.dumps({"id": number}).encode() for number in range(first, end)]
    produce(kafka.bootstrap_servers, topic, values)


def write_job(kafka: Kafka, directory: Path, *topics: str, **more: object) -> Path:
    """Write the file of a job that lands each topic in a Delta table of its name."""
    tables = [
        {
            "topic": topic,
            "table": f"ods.{topic}",
            "schema": "id BIGINT",
            "format": "delta",
            "partition_by": [],
        }
        for topic in topics
    ]
    batch = {"interval": "100ms", "max_records": BATCH}
    content = job_content(
        kafka.bootstrap_servers, directory, topics[0], tables=tables, batch=batch, **more
    )
    path = directory / "job.yaml"
    path.write_text(json.dumps(content))
    return path


@pytest.fixture
def topic(kafka: Kafka) -> str:
    name = f"delta_{uuid4().hex[:8]}"
    create_topic(kafka.bootstrap_servers, name)
    return name


def kill_at(job_file: Path, moment: str) -> None:
    with launched(job_file, available_now=False) as launch:
        wait_for(launch, moment)
        os.kill(launch.pid, signal.SIGKILL)
        assert launch.wait() == -signal.SIGKILL


def read_ids(table: Path, column: str = "id") -> Counter[int]:
    return Counter(DeltaTable(table).to_pyarrow_table().column(column).to_pylist())


@pytest.mark.thirds("a Delta table")
def test_a_job_that_is_killed_again_and_again_lands_each_record_once(
    kafka: Kafka, topic: str, tmp_path: Path
) -> None:
    job_file = write_job(kafka, tmp_path, topic)
    send(kafka, topic, 0, RECORDS)
    for moment in MOMENTS:
        kill_at(job_file, moment)
    land(job_file)
    table = tmp_path / "lake/ods.db" / topic
    assert read_ids(table) == Counter(range(RECORDS))
    versions = [each for each in DeltaTable(table).history() if each["operation"] == "WRITE"]
    assert len(versions) == RECORDS // BATCH
    assert verify(job_file) == (0, "lost 0, duplicated 0")

    orphan = table / f"a-main-1-0-0000-{'0' * 16}.parquet"  # of a log that was lost
    orphan.write_bytes(b"rows of nobody")
    with open_job(job_file) as opened:
        later = replace(opened, clock=FakeClock(opened.clock.now_ms() + 30 * DAY_MS))
        plan = plan_clean_job(later)
        found = [Path(step.file.path).name for step in plan.steps]
        assert [each for each in found if each.endswith(".parquet")] == [orphan.name]
        clean_job(later, plan)
    assert not orphan.exists()
    assert read_ids(table) == Counter(range(RECORDS))


@pytest.mark.thirds("a Delta table")
def test_another_writer_takes_versions_beside_a_job(
    kafka: Kafka, topic: str, tmp_path: Path
) -> None:
    job_file = write_job(kafka, tmp_path, topic)
    send(kafka, topic, 0, 1)
    land(job_file)
    send(kafka, topic, 1, RECORDS)
    table = tmp_path / "lake/ods.db" / topic
    with appending(table) as written:
        land(job_file)
    assert len(written) > 2
    assert read_ids(table) == Counter([*range(RECORDS), *written])


@contextmanager
def appending(table: Path) -> Iterator[list[int]]:
    """Append rows with ids below 0 to a table, as another program does; yield these ids."""
    written: list[int] = []
    ended = Signal()
    schema = pa.schema(DeltaTable(table).schema().to_arrow())

    def append() -> None:
        while not ended.wait(0.02):
            row = dict.fromkeys(schema.names) | {"id": -1 - len(written)}
            write_deltalake(table, pa.Table.from_pylist([row], schema), mode="append")
            written.append(row["id"])

    thread = Thread(target=append)
    thread.start()
    try:
        yield written
    finally:
        ended.set()
        thread.join()


@pytest.mark.thirds("a Delta table")
def test_a_table_that_is_replaced_stops_the_job_and_no_other_table_is_harmed(
    kafka: Kafka, topic: str, tmp_path: Path
) -> None:
    other = f"{topic}_too"
    create_topic(kafka.bootstrap_servers, other)
    job_file = write_job(kafka, tmp_path, topic, other)
    both = [tmp_path / "lake/ods.db" / each for each in (topic, other)]
    for each in (topic, other):
        send(kafka, each, 0, 10)
    land(job_file)

    aside = tmp_path / "aside"
    shutil.move(both[0], aside)
    for each in (topic, other):
        send(kafka, each, 10, 20)
    assert stop(job_file, ExitCode.DECISION).code == "table-replaced"
    assert read_ids(both[0]) == Counter()
    assert read_ids(both[1]) == Counter(range(10)), "no batch is there in part"

    shutil.rmtree(both[0])
    shutil.move(aside, both[0])
    land(job_file)
    for each in both:
        assert read_ids(each) == Counter(range(20))
    assert verify(job_file) == (0, "lost 0, duplicated 0")


def test_a_killed_job_on_hdfs_lands_each_record_once(
    kafka: Kafka, hdfs: Hdfs, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", str(hdfs.conf_dir))
    lake = f"hdfs://ashore/lake/{topic}"
    job_file = write_job(kafka, tmp_path, topic, lake=lake)
    send(kafka, topic, 0, RECORDS)
    kill_at(job_file, Step.MOVE)
    hdfs.switch()
    kill_at(job_file, Step.MOVE)
    land(job_file)
    table = DeltaTable(f"{lake}/ods.db/{topic}")
    rows = table.to_pyarrow_table()
    assert Counter(rows.column("id").to_pylist()) == Counter(range(RECORDS))
    assert table.version() == RECORDS // BATCH
    assert verify(job_file) == (0, "lost 0, duplicated 0")
    assert compact(job_file, f"ods.{topic}").files_written == 1
    table.update_incremental()
    assert table.to_pyarrow_table().sort_by("id") == rows.sort_by("id")
    assert len(table.file_uris()) == 1
