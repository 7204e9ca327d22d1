"""An Iceberg table in a bucket, read by pyiceberg through Arrow's client of S3."""

from pathlib import Path
from uuid import uuid4

import pytest
from pyiceberg.catalog import load_catalog
from tests.job_files import compact, job_content, land_twice
from tests.kafka_tools import create_topic

from ashore.proof.verify.job import verify_job
from ashore.topics.open_job import open_job
from ashore_lab.services.kafka import Kafka
from ashore_lab.services.s3 import S3


def test_a_topic_lands_in_an_iceberg_table_of_a_bucket(
    kafka: Kafka, s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = f"iceberg-{uuid4().hex[:8]}"
    create_topic(kafka.bootstrap_servers, topic)
    options = s3.client_options()
    monkeypatch.setenv("LAKE_SECRET", options["secret_access_key"])
    uri = f"sqlite:///{tmp_path}/catalog.db"
    content = job_content(
        kafka.bootstrap_servers,
        tmp_path,
        topic,
        lake=f"{s3.uri}/{topic}",
        s3={**options, "secret_access_key": "${LAKE_SECRET}"},
        catalog={"iceberg": {"type": "sql", "uri": uri}},
        tables=[
            {
                "topic": topic,
                "table": "ods.events",
                "schema": "id BIGINT",
                "format": "iceberg",
                "partition_by": [],
            }
        ],
    )
    job_file = land_twice(kafka.bootstrap_servers, content, topic, tmp_path, uses_spark=False)

    files = {
        "s3.endpoint": options["endpoint"],
        "s3.access-key-id": options["access_key_id"],
        "s3.secret-access-key": options["secret_access_key"],
        "s3.region": "us-east-1",
    }
    table = load_catalog("ashore", type="sql", uri=uri, **files).load_table("ods.events")
    assert sorted(table.scan().to_arrow().column("id").to_pylist()) == list(range(100))
    assert len(table.snapshots()) == 2
    with open_job(job_file) as opened:
        verdict = verify_job(opened)
    assert verdict.exit_code == 0, verdict.summary
    assert compact(job_file, "ods.events").files_written == 1
    table = table.refresh()
    assert sorted(table.scan().to_arrow().column("id").to_pylist()) == list(range(100))
    assert len(list(table.scan().plan_files())) == 1
