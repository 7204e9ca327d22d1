"""Spark's own Delta reads tables that Ashore has landed, writes them, and Ashore continues."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from deltalake import DeltaTable
from tests.integration.test_iceberg import record, send, write_job
from tests.job_files import land
from tests.kafka_tools import create_topic

from ashore_lab.services.kafka import Kafka

PROGRAM_S = 180
SCHEMA = (
    "id BIGINT, tags ARRAY<STRING>, counts MAP<STRING, BIGINT>, amount DECIMAL(10,2), "
    "place STRUCT<lat: DOUBLE, name: STRING{more}>, at TIMESTAMP, wall TIMESTAMP_NTZ, "
    "country STRING, small {small}"
)


def look(table: Path, application: str, version: int) -> dict[str, Any]:
    """Let Spark read and write a table, in a process of its own."""
    command = [sys.executable, "-m", "tests.delta_spark", str(table), application, str(version)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PROGRAM_S, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


def make(number: int) -> dict[str, object]:
    """Return a record of all types."""
    place = {"lat": number / 2, "alt": number}
    wall = f"2026-11-2{number % 3}T10:00:00.123456"
    return {**record(number), "wall": wall, "small": number, "place": place}


@pytest.mark.thirds("Spark, a bucket, Delta")
def test_spark_reads_what_was_landed_and_lands_beside_it(kafka: Kafka, tmp_path: Path) -> None:
    topic = f"delta_{uuid4().hex[:8]}"
    create_topic(kafka.bootstrap_servers, topic, 2)
    before = SCHEMA.format(more="", small="TINYINT")
    after = SCHEMA.format(more=", alt: INT", small="INT")
    directory = tmp_path / "lake/ods.db/events"
    for batch in range(4):
        schema = before if batch < 2 else after
        job_file = write_job(kafka, tmp_path, topic, schema, table_format="delta")
        send(kafka, topic, [make(number) for number in range(10 * batch, 10 * batch + 10)])
        land(job_file)
        if batch == 0:
            properties = {"delta.checkpointInterval": "2"}
            DeltaTable(directory).alter.set_table_properties(properties)
    log = directory / "_delta_log"
    checkpoint = max(int(each.name[:20]) for each in log.glob("*.checkpoint.parquet"))
    assert checkpoint > 2
    application = "ashore.landing.main"
    mark = DeltaTable(directory).transaction_version(application)

    found = look(directory, application, mark)

    rows = found["rows"]
    assert [row["id"] for row in rows] == list(range(40))
    assert rows[7]["tags"] == ["a", "tag 7"]
    assert rows[7]["counts"] == {"x": 7}
    assert (rows[7]["place"], rows[37]["place"]) == ({"lat": 3.5}, {"lat": 18.5, "alt": 37})
    assert [row["small"] for row in rows] == list(range(40))
    assert rows[7]["amount"] == 7.25
    assert rows[7]["at"] == "2026-11-21T10:00:00.000Z"
    assert rows[7]["wall"] == "2026-11-21T10:00:00.123"
    assert (rows[7]["date"], rows[7]["country"]) == ("2026-11-21", "cn")
    assert "amount:decimal(10,2)" in found["schema"]
    assert (found["late"], found["german"], found["of_version_1"]) == (5, 14, 10)
    operations = [each["operation"] for each in reversed(found["history"])]
    assert operations[:2] == ["CREATE TABLE", "WRITE"]
    assert operations.count("WRITE") == 4
    assert found["detail"]["partitionColumns"] == ["date", "country"]
    assert found["unreferenced"] == 0
    assert found["appended_again"] == 40, "Spark has seen the transaction of the job"
    assert (found["optimized"], found["left"]) == ("OPTIMIZE", 39)

    send(kafka, topic, [make(40)])
    land(job_file)
    ids = DeltaTable(directory).to_pyarrow_table().column("id").to_pylist()
    assert sorted(ids) == [0, 1, 2, *range(4, 41)]
