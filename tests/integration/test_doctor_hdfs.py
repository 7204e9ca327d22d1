"""The doctor on a real HDFS: whole directories move aside, lists and joins are written there."""

import json
from pathlib import Path
from uuid import uuid4

import pytest
from tests.unit.cli.test_commands import JOB

from ashore.base.clock import SystemClock
from ashore.log.names import SliceName
from ashore.log.positions import StreamShard
from ashore.log.store.reader import read_log
from ashore.proof.doctor.apply import Done, diagnose, treat
from ashore.proof.doctor.observe import FormerAt
from ashore.proof.verify.job import verify_job
from ashore.storage.open import open_storage
from ashore.topics.loop.job import load_job_file
from ashore.topics.open_job import OpenJob
from ashore_lab.services.hdfs import Hdfs
from ashore_lab.testing import RecordedSource

TABLE = "ods.db/clicks"


def test_a_table_of_sparks_on_hdfs_is_adopted(
    steady_hdfs: Hdfs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", str(steady_hdfs.conf_dir))
    home = f"{steady_hdfs.uri}/doctor-{uuid4()}"
    storage, checkpoint = open_storage(f"{home}/lake"), open_storage(f"{home}/checkpoint")
    path = f"{TABLE}/date=2026-11-21/hour=08/part-00000-{uuid4()}-c000.snappy.parquet"
    stray = f"{TABLE}/date=2026-11-21/hour=08/part-00001-{uuid4()}-c000.snappy.parquet"
    storage.create(path, b"rows")
    storage.create(stray, b"")
    found = storage.stat(path)
    assert found is not None
    line = {"path": f"{home}/lake/{path}", "modificationTime": found.modified_ms}
    storage.create(f"{TABLE}/_spark_metadata/0", f"v1\n{json.dumps(line)}".encode())
    checkpoint.create("offsets/0", b'v1\n{}\n{"clicks":{"0":30}}')
    checkpoint.create("commits/0", b"v1\n{}")
    job_file = tmp_path / "job.yaml"
    job = JOB.replace("file://{lake}", "{lake}").format(lake=f"{home}/lake")
    job_file.write_text(job + "batch: {interval: 10ms}\n")
    source = RecordedSource("kafka")
    source.create("clicks")
    source.append(StreamShard("clicks", "0"), *[b"x"] * 40)
    opened = OpenJob(load_job_file(job_file), storage, source, SystemClock())
    done: list[Done] = []

    left = treat(opened, FormerAt(f"{home}/checkpoint"), done.append, takes_over=False)

    assert not left.refusals
    (state,) = read_log(storage, SliceName("clicks", "main")).shards.values()
    assert (state.first, state.next) == (30, 30)
    assert storage.stat(f"{TABLE}/_spark_metadata") is None
    assert storage.stat(path) is not None
    assert storage.stat(stray) is None
    assert all(each.undo.startswith("hdfs dfs -mv hdfs://") for each in done if each.undo)
    assert verify_job(opened).exit_code == 0
    assert diagnose(opened, FormerAt()).steps == ()
