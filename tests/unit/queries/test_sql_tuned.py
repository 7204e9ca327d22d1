"""The settings of a query: job file, cores, checkpoint."""

import json
from pathlib import Path

import pytest

from ashore.jobs.file import Job
from ashore.queries.spark.sql.assembly import query_settings
from ashore.queries.spark.sql.settings import KEPT_BATCHES, SNAPSHOT_BATCHES
from ashore.queries.state.checkpoint import Checkpoint
from ashore.queries.state.layout import PARTITIONS
from ashore.storage import MemoryStorage
from ashore.topics.loop.job import load_job_file
from ashore_lab.testing import FakeClock

SQL = "INSERT INTO ods.big SELECT * FROM clicks;"


def job(tmp_path: Path, conf: dict[str, str] | None = None, **sql: object) -> Job:
    content = {
        "job": "tuned",
        "lake": "file:///data/lake",
        "source": {"kafka": {"bootstrap_servers": "127.0.0.1:1"}},
        "tables": [{"topic": "clicks", "table": "ods.clicks", "decode": "text"}],
        "sql": {"text": SQL, **sql},
        "batch": {"interval": "10s"},
        "spark": {"conf": conf or {}},
    }
    content["tables"].append({"table": "ods.big"})
    path = tmp_path / "job.yaml"
    path.write_text(json.dumps(content), "utf-8")
    return load_job_file(path)


@pytest.fixture
def checkpoint() -> Checkpoint:
    """Ten batches, 20 seconds apart, of a query that was begun with 8 partitions."""
    clock = FakeClock()
    storage = MemoryStorage(clock)
    reported = json.dumps({"conf": {PARTITIONS: "8"}})
    for batch in range(10):
        storage.create(f"ck/offsets/{batch}", f"v1\n{reported}\n{{}}".encode())
        for partition in range(8):
            storage.create(f"ck/state/0/{partition}/{batch + 1}.changelog", bytes(100))
        clock.advance(20)
    for partition in range(8):
        storage.create(f"ck/state/0/{partition}/SSTs/1-u.sst", bytes(3_300))
        storage.create(f"ck/state/0/{partition}/1.zip", bytes(10))
    return Checkpoint(storage, "ck", "memory:ck")


def test_a_first_start_goes_by_cores_and_interval(tmp_path: Path) -> None:
    settings = query_settings(job(tmp_path), 2)
    assert settings[PARTITIONS] == "32"
    assert settings[KEPT_BATCHES] == "180"


def test_checksums_beside_files_of_a_local_disk_count(tmp_path: Path) -> None:
    local = job(tmp_path, keep="10h")
    far = job(tmp_path, keep="10h", checkpoints="hdfs://nn/checkpoints")
    kept = [int(query_settings(each, 2)[KEPT_BATCHES]) for each in (local, far)]
    # 32 stores, offsets and commits; 10 batches between snapshots; and what Spark deletes later.
    assert kept == [218, 444]


def test_state_that_is_there_keeps_its_partitions(tmp_path: Path, checkpoint: Checkpoint) -> None:
    assert query_settings(job(tmp_path), 2, checkpoint)[PARTITIONS] == "8"
    assert query_settings(job(tmp_path), 64, checkpoint)[PARTITIONS] == "8"
    assert query_settings(job(tmp_path, state_partitions=8), 2, checkpoint)[PARTITIONS] == "8"


def test_what_was_measured_counts(tmp_path: Path, checkpoint: Checkpoint) -> None:
    settings = query_settings(job(tmp_path, keep="10m"), 2, checkpoint)
    assert settings[KEPT_BATCHES] == "30"
    assert settings[SNAPSHOT_BATCHES] == "33"


def test_the_job_file_has_the_last_word(tmp_path: Path, checkpoint: Checkpoint) -> None:
    own = job(tmp_path, {SNAPSHOT_BATCHES: "7"})
    assert query_settings(own, 2, checkpoint)[SNAPSHOT_BATCHES] == "7"
