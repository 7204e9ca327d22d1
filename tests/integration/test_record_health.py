"""Records that land and are of no use: times in a wrong unit, columns of another spelling."""

import json
import time
from pathlib import Path
from uuid import uuid4

from tests.job_files import job_content
from tests.kafka_tools import create_topic, produce

from ashore.jobs.launch import JobLaunch, LaunchOptions
from ashore.proof.status.health import Allowed, read_job, worst_ailment
from ashore.proof.verify.job import verify_job
from ashore.topics.open_job import open_job
from ashore_lab.services.kafka import Kafka

RECORDS = 10_000


def land(kafka: Kafka, directory: Path, table: dict[str, object], values: list[object]) -> Path:
    """Land records by a job process; return its job file."""
    topic = f"health-{uuid4().hex[:10]}"
    create_topic(kafka.bootstrap_servers, topic, 1)
    produce(kafka.bootstrap_servers, topic, [json.dumps(each).encode() for each in values])
    content = job_content(kafka.bootstrap_servers, directory, topic)
    content["tables"] = [{"topic": topic, "table": "ods.events", **table}]
    path = directory / "job.yaml"
    path.write_text(json.dumps(content))
    return path


def run(path: Path) -> str:
    """Run a job until it has landed everything. Returns its events as text."""
    with JobLaunch("run", path, LaunchOptions(available_now=True, uses_spark=False)) as launch:
        events = [str(each) for each in launch.events()]
        assert launch.wait() == 0
    return "\n".join(events)


def views_of(path: Path) -> tuple[str, str, int]:
    """Return what `status` and `verify` say, and the exit code of `status --check`."""
    with open_job(path) as opened:
        status, ailments = read_job(opened, Allowed())
        verified = verify_job(opened)
    assert verified.exit_code == 0  # each record is there once
    warned = "\n".join(f"{each.kind} {each.text}; {each.hint}" for each in status.warnings)
    return warned, "\n".join(verified.notes), worst_ailment(ailments)


def test_times_in_a_wrong_unit_are_reported(kafka: Kafka, tmp_path: Path) -> None:
    now_s = int(time.time())
    values: list[object] = [{"id": number, "ts": now_s} for number in range(RECORDS)]
    schema = {"schema": "id BIGINT, ts BIGINT", "event_time": {"column": "ts", "unit": "ms"}}
    path = land(kafka, tmp_path, schema, values)
    text = "10,000 of the last 10,000 records of ods.events (100 %) have an event time in January"
    assert text in run(path)
    warned, notes, code = views_of(path)
    assert text in warned
    assert "with `unit: s` is" in warned
    assert text in notes
    assert code == 1


def test_a_column_of_another_spelling_is_named_with_the_field(kafka: Kafka, tmp_path: Path) -> None:
    values: list[object] = [{"id": number, "userId": "u"} for number in range(RECORDS)]
    path = land(kafka, tmp_path, {"schema": "id BIGINT, user_id STRING, note STRING"}, values)
    text = "column `user_id` of ods.events is NULL in each of its last 10,000 rows; records have "
    text += "the field `userId` instead"
    assert text in run(path)
    warned, notes, code = views_of(path)
    assert text in warned
    assert text in notes
    assert "note" not in warned  # it is rightly NULL
    assert code == 1
