"""What new users have got wrong about topics, on a real broker: what `ashore run` answers."""

from pathlib import Path
from uuid import uuid4

import pytest
from tests.kafka_tools import create_topic
from tests.unit.cli.test_commands import invoke

from ashore_lab.services.kafka import Kafka

JOB = """\
job: clicks
lake: file://{lake}
source: {{kafka: {{bootstrap_servers: "{servers}"}}}}
tables:
  - topic: {topic}
    table: "{table}"
    schema: "id BIGINT"
spark: none
"""


@pytest.fixture
def prefix(kafka: Kafka) -> str:
    """Return how the name of a topic that is there begins: this, and `_here`."""
    name = f"bad{uuid4().hex[:10]}"
    create_topic(kafka.bootstrap_servers, f"{name}_here")
    return name


def run(kafka: Kafka, tmp_path: Path, topic: str, table: str = "ods.clicks") -> tuple[int, str]:
    path = tmp_path / "job.yaml"
    servers = kafka.bootstrap_servers
    path.write_text(JOB.format(lake=tmp_path / "lake", servers=servers, topic=topic, table=table))
    code, _, err = invoke("run", "--available-now", path)
    return code, err


def test_a_topic_that_is_missing_at_the_start(kafka: Kafka, tmp_path: Path, prefix: str) -> None:
    code, err = run(kafka, tmp_path, f"{prefix}_hree")
    assert code == 7
    assert f"job.yaml:5: tables[0].topic: topic {prefix}_hree does not exist" in err
    assert f"did you mean `{prefix}_here`?" in err


def test_an_expression_that_matches_nothing_is_told(
    kafka: Kafka, tmp_path: Path, prefix: str
) -> None:
    code, err = run(kafka, tmp_path, f"/{prefix}_gone.*/", "ods.{topic}")
    assert code == 0  # such a topic may come
    assert f"job.yaml:5: /{prefix}_gone.*/ matches no topic yet" in err
    code, err = run(kafka, tmp_path, f"/{prefix}_h.*/", "ods.{topic}")
    assert code == 0
    assert "matches no topic" not in err
