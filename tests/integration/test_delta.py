"""Delta tables on real servers: Kafka, a job process each time. delta-rs reads them."""

from pathlib import Path
from uuid import uuid4

import pytest
from deltalake import DeltaTable
from tests.integration.test_iceberg import record, send, stop, verify, write_job
from tests.job_files import land
from tests.kafka_tools import create_topic

from ashore.errors import ExitCode
from ashore_lab.services.kafka import Kafka


def open_table(directory: Path) -> DeltaTable:
    return DeltaTable(directory / "lake/ods.db/events")


def test_each_batch_is_a_version_that_other_readers_see(kafka: Kafka, tmp_path: Path) -> None:
    topic = f"delta_{uuid4().hex[:8]}"
    create_topic(kafka.bootstrap_servers, topic, 2)
    job_file = write_job(kafka, tmp_path, topic, table_format="delta")
    send(kafka, topic, [record(number) for number in range(30)])
    land(job_file)
    send(kafka, topic, [*(record(number) for number in range(30, 40)), "no record"])
    land(job_file)

    table = open_table(tmp_path)
    rows = table.to_pyarrow_table().sort_by("id").to_pylist()
    assert [row["id"] for row in rows] == list(range(40))
    assert rows[7]["tags"] == ["a", "tag 7"]
    assert rows[7]["counts"] == [("x", 7)]
    assert rows[7]["place"] == {"lat": 3.5, "name": None}
    assert str(rows[7]["amount"]) == "7.25"
    assert rows[7]["at"].isoformat() == "2026-11-21T10:00:00+00:00"
    assert (rows[7]["date"], rows[7]["country"], rows[8]["country"]) == ("2026-11-21", "cn", None)
    found = table.to_pyarrow_table(filters=[("id", ">=", 35)])
    assert len(found) == 5
    assert [each["operation"] for each in table.history()] == ["WRITE", "WRITE", "CREATE TABLE"]
    dead = DeltaTable(tmp_path / "lake/ods.db/events__dead").to_pyarrow_table()
    assert dead.column("topic").to_pylist() == [topic]
    assert verify(job_file) == (0, "lost 0, duplicated 0")


@pytest.mark.thirds("a Delta table")
def test_a_table_that_was_rolled_back_is_lost_rows_and_stops_the_job(
    kafka: Kafka, tmp_path: Path
) -> None:
    topic = f"delta_{uuid4().hex[:8]}"
    create_topic(kafka.bootstrap_servers, topic)
    job_file = write_job(kafka, tmp_path, topic, table_format="delta")
    for first in (0, 10):
        send(kafka, topic, [record(number) for number in range(first, first + 10)])
        land(job_file)

    open_table(tmp_path).restore(1)

    assert verify(job_file) == (5, "lost 10, duplicated 0, other problems 3")  # files
    send(kafka, topic, [record(20)])
    assert stop(job_file, ExitCode.DECISION).code == "table-rolled-back"
    assert len(open_table(tmp_path).to_pyarrow_table()) == 10, "nothing was landed"

    open_table(tmp_path).restore(2)
    land(job_file)
    assert len(open_table(tmp_path).to_pyarrow_table()) == 21
    assert verify(job_file) == (0, "lost 0, duplicated 0")
