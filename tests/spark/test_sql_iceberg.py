"""SQL that writes an Iceberg table: real Kafka and Spark."""

import json
from pathlib import Path
from uuid import uuid4

import pytest
from pyiceberg.catalog import load_catalog
from tests.job_files import compact, even_ids, job_content, land, land_twice
from tests.kafka_tools import create_topic, produce

from ashore.proof.verify.job import verify_job
from ashore.topics.open_job import open_job
from ashore_lab.services.kafka import Kafka


@pytest.mark.thirds("Spark, a bucket, Iceberg")
def test_each_batch_of_a_query_is_a_snapshot(kafka: Kafka, tmp_path: Path) -> None:
    topic = f"iceberg_{uuid4().hex[:8]}"
    create_topic(kafka.bootstrap_servers, topic)
    servers = kafka.bootstrap_servers
    content = even_ids(servers, tmp_path, topic, "iceberg")
    job_file = land_twice(servers, content, topic, tmp_path, uses_spark=True)
    uri = f"sqlite:///{tmp_path}/lake/iceberg.db"
    table = load_catalog("ashore", type="sql", uri=uri).load_table("ods.even")
    rows = table.scan().to_arrow().sort_by("id").to_pylist()
    assert rows == [{"id": number, "ids": [number]} for number in range(0, 100, 2)]
    assert len(table.snapshots()) == 2
    assert "ashore.landing.ods__even" in table.properties
    with open_job(job_file) as opened:
        verdict = verify_job(opened)
    assert verdict.exit_code == 0, verdict.summary
    assert compact(job_file, "ods.even").files_written == 1
    table = table.refresh()
    assert table.scan().to_arrow().sort_by("id").to_pylist() == rows
    assert len(list(table.scan().plan_files())) == 1
    produce(servers, topic, [b'{"id": 100}'])
    land(job_file, uses_spark=True)
    assert len(table.refresh().scan().to_arrow()) == 51


DECLARED = """
CREATE TABLE ods.{topic} (id BIGINT, at TIMESTAMP)
OPTIONS (topic = '{topic}', land = false, on_invalid = 'drop');
CREATE TABLE ods.by_day (id BIGINT, at TIMESTAMP)
USING iceberg
PARTITIONED BY (day(at), bucket(4, id));
INSERT INTO ods.by_day SELECT id, at FROM {topic};
"""


@pytest.mark.long  # the cheaper ones are above, and in tests/crash/test_iceberg.py
def test_a_table_that_sql_declares_is_partitioned_by_day(kafka: Kafka, tmp_path: Path) -> None:
    topic = f"iceberg_{uuid4().hex[:8]}"
    servers = kafka.bootstrap_servers
    create_topic(servers, topic)
    records = [{"id": each, "at": f"2026-11-2{each % 3}T23:59:59Z"} for each in range(30)]
    produce(servers, topic, [json.dumps(each).encode() for each in records])
    content = job_content(servers, tmp_path, topic) | {
        "tables": [],
        "sql": DECLARED.format(topic=topic),
        "spark": {"master": "local[2]"},
    }
    job_file = tmp_path / "job.yaml"
    job_file.write_text(json.dumps(content))
    land(job_file, uses_spark=True)

    uri = f"sqlite:///{tmp_path}/lake/iceberg.db"
    table = load_catalog("ashore", type="sql", uri=uri).load_table("ods.by_day")
    assert [str(each.transform) for each in table.spec().fields] == ["day", "bucket[4]"]
    assert sorted(table.scan().to_arrow().column("id").to_pylist()) == list(range(30))
    day = table.scan("at >= '2026-11-21T00:00:00+00:00' and at < '2026-11-22T00:00:00+00:00'")
    assert sorted(day.to_arrow().column("id").to_pylist()) == list(range(1, 30, 3))
    assert len(list(day.plan_files())) * 2 < len(list(table.scan().plan_files()))
    with open_job(job_file) as opened:
        verdict = verify_job(opened)
    assert verdict.exit_code == 0, verdict.summary
