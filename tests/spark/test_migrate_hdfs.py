"""`migrate apply` and `undo` of a job whose lake, checkpoints and savepoints are in HDFS."""

import json
from pathlib import Path

import pytest
from tests.kafka_tools import create_topic, produce
from tests.spark.site import LOCAL
from tests.spark.sql_jobs import PER_MINUTE_TABLE, clicks, encode, read_only
from tests.spark.test_migrate_apply import RIGHT, WRONG, migrate

from ashore.jobs.launch import JobLaunch, LaunchOptions
from ashore.log.names import SliceName
from ashore.log.store.reader import read_log
from ashore.proof.verify.job import verify_job
from ashore.topics.open_job import open_job
from ashore_lab.services.hdfs import Hdfs
from ashore_lab.services.kafka import Kafka

TOPIC = "migrate_hdfs"
NAME = SliceName(TOPIC, "ods__per_minute")


def write_job(folder: Path, servers: str, name: str, sql: str) -> Path:
    content = {
        "job": TOPIC,
        "lake": "hdfs://ashore/lake",
        "source": {
            "kafka": {"bootstrap_servers": servers},
            "first_start": {"default": "earliest"},
        },
        "tables": [read_only(TOPIC), PER_MINUTE_TABLE],
        "sql": {"text": sql, "state_partitions": 2},
        "batch": {"interval": "300ms"},
        "spark": LOCAL,
    }
    path = folder / f"{name}.yaml"
    path.write_text(json.dumps(content), "utf-8")
    return path


def run(job_file: Path) -> None:
    with JobLaunch("run", job_file, LaunchOptions(available_now=True)) as launch:
        assert launch.wait() == 0, launch.log_path.read_text()[-3000:]


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_a_filter_is_changed_and_changed_back(
    kafka: Kafka, hdfs: Hdfs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", str(hdfs.conf_dir))
    monkeypatch.setenv("ASHORE_HOME", str(tmp_path / "home"))
    servers = kafka.bootstrap_servers
    create_topic(servers, TOPIC, 1)
    old, new = (
        write_job(tmp_path, servers, name, sql) for name, sql in (("old", WRONG), ("new", RIGHT))
    )
    produce(servers, TOPIC, encode(clicks(0, 100)))
    run(old)
    asked = ("apply", old, "--to", new, "--take-over", "--accept", "partial")
    (applied,) = migrate(*asked)["applied"]
    assert applied["savepoint"].startswith("hdfs://ashore/lake/")
    assert applied["stores"][0]["before"] == applied["stores"][0]["after"] > 0
    hdfs.switch()
    produce(servers, TOPIC, encode(clicks(100, 100)))
    run(new)
    undone = migrate("undo", new, "--output", "roll-back", "--take-over")
    assert undone["rows"] > 0
    run(old)
    with open_job(old) as opened:
        assert read_log(opened.storage, NAME).migrations == ()
        verdict = verify_job(opened)
        assert verdict.exit_code == 0, (verdict.problems, verdict.notes)
        # Minutes 0, 1 and 2 of one country, each once.
        assert verdict.totals.landed == 3
