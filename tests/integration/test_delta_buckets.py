"""A Delta table in a bucket, read by delta-rs through its own clients of S3 and Azure."""

from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest
from deltalake import DeltaTable
from tests.azure import Azure
from tests.job_files import compact, job_content, land_twice
from tests.kafka_tools import create_topic

from ashore.base.clock import SystemClock
from ashore.proof.verify.job import verify_job
from ashore.topics.open_job import open_job
from ashore.topics.use.clean import clean_job, plan_clean_job
from ashore_lab.services.kafka import Kafka
from ashore_lab.services.s3 import S3
from ashore_lab.testing import FakeClock

# By the section of the job file, the key of its secret, and delta-rs' names of its options.
STORES = {
    "s3": (
        "secret_access_key",
        {
            "AWS_ENDPOINT_URL": "endpoint",
            "AWS_ACCESS_KEY_ID": "access_key_id",
            "AWS_SECRET_ACCESS_KEY": "secret_access_key",
            "AWS_REGION": "region",
        },
    ),
    "azure": (
        "account_key",
        {
            "azure_storage_endpoint": "endpoint",
            "azure_storage_account_name": "account",
            "azure_storage_account_key": "account_key",
        },
    ),
}


@pytest.mark.parametrize("section", STORES)
def test_a_topic_lands_in_a_delta_table_of_a_bucket(
    kafka: Kafka,
    section: str,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server: S3 | Azure = request.getfixturevalue(section)
    topic = f"delta-{uuid4().hex[:8]}"
    create_topic(kafka.bootstrap_servers, topic)
    options, (secret, names) = server.client_options(), STORES[section]
    monkeypatch.setenv("LAKE_SECRET", options[secret])
    content = job_content(
        kafka.bootstrap_servers,
        tmp_path,
        topic,
        lake=f"{server.uri}/{topic}",
        **{section: {**options, secret: "${LAKE_SECRET}"}},
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

    access = {name: options[key] for name, key in names.items()} | {"ALLOW_HTTP": "true"}
    access |= {"AWS_ALLOW_HTTP": "true"} if section == "s3" else {}
    table = DeltaTable(f"{server.uri}/{topic}/ods.db/events", storage_options=access)
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
