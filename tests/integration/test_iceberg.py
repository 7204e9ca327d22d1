"""Iceberg tables on real servers: Kafka, a job process each time, a catalog in SQLite.

They are read by pyiceberg with its own files and by DuckDB or polars: not through Ashore's storage.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import Catalog, load_catalog
from tests.job_files import compact, job_content, land
from tests.kafka_tools import create_topic, produce
from typer.testing import CliRunner

from ashore.cli.app import app
from ashore.errors import ExitCode
from ashore.jobs.failure import Failed
from ashore.jobs.launch import JobLaunch, LaunchOptions
from ashore.proof.verify.job import verify_job
from ashore.topics.open_job import open_job
from ashore_lab.services.kafka import Kafka

SCHEMA = (
    "id BIGINT, user STRING, tags ARRAY<STRING>, counts MAP<STRING, BIGINT>, "
    "place STRUCT<lat: DOUBLE, name: STRING>, amount DECIMAL(10,2), at TIMESTAMP, country STRING"
)


def record(number: int) -> dict[str, object]:
    return {
        "id": number,
        "user": f"user {number}",
        "tags": ["a", f"tag {number}"],
        "counts": {"x": number},
        "place": {"lat": number / 2, "name": None},
        "amount": f"{number}.25",
        "at": f"2026-11-2{number % 3}T10:00:00Z",
        "country": ("de", "cn", None)[number % 3],
    }


def write_job(
    kafka: Kafka,
    directory: Path,
    topic: str,
    schema: str = SCHEMA,
    *,
    table_format: str = "iceberg",
    partition_by: Sequence[str] = ("date", "country"),
) -> Path:
    table = {
        "topic": topic,
        "table": "ods.events",
        "schema": schema,
        "format": table_format,
        "event_time": {"column": "at"},
        "late": {"after": "3650d"},
        "partition_by": list(partition_by),
    }
    path = directory / "job.yaml"
    path.write_text(
        json.dumps(job_content(kafka.bootstrap_servers, directory, topic, tables=[table]))
    )
    return path


def open_catalog(directory: Path) -> Catalog:
    return load_catalog("ashore", type="sql", uri=f"sqlite:///{directory}/lake/iceberg.db")


def send(kafka: Kafka, topic: str, records: Sequence[object]) -> None:
    produce(kafka.bootstrap_servers, topic, [json.dumps(each).encode() for each in records])


def test_each_batch_is_a_snapshot_that_other_readers_see(kafka: Kafka, tmp_path: Path) -> None:
    topic = f"iceberg_{uuid4().hex[:8]}"
    create_topic(kafka.bootstrap_servers, topic, 2)
    job_file = write_job(kafka, tmp_path, topic)
    send(kafka, topic, [record(number) for number in range(30)])
    land(job_file)
    send(kafka, topic, [*(record(number) for number in range(30, 40)), "no record"])
    land(job_file)

    catalog = open_catalog(tmp_path)
    table = catalog.load_table("ods.events")
    rows = sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["id"])
    assert [row["id"] for row in rows] == list(range(40))
    assert rows[7]["tags"] == ["a", "tag 7"]
    assert rows[7]["counts"] == [("x", 7)]
    assert rows[7]["place"] == {"lat": 3.5, "name": None}
    assert str(rows[7]["amount"]) == "7.25"
    assert rows[7]["at"].isoformat() == "2026-11-21T10:00:00+00:00"
    assert (rows[7]["date"], rows[7]["country"], rows[8]["country"]) == ("2026-11-21", "cn", None)
    assert [len(table.scan(f"country == '{each}'").to_arrow()) for each in ("de", "cn")] == [14, 13]
    assert len(table.scan("id >= 35").to_arrow()) == 5
    entries = [
        each.summary["ashore.entry"] for each in table.snapshots() if each.summary is not None
    ]
    assert len(entries) == 2
    assert table.properties["ashore.landing.main"] == entries[-1]
    dead = catalog.load_table("ods.events__dead").scan().to_arrow()
    assert dead.column("topic").to_pylist() == [topic]
    assert verify(job_file) == (0, "lost 0, duplicated 0")


@pytest.mark.thirds("an Iceberg table")
def test_readers_skip_files_by_partition_transforms(kafka: Kafka, tmp_path: Path) -> None:
    topic = f"iceberg_{uuid4().hex[:8]}"
    create_topic(kafka.bootstrap_servers, topic, 2)
    transforms = ["day(at)", "bucket(4, id)", "truncate(6, user)"]
    job_file = write_job(kafka, tmp_path, topic, partition_by=transforms)
    send(kafka, topic, [record(number) for number in range(30)])
    land(job_file)

    table = open_catalog(tmp_path).load_table("ods.events")
    assert sorted(table.scan().to_arrow().column("id").to_pylist()) == list(range(30))
    files = len(list(table.scan().plan_files()))
    for condition, ids in (
        ("id == 7", [7]),
        ("at < '2026-11-21T00:00:00+00:00'", list(range(0, 30, 3))),
        ("user == 'user 29'", [29]),
    ):
        scan = table.scan(condition)
        assert sorted(scan.to_arrow().column("id").to_pylist()) == ids
        assert len(list(scan.plan_files())) < files
    assert verify(job_file) == (0, "lost 0, duplicated 0")

    send(kafka, topic, [record(number) for number in range(30)])
    land(job_file)
    assert compact(job_file, "ods.events").files_written == files
    table = table.refresh()
    assert len(list(table.scan().plan_files())) == files
    scan = table.scan("id == 7 and user == 'user 7'")
    assert scan.to_arrow().column("id").to_pylist() == [7, 7]
    assert len(list(scan.plan_files())) == 1


@pytest.mark.thirds("an Iceberg table")
@pytest.mark.parametrize("table_format", ["iceberg", "delta"])
def test_small_files_are_put_together_by_a_command(
    table_format: str, kafka: Kafka, tmp_path: Path
) -> None:
    topic = f"iceberg_{uuid4().hex[:8]}"
    create_topic(kafka.bootstrap_servers, topic, 2)
    job_file = write_job(kafka, tmp_path, topic, table_format=table_format, partition_by=["date"])
    for first in (0, 10, 20):
        send(kafka, topic, [*(record(number) for number in range(first, first + 10)), "no record"])
        land(job_file)

    def read() -> list[dict[str, object]]:
        if table_format == "delta":
            rows = DeltaTable(f"{tmp_path}/lake/ods.db/events").to_pyarrow_table()
        else:
            rows = open_catalog(tmp_path).load_table("ods.events").scan().to_arrow()
        found: list[dict[str, object]] = rows.to_pylist()
        return sorted(found, key=lambda row: row["id"])

    before = read()
    compact = ["compact", str(job_file), "--min-files", "2", "--json"]
    planned = json.loads(CliRunner().invoke(app, [*compact, "--explain"]).stdout)
    assert [each["snapshots"] for each in planned["tables"]] == [[], []]
    assert read() == before
    done = CliRunner().invoke(app, compact)
    assert done.exit_code == 0, done.stdout
    events, dead = json.loads(done.stdout)["tables"]
    assert (events["table"], dead["table"]) == ("ods.events", "ods.events__dead")
    assert events["files_written"] == events["files_planned"] == 3
    assert dead["files_written"] == 1
    assert read() == before
    assert verify(job_file) == (0, "lost 0, duplicated 0")

    send(kafka, topic, [record(30)])
    land(job_file)
    assert [row["id"] for row in read()] == list(range(31))
    assert verify(job_file) == (0, "lost 0, duplicated 0")
    again = json.loads(CliRunner().invoke(app, [*compact, "--min-files", "10"]).stdout)
    assert [each["files_written"] for each in again["tables"]] == [0, 0]


def verify(job_file: Path) -> tuple[int, str]:
    with open_job(job_file) as opened:
        verdict = verify_job(opened)
    return verdict.exit_code, verdict.summary


@pytest.mark.thirds("an Iceberg table")
def test_a_table_that_was_rolled_back_is_lost_rows_and_stops_the_job(
    kafka: Kafka, tmp_path: Path
) -> None:
    topic = f"iceberg_{uuid4().hex[:8]}"
    create_topic(kafka.bootstrap_servers, topic)
    job_file = write_job(kafka, tmp_path, topic)
    for first in (0, 10):
        send(kafka, topic, [record(number) for number in range(first, first + 10)])
        land(job_file)
    catalog = open_catalog(tmp_path)
    table = catalog.load_table("ods.events")
    first, last = table.snapshots()

    table.manage_snapshots().rollback_to_snapshot(first.snapshot_id).commit()

    assert verify(job_file) == (5, "lost 10, duplicated 0, other problems 3")  # files
    send(kafka, topic, [record(20)])
    stopped = stop(job_file, ExitCode.DECISION)
    assert f"snapshot {last.snapshot_id}" in stopped.message
    assert len(catalog.load_table("ods.events").scan().to_arrow()) == 10, "nothing was landed"

    table.refresh().manage_snapshots().set_current_snapshot(last.snapshot_id).commit()
    land(job_file)
    assert len(catalog.load_table("ods.events").scan().to_arrow()) == 21
    assert verify(job_file) == (0, "lost 0, duplicated 0")


@pytest.mark.thirds("an Iceberg table")
def test_a_table_that_was_created_again_stops_the_job(kafka: Kafka, tmp_path: Path) -> None:
    topic = f"iceberg_{uuid4().hex[:8]}"
    create_topic(kafka.bootstrap_servers, topic)
    job_file = write_job(kafka, tmp_path, topic)
    send(kafka, topic, [record(1)])
    land(job_file)
    catalog = open_catalog(tmp_path)
    schema = catalog.load_table("ods.events").schema()

    catalog.drop_table("ods.events")
    send(kafka, topic, [record(2)])
    stopped = stop(job_file, ExitCode.DECISION)
    assert "dropped and created again" in stopped.message
    assert schema.column_names == catalog.load_table("ods.events").schema().column_names


@pytest.mark.thirds("an Iceberg table")
def test_columns_are_added_and_other_writers_may_commit(kafka: Kafka, tmp_path: Path) -> None:
    topic = f"iceberg_{uuid4().hex[:8]}"
    create_topic(kafka.bootstrap_servers, topic)
    job_file = write_job(kafka, tmp_path, topic)
    send(kafka, topic, [record(1)])
    land(job_file)
    table = open_catalog(tmp_path).load_table("ods.events")
    table.append(table.scan().to_arrow())

    job_file = write_job(kafka, tmp_path, topic, f"{SCHEMA}, added ARRAY<BIGINT>")
    send(kafka, topic, [{**record(2), "added": [7]}])
    land(job_file)

    rows = table.refresh().scan().to_arrow().sort_by("id").to_pylist()
    assert [(row["id"], row["added"]) for row in rows] == [(1, None), (1, None), (2, [7])]


def stop(job_file: Path, code: ExitCode) -> Failed:
    with JobLaunch("run", job_file, LaunchOptions(available_now=True, uses_spark=False)) as launch:
        events = list(launch.events())
        assert launch.wait() == code, events[-3:]
    return next(each for each in events if isinstance(each, Failed))
