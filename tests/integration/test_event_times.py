"""Event times in fields, in texts and in what `select` makes, on a real broker, by both runners."""

import json
from pathlib import Path
from uuid import uuid4

import pytest
from tests.kafka_tools import create_topic, produce
from tests.unit.cli.test_commands import invoke

from ashore_lab.services.kafka import Kafka

JOB = """\
job: times
lake: file://{lake}
source:
  kafka: {{bootstrap_servers: "{servers}"}}
  first_start: {{default: earliest}}
tables:
  - topic: {topic}
    table: ods.times
    schema: "id BIGINT, meta STRUCT<producer: STRUCT<ts: BIGINT, at: STRING>>"
    event_time: {event_time}
    partition_by: [date]
    late: {{policy: keep, after: 1h}}
{more}
"""
RECORDS = [
    {"id": 1, "meta": {"producer": {"ts": 1795248000000, "at": "21/11/2026 08:00:00"}}},
    {"id": 2, "meta": {"producer": {"ts": 1795161600000, "at": "20/11/2026 08:00:00"}}},
]
FIELD = "{column: meta.producer.ts}"
TEXT = "{column: meta.producer.at, format: 'dd/MM/yyyy HH:mm:ss'}"
MADE = "{column: made}"
SELECT = '    select: ["id", "timestamp_millis(meta.producer.ts) AS made"]'
DATES = {"date=2026-11-20", "date=2026-11-21"}


@pytest.mark.parametrize(
    ("event_time", "more"),
    [
        pytest.param(FIELD, "spark: none", id="field", marks=pytest.mark.long),
        pytest.param(TEXT, "spark: none", id="text"),
        pytest.param(
            MADE, f"{SELECT}\nspark: {{master: 'local[1]'}}", id="select", marks=pytest.mark.long
        ),
        pytest.param(TEXT, "spark: {master: 'local[1]'}", id="spark", marks=pytest.mark.long),
    ],
)
def test_records_are_where_they_happened(
    kafka: Kafka, tmp_path: Path, event_time: str, more: str
) -> None:
    topic = f"times-{uuid4().hex[:10]}"
    create_topic(kafka.bootstrap_servers, topic)
    produce(kafka.bootstrap_servers, topic, [json.dumps(each).encode() for each in RECORDS])
    path = tmp_path / "job.yaml"
    names = {"lake": tmp_path / "lake", "servers": kafka.bootstrap_servers, "topic": topic}
    path.write_text(JOB.format(event_time=event_time, more=more, **names))

    code, _, err = invoke("run", "--available-now", path)

    assert code == 0, err
    found = {each.name for each in (tmp_path / "lake" / "ods.db" / "times").glob("date=*")}
    assert found == DATES
    code, out, _ = invoke("verify", path, "--json")
    totals = json.loads(out)["totals"]
    assert (code, totals["landed"], totals["lost"]) == (0, 2, 0)
