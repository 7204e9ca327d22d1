"""A job that continues in the table of a sink: Iceberg's for Kafka Connect, kafka-delta-ingest."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from pyiceberg.catalog import load_catalog
from tests.job_files import job_content, land
from tests.kafka_tools import create_topic, produce
from tests.unit.tables.test_connect_events import MARK, NEXT_OF, REACHED, all_events

from ashore.proof.doctor.apply import treat
from ashore.proof.doctor.observe import FormerAt
from ashore.proof.verify.job import verify_job
from ashore.topics.open_job import open_job
from ashore_lab.services.kafka import Kafka

SINK_ROWS = pa.table({"id": pa.array([-1, -2], pa.int64())})
NEW = 5  # records of each partition that the sink has not landed


def continue_after(job_file: Path) -> None:
    """Take the table over, land the rest, and verify it."""
    with open_job(job_file) as opened:
        at = FormerAt(connect_table="ods.events")
        assert not treat(opened, at, lambda _: None, takes_over=True).refusals
    land(job_file)
    with open_job(job_file) as opened:
        verdict = verify_job(opened)
    assert (verdict.exit_code, verdict.summary) == (0, "lost 0, duplicated 0")


def write_job(kafka: Kafka, directory: Path, topic: str, table_format: str) -> Path:
    table = {"topic": topic, "table": "ods.events", "schema": "id BIGINT", "partition_by": []}
    content = job_content(kafka.bootstrap_servers, directory, topic)
    path = directory / "job.yaml"
    path.write_text(json.dumps({**content, "tables": [{**table, "format": table_format}]}))
    return path


def fill(kafka: Kafka, topic: str, landed: dict[int, int]) -> list[int]:
    """Produce what the sink has landed, and more. Returns the ids of the rest."""
    create_topic(kafka.bootstrap_servers, topic, len(landed))
    rest: list[int] = []
    for partition, count in landed.items():
        ids = [partition * 1_000 + number for number in range(NEW)]
        values = [*[b'{"id":0}'] * count, *(b'{"id":%d}' % each for each in ids)]
        produce(kafka.bootstrap_servers, topic, values, partition=partition)
        rest += ids
    return rest


@pytest.mark.thirds("an Iceberg table")
def test_landing_continues_after_icebergs_sink(kafka: Kafka, tmp_path: Path) -> None:
    """Its events, made by a real connector, name the topics `m` and `control-m`."""
    rest = fill(kafka, "m", {int(shard.shard): count for shard, count in sorted(NEXT_OF.items())})
    create_topic(kafka.bootstrap_servers, "control-m")
    produce(kafka.bootstrap_servers, "control-m", all_events())
    job_file = write_job(kafka, tmp_path, "m", "iceberg")
    lake = tmp_path / "lake"
    lake.mkdir()
    with load_catalog("ashore", type="sql", uri=f"sqlite:///{lake}/iceberg.db") as catalog:
        catalog.create_namespace("ods")
        location = f"file://{lake}/elsewhere/events"
        table = catalog.create_table("ods.events", SINK_ROWS.schema, location=location)
        table.append(SINK_ROWS, snapshot_properties={MARK: REACHED})
        continue_after(job_file)
        rows = table.refresh().scan().to_arrow().column("id").to_pylist()
    assert sorted(rows) == sorted([-1, -2, *rest])


@pytest.mark.thirds("a Delta table")
def test_landing_continues_after_kafka_delta_ingest(kafka: Kafka, tmp_path: Path) -> None:
    rest = fill(kafka, "ingested", {0: 30, 1: 20})
    job_file = write_job(kafka, tmp_path, "ingested", "delta")
    table = tmp_path / "lake" / "ods.db" / "events"
    marks = [Transaction("ingest-0", 29), Transaction("ingest-1", 19)]
    properties = CommitProperties(app_transactions=marks)
    write_deltalake(table, SINK_ROWS, commit_properties=properties)
    continue_after(job_file)
    rows = DeltaTable(table).to_pyarrow_table().column("id").to_pylist()
    assert sorted(rows) == sorted([-1, -2, *rest])
