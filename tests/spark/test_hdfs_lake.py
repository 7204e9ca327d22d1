"""A whole job on a lake in HDFS, while its NameNodes are switched, killed and cut off."""

from pathlib import Path

import pytest
from tests.spark.hdfs_lake import Lake

from ashore.jobs.events import Landed, moment_of
from ashore.jobs.launch import JobLaunch
from ashore_lab.services.hdfs import Hdfs
from ashore_lab.services.kafka import Kafka


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASHORE_HOME", str(tmp_path / "home"))


@pytest.fixture
def on_hdfs(hdfs: Hdfs, monkeypatch: pytest.MonkeyPatch) -> Hdfs:
    monkeypatch.setenv("HADOOP_CONF_DIR", str(hdfs.conf_dir))
    return hdfs


@pytest.fixture
def on_steady_hdfs(steady_hdfs: Hdfs, monkeypatch: pytest.MonkeyPatch) -> Hdfs:
    monkeypatch.setenv("HADOOP_CONF_DIR", str(steady_hdfs.conf_dir))
    return steady_hdfs


@pytest.mark.long  # every day with SQL: tests/spark/test_sql_hdfs.py
def test_a_job_on_hdfs_is_killed_in_its_moves_and_goes_on_after_a_switch(
    kafka: Kafka, on_hdfs: Hdfs, tmp_path: Path
) -> None:
    lake = Lake(kafka, "hdfs_killed", tmp_path, uses_spark=True)
    lake.produce(3_000)
    with JobLaunch("run", lake.job_file) as launch:
        for event in launch.events():
            if moment_of(event) == "move":
                launch.kill()
    on_hdfs.switch()
    lake.drain()
    lake.prove()


@pytest.mark.long
def test_a_job_on_hdfs_rides_out_a_switch_and_the_death_of_the_active_namenode(
    kafka: Kafka, on_hdfs: Hdfs, tmp_path: Path
) -> None:
    lake = Lake(kafka, "hdfs_rides", tmp_path, uses_spark=True)
    lake.produce(1_000)
    landed = 0
    killed: int | None = None
    with JobLaunch("run", lake.job_file) as launch:
        for event in launch.events():
            if not isinstance(event, Landed):
                continue
            landed += 1
            if landed == 1:
                on_hdfs.switch()
                lake.produce(1_000)
            elif killed is None:
                killed = on_hdfs.active()
                assert killed is not None
                on_hdfs.kill_namenode(killed)
                on_hdfs.switch(1 - killed)
                lake.produce(1_000)
            elif landed >= 3:
                launch.stop()
        assert launch.wait() == 0
    if killed is not None:
        on_hdfs.start_namenode(killed)
    lake.drain()
    lake.prove()


@pytest.mark.long  # calls of one commit: tests/integration/test_hdfs_storage.py
@pytest.mark.parametrize(
    "uses_spark", [False, pytest.param(True, marks=pytest.mark.long)], ids=["alone", "spark"]
)
def test_a_steady_commit_asks_little_of_the_namenode(
    kafka: Kafka, on_steady_hdfs: Hdfs, tmp_path: Path, uses_spark: bool
) -> None:
    name = f"hdfs_budget_{uses_spark}".lower()
    lake = Lake(kafka, name, tmp_path, uses_spark=uses_spark)
    lake.produce(1_000)
    since_ms, until_ms = 0, 0
    landed = files = 0
    with JobLaunch("run", lake.job_file) as launch:
        for event in launch.events():
            if not isinstance(event, Landed):
                continue
            landed += 1
            if landed == 1:
                since_ms = max(each.time_ms for each in on_steady_hdfs.audit_entries())
            elif landed < 6:
                files += event.files
            if landed == 5:
                until_ms = max(each.time_ms for each in on_steady_hdfs.audit_entries())
                launch.stop()
            else:
                lake.produce(500)
        assert launch.wait() == 0
    calls = [
        each.command
        for each in on_steady_hdfs.audit_entries(since_ms)
        if since_ms < each.time_ms <= until_ms
    ]
    assert "listStatus" not in calls
    assert "delete" not in calls
    entries = 4 + 4  # a log file a batch, and as many that close at an idle tick at the most
    metadata = [each for each in calls if each not in ("create", "open")]
    assert files >= 4
    assert len(metadata) <= 2 * (files + entries), metadata
    lake.drain()
    lake.prove()
