"""Retention with real servers: Kafka, a lake in HDFS, a Hive metastore, a job process each time."""

import json
import time
from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

import pytest
from tests.kafka_tools import create_topic, produce

from ashore.base.clock import SystemClock
from ashore.jobs.events import Event, Retired
from ashore.jobs.launch import JobLaunch, LaunchOptions
from ashore.log import names
from ashore.proof.status.status import read_status
from ashore.proof.verify.job import verify_job
from ashore.tables.catalog.hive_client import HiveClient
from ashore.tables.catalog.hive_wire import Address
from ashore.topics.open_job import open_job
from ashore_lab.services.hdfs import Hdfs
from ashore_lab.services.hive import Hive
from ashore_lab.services.kafka import Kafka

DAY_MS = 86_400_000
SHARDS = (0, 1)


def listed(hive: Hive, table: str, *partitions: str) -> set[str]:
    """Return those partitions that the metastore lists."""
    host, port = hive.uri.removeprefix("thrift://").split(":")
    client = HiveClient((Address(host, int(port)),), 60, SystemClock())
    try:
        found = client.call("get_partitions_by_names", *table.split("."), list(partitions))
    finally:
        client.close()
    return {f"date={each.values[0]}" for each in found}


@pytest.mark.long  # every day at each call in memory: tests/crash/test_retention.py
def test_an_old_day_goes_from_hdfs_and_hive_by_itself(
    kafka: Kafka, hdfs: Hdfs, hive: Hive, tmp_path: Path
) -> None:
    topic = f"retention_{uuid4().hex[:8]}"
    table = f"ods.{topic}"
    create_topic(kafka.bootstrap_servers, topic, len(SHARDS))
    job_file = tmp_path / "job.yaml"
    content = {
        "job": topic,
        "lake": "hdfs://ashore/lake",
        "hdfs": {"conf_dir": str(hdfs.conf_dir)},
        "source": {
            "kafka": {"bootstrap_servers": kafka.bootstrap_servers},
            "first_start": {"default": "earliest"},
        },
        "tables": [
            {
                "topic": topic,
                "table": table,
                "schema": "id BIGINT, ts BIGINT",
                "event_time": {"column": "ts"},
                "partition_by": ["date"],
                "retention": "2d",
            }
        ],
        "catalog": {"hive": {"uri": hive.uri}},
        "spark": "none",
    }
    job_file.write_text(json.dumps(content))
    now_ms = int(time.time() * 1000)
    old, today = (f"date={day(ms)}" for ms in (now_ms - 5 * DAY_MS, now_ms))

    land(kafka, job_file, topic, [now_ms - 5 * DAY_MS] * 3)
    assert listed(hive, table, old, today) == {old}
    land(kafka, job_file, topic, [now_ms] * 2)
    assert listed(hive, table, old, today) == {old, today}
    events = land(kafka, job_file, topic, [now_ms])

    (retired,) = [each for each in events if isinstance(each, Retired)]
    assert (retired.partitions, retired.tables) == (1, (table,))
    assert retired.files >= 2, "a file of each topic partition, or of both, and a success file"
    assert listed(hive, table, old, today) == {today}
    with open_job(job_file) as opened:
        directory = names.table_path(table)
        assert opened.storage.list(f"{directory}/{old}") == []
        assert opened.storage.list(f"{directory}/{today}")
        verdict = verify_job(opened)
        assert (verdict.exit_code, verdict.summary) == (0, "lost 0, duplicated 0")
        assert verdict.totals.retired == 6
        (status,) = read_status(opened).slices
        assert status.counters["retired_partitions"] == 1

    # What belongs to the day that is gone is filed under this one.
    land(kafka, job_file, topic, [now_ms - 5 * DAY_MS])
    assert listed(hive, table, old, today) == {today}


def day(time_ms: int) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(time_ms / 1000))


def land(kafka: Kafka, job_file: Path, topic: str, times_ms: Sequence[int]) -> list[Event]:
    """Produce records of these times in each topic partition; let a process land them."""
    for shard in SHARDS:
        values = [json.dumps({"id": shard, "ts": each}).encode() for each in times_ms]
        produce(kafka.bootstrap_servers, topic, values, partition=shard)
    with JobLaunch("run", job_file, LaunchOptions(available_now=True, uses_spark=False)) as launch:
        events = list(launch.events())
        assert launch.wait() == 0, events[-3:]
    return events
