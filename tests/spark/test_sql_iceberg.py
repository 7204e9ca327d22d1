"""SQL that writes an Iceberg table: real Kafka and Spark."""

from pathlib import Path
from uuid import uuid4

import pytest
from pyiceberg.catalog import load_catalog
from tests.job_files import even_ids, land_twice
from tests.kafka_tools import create_topic

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
