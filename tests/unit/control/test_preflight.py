"""What can be found wrong before Spark starts."""

import pytest
from tests.unit.config.test_sql import TOPICS_JOB
from tests.unit.config.texts import job

from ashore.control.preflight import check_topics
from ashore.errors import StreamMissing

EXISTING = ["clicks", "users", "big", "counts"]


def test_topics_that_are_read_and_those_that_are_written_must_exist() -> None:
    check_topics(job(TOPICS_JOB), EXISTING)
    with pytest.raises(StreamMissing, match="topic users does not exist") as unread:
        check_topics(job(TOPICS_JOB), ["clicks", "big", "counts"])
    assert unread.value.fields["key"] == "tables[1].topic"
    with pytest.raises(StreamMissing, match="topic counts does not exist") as unwritten:
        check_topics(job(TOPICS_JOB), ["clicks", "users", "big", "count"])
    assert (unwritten.value.fields["key"], unwritten.value.fields["line"]) == (
        "sql.topics[1].topic",
        17,
    )
    assert unwritten.value.exit_code == unread.value.exit_code == 7  # it may be created yet
    assert unwritten.value.hint == "write count, or create the topic"
