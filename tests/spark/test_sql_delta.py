"""SQL that writes a Delta table: real Kafka and Spark."""

from pathlib import Path
from uuid import uuid4

import pytest
from deltalake import DeltaTable
from tests.job_files import compact, even_ids, land, land_twice
from tests.kafka_tools import create_topic, produce

from ashore.proof.verify.job import verify_job
from ashore.topics.open_job import open_job
from ashore_lab.services.kafka import Kafka


@pytest.mark.thirds("Spark, a bucket, Delta")
def test_each_batch_of_a_query_is_a_version(kafka: Kafka, tmp_path: Path) -> None:
    topic = f"delta_{uuid4().hex[:8]}"
    create_topic(kafka.bootstrap_servers, topic)
    servers = kafka.bootstrap_servers
    content = even_ids(servers, tmp_path, topic, "delta")
    job_file = land_twice(servers, content, topic, tmp_path, uses_spark=True)
    table = DeltaTable(tmp_path / "lake/ods.db/even")
    rows = table.to_pyarrow_table().sort_by("id").to_pylist()
    assert rows == [{"id": number, "ids": [number]} for number in range(0, 100, 2)]
    assert [each["operation"] for each in table.history()] == ["WRITE", "WRITE", "CREATE TABLE"]
    assert table.transaction_version("ashore.landing.ods__even") is not None
    with open_job(job_file) as opened:
        verdict = verify_job(opened)
    assert verdict.exit_code == 0, verdict.summary
    assert compact(job_file, "ods.even").files_written == 1
    table.update_incremental()
    assert table.to_pyarrow_table().sort_by("id").to_pylist() == rows
    assert len(table.file_uris()) == 1
    produce(servers, topic, [b'{"id": 100}'])
    land(job_file, uses_spark=True)
    table.update_incremental()
    assert len(table.to_pyarrow_table()) == 51


@pytest.mark.thirds("Spark, a bucket, Delta")
def test_a_query_puts_small_files_together_between_its_batches(
    kafka: Kafka, tmp_path: Path
) -> None:
    topic = f"delta_{uuid4().hex[:8]}"
    create_topic(kafka.bootstrap_servers, topic)
    servers = kafka.bootstrap_servers
    content = even_ids(servers, tmp_path, topic, "delta")
    compaction = {"compact": {"every": "1ms", "min_files": 2, "sort_by": ["id"]}}
    tables = [{**each, **compaction} if "topic" not in each else each for each in content["tables"]]
    job_file = land_twice(
        servers,
        {**content, "tables": tables, "batch": {"max_records": 10}},
        *(topic, tmp_path),
        uses_spark=True,
    )
    table = DeltaTable(tmp_path / "lake/ods.db/even")
    rows = table.to_pyarrow_table().sort_by("id").to_pylist()
    assert rows == [{"id": number, "ids": [number]} for number in range(0, 100, 2)]
    operations = [each["operation"] for each in table.history()]
    assert operations.count("WRITE") == 10
    assert "OPTIMIZE" in operations
    assert len(table.file_uris()) < 10
    with open_job(job_file) as opened:
        verdict = verify_job(opened)
    assert verdict.exit_code == 0, verdict.summary
