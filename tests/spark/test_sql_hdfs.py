"""A query whose table and whose checkpoint are in HDFS."""

import json
import signal
from pathlib import Path

import pytest
from tests.kafka_tools import create_topic, produce
from tests.spark.site import LOCAL
from tests.spark.sql_jobs import clicks, encode, read_only

from ashore.jobs.events import moment_of
from ashore.jobs.launch import JobLaunch, LaunchOptions
from ashore.log.names import SliceName, checkpoint_directory
from ashore.proof.verify.job import verify_job
from ashore.queries.state.attempts import Attempts
from ashore.topics.open_job import open_job
from ashore_lab.services.hdfs import Hdfs
from ashore_lab.services.kafka import Kafka

SQL = """
    INSERT INTO ods.counted SELECT window.start AS second, count(*) AS clicks
    FROM clicks GROUP BY window(event_time, '1 second');
"""


@pytest.mark.thirds("a job on HDFS")
def test_a_query_on_hdfs_is_killed_in_its_moves_and_goes_on_after_a_switch(
    kafka: Kafka, hdfs: Hdfs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", str(hdfs.conf_dir))
    monkeypatch.setenv("ASHORE_HOME", str(tmp_path / "home"))
    servers, topic = kafka.bootstrap_servers, "sql_hdfs"
    create_topic(servers, topic, 1)
    content = {
        "job": "sql_hdfs",
        "lake": "hdfs://ashore/lake",
        "source": {
            "kafka": {"bootstrap_servers": servers},
            "first_start": {"default": "earliest"},
        },
        "tables": [read_only(topic), {"table": "ods.counted"}],
        "sql": {"text": SQL, "state_partitions": 2},
        "batch": {"interval": "300ms"},
        "spark": LOCAL,
    }
    job_file = tmp_path / "job.yaml"
    job_file.write_text(json.dumps(content), "utf-8")
    produce(servers, topic, encode(clicks(0, 100)))
    with JobLaunch("run", job_file) as launch:
        for event in launch.events():
            if moment_of(event) == "move":
                launch.kill()
        assert launch.wait() == -signal.SIGKILL
    hdfs.switch()
    produce(servers, topic, encode(clicks(100, 100)))
    with JobLaunch("run", job_file, LaunchOptions(available_now=True)) as launch:
        assert launch.wait() == 0, launch.log_path.read_text()[-3000:]

    with open_job(job_file) as opened:
        verdict = verify_job(opened)
        assert verdict.exit_code == 0, (verdict.problems, verdict.notes)
        path = checkpoint_directory(SliceName("sql_hdfs", "ods__counted"))
        newest = Attempts(opened.storage, path, "").newest()
        assert newest is not None
        assert newest.read_query_id() is not None
    # A row a second, of those that are over ten seconds before the last.
    assert verdict.totals.landed == 189
