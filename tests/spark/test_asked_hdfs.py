"""A query whose lake is in HDFS is asked by its lake, by commands that do not see its home."""

import json
import os
import subprocess
import time
from pathlib import Path

import pytest
from tests.integration.test_terminal import ASHORE
from tests.kafka_tools import create_topic, produce
from tests.spark.hdfs_lake import Running
from tests.spark.site import LOCAL
from tests.spark.sql_jobs import clicks, encode, read_only

from ashore.jobs.launch import JobLaunch
from ashore.log.names import requests_directory
from ashore.topics.open_job import open_job
from ashore_lab.services.hdfs import Hdfs
from ashore_lab.services.kafka import Kafka

IDLE_S = 12.0


@pytest.mark.thirds("a job on HDFS")
def test_a_query_answers_requests_for_a_savepoint_and_a_stop_from_its_lake(
    kafka: Kafka, hdfs: Hdfs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", str(hdfs.conf_dir))
    monkeypatch.setenv("ASHORE_HOME", str(tmp_path / "home"))
    servers, topic = kafka.bootstrap_servers, "asked_hdfs"
    create_topic(servers, topic, 1)
    content = {
        "job": topic,
        "lake": "hdfs://ashore/lake",
        "source": {
            "kafka": {"bootstrap_servers": servers},
            "first_start": {"default": "earliest"},
        },
        "tables": [read_only(topic), {"table": "ods.asked"}],
        "sql": {"text": "INSERT INTO ods.asked SELECT id, country FROM clicks;"},
        "batch": {"interval": "300ms"},
        "requests": "lake",
        "spark": LOCAL,
    }
    job_file = tmp_path / "job.yaml"
    job_file.write_text(json.dumps(content), "utf-8")
    produce(servers, topic, encode(clicks(0, 10)))

    def ask(*command: str) -> dict[str, object]:
        ended = subprocess.run(
            [ASHORE, *command, "--json"],
            capture_output=True, text=True, check=False, timeout=240,
            env={**os.environ, "ASHORE_HOME": str(tmp_path / "elsewhere")},
        )  # fmt: skip
        assert ended.returncode == 0, ended.stderr
        assert f"asked process {launch.pid} to" in ended.stderr, ended.stderr
        document: dict[str, object] = json.loads(ended.stdout)
        return document

    with JobLaunch("run", job_file) as launch:
        job = Running(launch)
        job.wait_for("landed")
        saved = ask("checkpoint", "savepoint", str(job_file), "--to", "hdfs://ashore/saved")
        since_ms = time.time_ns() // 1_000_000
        time.sleep(IDLE_S)
        looks = [
            each
            for each in hdfs.audit_entries(since_ms)
            if (each.source or "").endswith(requests_directory(topic))
        ]
        assert 1 <= len(looks) <= 4, looks
        stopped = ask("stop", str(job_file))
        assert job.wait() == 0, launch.log_path.read_text()[-3000:]
    assert saved["batch"] == 0, saved
    assert stopped["pid"] == launch.pid
    with open_job(job_file) as opened:
        assert opened.storage.list(requests_directory(topic)) == []
