"""What the newest records of topics would be as rows."""

import pytest

from ashore.errors import StreamMissing
from ashore.jobs.file import parse_job
from ashore.log.positions import StreamShard
from ashore.topics.use.preview import preview_job
from ashore_lab.testing import FakeClock, RecordedSource

JOB = """\
job: clicks
lake: file:///data/lake
source: {kafka: {bootstrap_servers: "127.0.0.1:1"}}
tables:
  - topic: clicks
    table: ods.clicks
    schema: "id BIGINT, ts BIGINT"
    event_time: {column: ts, unit: ms}
    partition_by: [date]
"""
DAY_MS = 86_400_000


@pytest.fixture
def source() -> RecordedSource:
    clock = FakeClock()
    found = RecordedSource("kafka", clock)
    found.create("clicks", 2)
    now_ms = clock.now_ms()
    for value in (b'{"id": 1, "ts": %d}' % now_ms, b'{"id": "one"}', None):
        found.append(StreamShard("clicks", "0"), value)
    return found


def test_rows_and_dead_letters_are_those_of_the_writer(source):
    (found,) = preview_job(parse_job(JOB), source, FakeClock())
    assert (found.topic, found.table, found.fetched) == ("clicks", "ods.clicks", 3)
    assert found.columns[:2] == ("id", "ts")
    (row,) = found.rows
    assert row.values[0] == "1"
    assert row.partition.startswith("date=20")
    assert [place for place, _, _ in found.dead] == ["clicks/0 at 1", "clicks/0 at 2"]
    assert all(reason for _, reason, _ in found.dead)


def test_what_the_job_refuses_is_said(source):
    refusing = JOB + "    on_invalid: fail\n"
    (found,) = preview_job(parse_job(refusing), source, FakeClock())
    assert found.rows == ()
    assert any("offset 1" in note or "at 1" in note for note in found.notes), found.notes


def test_what_spark_computes_is_said(source):
    filtered = JOB + '    where: "id > 5"\n'
    (found,) = preview_job(parse_job(filtered), source, FakeClock())
    assert "computed by Spark" in found.notes[0]
    assert len(found.rows) == 1


def test_a_topic_that_is_not_there_is_named(source):
    with pytest.raises(StreamMissing):
        preview_job(parse_job(JOB.replace("topic: clicks", "topic: nope")), source, FakeClock())
