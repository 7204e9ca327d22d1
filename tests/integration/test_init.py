"""`ashore init` on a real broker: the file that it writes validates, and lands what is there."""

import json
import time
from pathlib import Path
from uuid import uuid4

import pytest
from tests.kafka_tools import create_topic, produce
from tests.unit.cli.test_commands import invoke

from ashore_lab.services.kafka import Kafka

RECORDS = 200


@pytest.fixture
def topic(kafka: Kafka) -> str:
    """Return a topic of two partitions with JSON records, and one that is none."""
    name = f"init.{uuid4().hex[:10]}"
    create_topic(kafka.bootstrap_servers, name, 2)
    now_ms = int(time.time() * 1000)
    for partition in range(2):
        values = [
            json.dumps({"id": each, "ts": now_ms - each, "meta": {"tags": ["a"]}}).encode()
            for each in range(RECORDS // 2)
        ]
        produce(kafka.bootstrap_servers, name, values, partition=partition)
    produce(kafka.bootstrap_servers, name, [b"not JSON"], partition=0)
    return name


def test_a_topic_becomes_a_job_that_lands_it(kafka: Kafka, tmp_path: Path, topic: str) -> None:
    path = tmp_path / "job.yaml"
    given = ("init", topic, "--servers", kafka.bootstrap_servers, "--out", path)
    code, out, err = invoke(*given, "--lake", f"file://{tmp_path}/lake", "--json")
    assert code == 0, err
    (table,) = json.loads(out)["tables"]
    assert table["schema"] == "id BIGINT, ts BIGINT, meta STRUCT<tags: ARRAY<STRING>>"
    # What is not JSON is a dead letter, whatever the event time is.
    assert table["event_time"] == {"column": "ts", "unit": "ms", "format": None}
    assert table["event_time_candidates"][0] == "ts"
    assert (table["sampled"], table["decoded"]) == (200, 199)

    written = path.read_bytes()
    assert invoke(*given)[0] == 2
    assert path.read_bytes() == written

    assert invoke("validate", path)[0] == 0
    code, _, err = invoke("run", "--available-now", path)
    assert code == 0, err
    code, out, err = invoke("verify", path, "--json")
    assert code == 0, err
    totals = json.loads(out)["totals"]
    assert (totals["landed"], totals["dead"]) == (RECORDS, 1)
    assert (totals["lost"], totals["duplicated"]) == (0, 0)


def test_what_matches_and_the_event_time_are_shown(
    kafka: Kafka, tmp_path: Path, topic: str
) -> None:
    path = tmp_path / "job.yaml"
    code, out, err = invoke("init", topic, "--servers", kafka.bootstrap_servers, "--out", path)
    assert code == 0, err
    assert f"{topic}: 199 of 200 records match, as json; event time: `ts`" in out
    assert "199 of 200 records of the sample match; the others go to ods." in out


def test_a_topic_that_is_missing_writes_nothing(kafka: Kafka, tmp_path: Path, topic: str) -> None:
    path = tmp_path / "job.yaml"
    code, out, err = invoke(
        "init", f"{topic}x", "--servers", kafka.bootstrap_servers, "--out", path
    )
    assert (code, out) == (7, "")
    assert f"did you mean `{topic}`?" in err
    assert list(tmp_path.iterdir()) == []
