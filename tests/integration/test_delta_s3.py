"""A Delta table in a bucket, read by delta-rs through its own client of S3."""

from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest
from deltalake import DeltaTable
from tests.job_files import compact, job_content, land_twice
from tests.kafka_tools import create_topic

from ashore.base.clock import SystemClock
from ashore.proof.verify.job import verify_job
from ashore.topics.open_job import open_job
from ashore.topics.use.clean import clean_job, plan_clean_job
from ashore_lab.services.kafka import Kafka
from ashore_lab.services.s3 import S3
from ashore_lab.testing import FakeClock


def test_a_topic_lands_in_a_delta_table_of_a_bucket(
    kafka: Kafka, s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = f"delta-{uuid4().hex[:8]}"
    create_topic(kafka.bootstrap_servers, topic)
    options = s3.client_options()
    monkeypatch.setenv("LAKE_SECRET", options["secret_access_key"])
    content = job_content(
        kafka.bootstrap_servers,
        tmp_path,
        topic,
        lake=f"{s3.uri}/{topic}",
        s3={**options, "secret_access_key": "${LAKE_SECRET}"},
        tables=[
            {
                "topic": topic,
                "table": "ods.events",
                "schema": "id BIGINT",
                "format": "delta",
                "partition_by": [],
            }
        ],
    )
    job_file = land_twice(kafka.bootstrap_servers, content, topic, tmp_path, uses_spark=False)

    access = {
        "AWS_ENDPOINT_URL": options["endpoint"],
        "AWS_ACCESS_KEY_ID": options["access_key_id"],
        "AWS_SECRET_ACCESS_KEY": options["secret_access_key"],
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
    }
    table = DeltaTable(f"{s3.uri}/{topic}/ods.db/events", storage_options=access)
    assert sorted(table.to_pyarrow_table().column("id").to_pylist()) == list(range(100))
    assert table.version() == 2
    with open_job(job_file) as opened:
        verdict = verify_job(opened)
    assert verdict.exit_code == 0, verdict.summary
    assert compact(job_file, "ods.events").files_written == 1
    table.update_incremental()
    assert sorted(table.to_pyarrow_table().column("id").to_pylist()) == list(range(100))
    assert len(table.file_uris()) == 1

    now_ms = SystemClock().now_ms()
    with open_job(job_file) as opened:
        for days, files in ((6, 0), (8, 2)):
            later = replace(opened, clock=FakeClock(now_ms + days * 86_400_000))
            plan = plan_clean_job(later)
            assert sum(each.file.path.endswith(".parquet") for each in plan.steps) == files
        clean_job(later, plan)
        verdict = verify_job(opened)
    assert verdict.exit_code == 0, verdict.summary
    assert sorted(table.to_pyarrow_table().column("id").to_pylist()) == list(range(100))
