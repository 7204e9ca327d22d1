"""SQL that writes a Delta table: real Kafka and Spark."""

import json
from pathlib import Path
from uuid import uuid4

import pytest
from deltalake import DeltaTable
from tests.job_files import job_content, land
from tests.kafka_tools import create_topic, produce

from ashore.proof.verify.job import verify_job
from ashore.topics.open_job import open_job
from ashore_lab.services.kafka import Kafka


@pytest.mark.thirds("Spark, a bucket, Delta")
def test_each_batch_of_a_query_is_a_version(kafka: Kafka, tmp_path: Path) -> None:
    topic = f"delta_{uuid4().hex[:8]}"
    create_topic(kafka.bootstrap_servers, topic)
    content = job_content(kafka.bootstrap_servers, tmp_path, topic)
    del content["spark"]
    content |= {
        "tables": [
            {
                "topic": topic,
                "table": "ods.events",
                "schema": "id BIGINT",
                "land": False,
                "on_invalid": "drop",
            },
            {"table": "ods.even", "format": "delta", "partition_by": []},
        ],
        "sql": "INSERT INTO ods.even SELECT id, array(id) AS ids FROM events WHERE id % 2 = 0;",
        "spark": {"master": "local[2]"},
    }
    job_file = tmp_path / "job.yaml"
    job_file.write_text(json.dumps(content))
    for first in (0, 50):
        values = [json.dumps({"id": number}).encode() for number in range(first, first + 50)]
        produce(kafka.bootstrap_servers, topic, values)
        land(job_file, uses_spark=True)

    table = DeltaTable(tmp_path / "lake/ods.db/even")
    rows = table.to_pyarrow_table().sort_by("id").to_pylist()
    assert rows == [{"id": number, "ids": [number]} for number in range(0, 100, 2)]
    assert [each["operation"] for each in table.history()] == ["WRITE", "WRITE", "CREATE TABLE"]
    assert table.transaction_version("ashore.landing.ods__even") is not None
    with open_job(job_file) as opened:
        verdict = verify_job(opened)
    assert verdict.exit_code == 0, verdict.summary
