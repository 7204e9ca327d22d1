"""What a job file says, for tests on real servers: one topic into one table, without Spark."""

import json
from pathlib import Path

from tests.kafka_tools import produce

from ashore.jobs.events import Event
from ashore.jobs.launch import JobLaunch, LaunchOptions
from ashore.log.plan_compact import CompactRule
from ashore.proof.compact import CompactedTable, apply_compaction, plan_compaction
from ashore.proof.verify.job import verify_job
from ashore.topics.open_job import open_job


def job_content(bootstrap: str, directory: Path, topic: str, **more: object) -> dict[str, object]:
    """Return a job file as data; its lake is in a directory. `more`: what it says besides."""
    return {
        "job": "landing",
        "lake": f"file://{directory}/lake",
        "source": {
            "kafka": {"bootstrap_servers": bootstrap},
            "first_start": {"default": "earliest"},
        },
        "tables": [{"topic": topic, "table": "ods.events", "schema": "id BIGINT"}],
        "spark": "none",
        **more,
    }


def land(job_file: Path, *, uses_spark: bool = False) -> list[Event]:
    """Let a process land what is there, and return its events. Fails where it does."""
    options = LaunchOptions(available_now=True, uses_spark=uses_spark)
    with JobLaunch("run", job_file, options) as launch:
        events = list(launch.events())
        assert launch.wait() == 0, events[-3:]
    return events


def land_twice(
    servers: str, content: dict[str, object], topic: str, directory: Path, *, uses_spark: bool
) -> Path:
    """Produce ids from 0 to 49 and land them, then those to 99. Returns the job file."""
    job_file = directory / "job.yaml"
    job_file.write_text(json.dumps(content))
    for first in (0, 50):
        values = [json.dumps({"id": number}).encode() for number in range(first, first + 50)]
        produce(servers, topic, values)
        land(job_file, uses_spark=uses_spark)
    return job_file


def compact(job_file: Path, table: str) -> CompactedTable:
    """Put files of a table together, two or more of them, and verify the job."""
    with open_job(job_file) as opened:
        plan = plan_compaction(opened, table, CompactRule(1 << 20, 2))
        (done,) = apply_compaction(opened, plan, takes_over=False)
        assert not done.abandoned
        verdict = verify_job(opened)
    assert verdict.exit_code == 0, verdict.summary
    assert verdict.totals.duplicated == verdict.totals.lost == 0
    return done


def even_ids(servers: str, directory: Path, topic: str, table_format: str) -> dict[str, object]:
    """Return a job whose query writes the even ids of a topic to `ods.even`."""
    view = {"topic": topic, "table": "ods.events", "schema": "id BIGINT", "land": False}
    return {
        **job_content(servers, directory, topic),
        "tables": [
            {**view, "on_invalid": "drop"},
            {"table": "ods.even", "format": table_format, "partition_by": []},
        ],
        "sql": "INSERT INTO ods.even SELECT id, array(id) AS ids FROM events WHERE id % 2 = 0;",
        "spark": {"master": "local[2]"},
    }
