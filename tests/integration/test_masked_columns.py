"""Columns with a mask, from a real topic to the files of a table, and back by `verify`."""

import json
from pathlib import Path
from uuid import uuid4

import pyarrow.dataset as ds
import pytest
from tests.integration.test_verify_values import verify
from tests.job_files import job_content, land
from tests.kafka_tools import create_topic, produce

from ashore.errors import ExitCode
from ashore.proof.verify.value_check import NOT_MASKED
from ashore_lab.services.kafka import Kafka

RECORDS = 500


@pytest.fixture
def job(kafka: Kafka, tmp_path: Path) -> dict:
    topic = f"masked-{uuid4().hex[:10]}"
    create_topic(kafka.bootstrap_servers, topic, 1)
    table = {
        "topic": topic,
        "table": "ods.people",
        "schema": "id BIGINT, email STRING, card STRING, home STRUCT<city: STRING, street: STRING>",
        "partition_by": [],
        "provenance": "headers",
        "mask": {"email": "sha256", "card": "last4", "home.street": None},
    }
    return job_content(
        kafka.bootstrap_servers, tmp_path, topic, tables=[table], batch={"interval": "100ms"}
    )


def write_and_land(job: dict, tmp_path: Path) -> Path:
    path = tmp_path / "job.yaml"
    path.write_text(json.dumps(job))
    land(path)
    return path


def produce_people(kafka: Kafka, job: dict) -> None:
    people = [
        {
            "id": number,
            "email": f"secret-{number}@example.org",
            "card": f"secret{number:010}",
            "home": {"city": "Berlin", "street": f"secret {number}"},
        }
        for number in range(RECORDS)
    ]
    values = [json.dumps(each).encode() for each in people]
    values[7] = b'{"id": "secret", "email": 5}'
    keys = [b"secret"] * RECORDS
    produce(kafka.bootstrap_servers, job["tables"][0]["topic"], values, partition=0, keys=keys)


def test_no_file_of_the_lake_has_a_value_that_is_masked(
    kafka: Kafka, job: dict, tmp_path: Path
) -> None:
    produce_people(kafka, job)
    path = write_and_land(job, tmp_path)
    lake = Path(job["lake"].removeprefix("file://"))
    for file in lake.rglob("*"):
        if file.is_file():
            rows = ds.dataset(file).to_table().to_pylist() if file.suffix == ".parquet" else []
            assert "secret" not in str(rows)
            assert b"secret" not in file.read_bytes()
    rows = ds.dataset(lake / "ods.db" / "people", exclude_invalid_files=True).to_table()
    row = rows.slice(20, 1).to_pylist()[0]
    assert row["card"] == f"{'*' * 12}{row['id']:04}"
    assert row["home"] == {"city": "Berlin", "street": None}
    assert len(row["email"]) == 64
    exit_code, result = verify(path, "--values", "100%")
    assert exit_code == 0, result["problems"]
    assert (result["values"]["compared"], result["values"]["different"]) == (RECORDS, 0)


def test_rows_that_landed_before_the_mask_are_named_not_called_different(
    kafka: Kafka, job: dict, tmp_path: Path
) -> None:
    produce_people(kafka, job)
    mask = job["tables"][0].pop("mask")
    write_and_land(job, tmp_path)
    job["tables"][0]["mask"] = mask
    path = tmp_path / "job.yaml"
    path.write_text(json.dumps(job))
    exit_code, result = verify(path, "--values", "100%")
    assert result["values"]["different"] == 0
    skipped = result["values"]["not_compared"]
    assert {each["table"] for each in skipped} == {"ods.people", "ods.people__dead"}
    assert {each["reason"] for each in skipped} == {NOT_MASKED}
    assert sum(each["rows"] for each in skipped) == RECORDS
    assert exit_code == ExitCode.UNPROVEN  # no row was compared
