"""`ashore verify --values` on a real Kafka: what was landed is compared with its records again."""

import json
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.job_files import job_content, land
from tests.kafka_tools import Transaction, create_topic, delete_records, produce
from typer.testing import CliRunner

from ashore.cli.app import app
from ashore_lab.services.kafka import Kafka

PARTITIONS, RECORDS = 2, 3_000
DEAD = 7  # the offset of a record that is not JSON, in each partition


@pytest.fixture
def job_file(kafka: Kafka, tmp_path: Path) -> Path:
    """Return the job file of a topic that has landed; some of its offsets are transaction marks."""
    topic = f"values-{uuid4().hex[:10]}"
    create_topic(kafka.bootstrap_servers, topic, PARTITIONS)
    for partition in range(PARTITIONS):
        values = [
            json.dumps({"id": number, "price": f"{number}.25", "at": "2026-11-21T08:00:00Z"})
            for number in range(RECORDS)
        ]
        values[DEAD] = "not JSON"
        encoded = [value.encode() for value in values]
        with Transaction(kafka.bootstrap_servers, topic, f"{topic}-{partition}") as transaction:
            transaction.send(encoded[:1_000], partition=partition)
            transaction.commit()
        keys = [b"key"] * (RECORDS - 1_000)
        produce(kafka.bootstrap_servers, topic, encoded[1_000:], partition=partition, keys=keys)
    schema = "id BIGINT, price DECIMAL(12,2), at TIMESTAMP"
    content = job_content(
        kafka.bootstrap_servers,
        tmp_path,
        topic,
        tables=[{"topic": topic, "table": "ods.events", "schema": schema}],
        batch={"interval": "100ms"},
    )
    path = tmp_path / "job.yaml"
    path.write_text(json.dumps(content))
    land(path)
    return path


def verify(job_file: Path, *options: str) -> tuple[int, dict]:
    found = CliRunner().invoke(app, ["verify", str(job_file), "--json", *options])
    return found.exit_code, json.loads(found.stdout)


def test_rows_are_what_their_records_hold_and_one_other_value_is_found(
    job_file: Path, kafka: Kafka
) -> None:
    exit_code, result = verify(job_file, "--values", "100%")
    assert exit_code == 0, result["problems"]
    values = result["values"]
    assert (values["compared"], values["different"]) == (PARTITIONS * RECORDS, 0)
    assert values["not_compared"] == []

    exit_code, result = verify(job_file, "--values", "0.01", "--seed", "5")
    assert (exit_code, result["values"]["seed"]) == (0, 5)
    assert 0 < result["values"]["compared"] < PARTITIONS * RECORDS
    assert verify(job_file, "--values", "1%", "--seed", "5")[1]["values"] == result["values"]

    path, partition, offset = spoil(job_file.parent / "lake" / "ods.db" / "events", row=1_234)
    exit_code, result = verify(job_file, "--values", "1")
    assert exit_code == 5
    [found] = [each for each in result["problems"] if each["kind"] == "value"]
    assert found["place"].endswith(path)
    assert found["offsets"] == [offset]
    assert found["difference"]["column"] == "price"
    assert found["difference"]["in_table"] == "Decimal('1000000.00')"
    assert f"/{partition} offset {offset}" in found["text"].replace("@1", "")

    topic = json.loads(job_file.read_text())["tables"][0]["topic"]
    for each in range(PARTITIONS):
        delete_records(kafka.bootstrap_servers, topic, each, 500)
    exit_code, result = verify(job_file, "--values", "1")
    [left] = [each for each in result["values"]["not_compared"] if each["table"] == "ods.events"]
    assert left["rows"] == PARTITIONS * 499  # the dead letters are of another table
    assert "no longer has" in left["reason"]
    for each in range(PARTITIONS):
        delete_records(kafka.bootstrap_servers, topic, each, RECORDS + 1)
    assert "none of" in CliRunner().invoke(app, ["verify", str(job_file), "--values", "1"]).stdout


def spoil(table: Path, row: int) -> tuple[str, int, int]:
    """Write a file again with one other value; return its name, and whose row it is."""
    for path in sorted(table.rglob("a-*.parquet")):
        content = pq.read_table(path, partitioning=None)
        if content.num_rows > row:
            column = content.schema.get_field_index("price")
            values = content["price"].to_pylist()
            values[row] = 1_000_000
            field = content.schema.field(column)
            spoilt = content.set_column(column, field, pa.array(values, field.type))
            pq.write_table(spoilt, path)
            partition, offset = (content[f"kafka_{name}"] for name in ("partition", "offset"))
            return path.name, partition[row].as_py(), offset[row].as_py()
    raise AssertionError("no file has so many rows")
