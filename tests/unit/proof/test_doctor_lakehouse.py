"""Continuing after a sink of an Iceberg or a Delta table, with real tables on a local disk."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, Transaction, write_deltalake
from pyiceberg.catalog import load_catalog
from tests.unit.tables.test_connect_events import MARK, NEXT_OF, REACHED, all_events, control

from ashore.errors import JobFileInvalid
from ashore.jobs.file import parse_job
from ashore.log.positions import StreamShard
from ashore.log.store.owner import read_owner
from ashore.proof.doctor.apply import diagnose, treat
from ashore.proof.doctor.observe import FormerAt
from ashore.storage.open import open_storage
from ashore.topics.open_job import OpenJob
from ashore_lab.testing import FakeClock, RecordedSource

ROWS = pa.table({"id": pa.array([1, 2], pa.int64())})
AT = FormerAt(connect_table="ods.m")


def open_job(lake: Path, source: RecordedSource, table_format: str) -> OpenJob:
    table = {"topic": "m", "table": "ods.m", "schema": "id BIGINT", "format": table_format}
    document = {
        "job": "m",
        "lake": f"file://{lake}",
        "source": {"kafka": {"bootstrap_servers": "127.0.0.1:1"}},
        "tables": [table],
    }
    clock = FakeClock()
    storage = open_storage(f"file://{lake}", deadline_s=10, clock=clock)
    return OpenJob(parse_job(json.dumps(document)), storage, source, clock)


def fill(source: RecordedSource) -> RecordedSource:
    source.create("m", 9)
    for number in range(9):
        source.append(StreamShard("m", str(number)), *[b"{}"] * 14_000)
    return source


def begins(opened: OpenJob) -> dict[StreamShard, int]:
    """Do what the doctor plans, and return where each partition begins."""
    found = treat(opened, AT, lambda _: None, takes_over=True)
    assert found.refusals == ()
    owner = read_owner(opened.storage, "ods.m")
    assert owner is not None
    assert owner.job == "m"
    shards = opened.fold(opened.name).shards
    return {StreamShard(key.stream, key.shard): each.next for key, each in shards.items()}


def test_a_job_continues_after_icebergs_sink(tmp_path: Path) -> None:
    with load_catalog("ashore", type="sql", uri=f"sqlite:///{tmp_path}/iceberg.db") as catalog:
        catalog.create_namespace("ods")
        table = catalog.create_table("ods.m", ROWS.schema, location=f"file://{tmp_path}/ods.db/m")
        table.append(ROWS, snapshot_properties={MARK: REACHED})
        table.append(ROWS)  # another writer's
    opened = open_job(tmp_path, fill(control(*all_events())), "iceberg")
    assert begins(opened) == {**NEXT_OF, StreamShard("m", "8"): 0}
    again = diagnose(opened, AT)
    assert (again.steps, again.refusals) == ((), ())


def test_a_job_continues_after_kafka_delta_ingest(tmp_path: Path) -> None:
    marks = [Transaction("ingest-0", 99), Transaction("ingest-1", 39)]
    properties = CommitProperties(app_transactions=marks)
    write_deltalake(tmp_path / "ods.db" / "m", ROWS, commit_properties=properties)
    opened = open_job(tmp_path, fill(RecordedSource(clock=FakeClock())), "delta")
    found = begins(opened)
    assert [found[StreamShard("m", each)] for each in "012"] == [100, 40, 0]


def test_a_table_that_does_not_exist_has_no_sink(tmp_path: Path) -> None:
    opened = open_job(tmp_path, fill(RecordedSource(clock=FakeClock())), "iceberg")
    (refusal,) = diagnose(opened, AT).refusals
    assert "has no mark" in refusal.text


def test_a_control_topic_that_is_gone_is_refused(tmp_path: Path) -> None:
    with load_catalog("ashore", type="sql", uri=f"sqlite:///{tmp_path}/iceberg.db") as catalog:
        catalog.create_namespace("ods")
        table = catalog.create_table("ods.m", ROWS.schema, location=f"file://{tmp_path}/ods.db/m")
        table.append(ROWS, snapshot_properties={MARK: REACHED})
    opened = open_job(tmp_path, fill(RecordedSource(clock=FakeClock())), "iceberg")
    (refusal,) = diagnose(opened, AT).refusals
    assert "does not exist" in refusal.text


def test_other_repairs_know_directories_only(tmp_path: Path) -> None:
    opened = open_job(tmp_path, fill(RecordedSource(clock=FakeClock())), "iceberg")
    with pytest.raises(JobFileInvalid, match="ashore doctor"):
        diagnose(opened, FormerAt())
