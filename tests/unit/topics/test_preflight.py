"""What can be found wrong before Spark starts."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from tests.unit.jobs.test_sql import TOPICS_JOB
from tests.unit.jobs.texts import job
from tests.unit.proof.lakes import CLICKS_0, JOB, TABLE, Lake, make_lake

from ashore.errors import (
    LogAhead,
    LogDamaged,
    OffsetsGone,
    OffsetsWentBack,
    SourceError,
    Stopped,
    StreamMissing,
    StreamReplaced,
    TableOwned,
)
from ashore.jobs.file import parse_job
from ashore.log import names
from ashore.log.store.owner import claim_tables
from ashore.topics.read.source import StreamInfo, not_authorized
from ashore.topics.use.preflight import check_job, require_topics
from ashore_lab.testing import RecordedSource

EXISTING = ["clicks", "users", "big", "counts"]
NO_TOPICS = RecordedSource()


def test_topics_that_are_read_and_those_that_are_written_must_exist() -> None:
    require_topics(job(TOPICS_JOB), EXISTING, NO_TOPICS)
    with pytest.raises(StreamMissing, match="topic users does") as unread:
        require_topics(job(TOPICS_JOB), ["clicks", "big", "counts"], NO_TOPICS)
    assert unread.value.fields["key"] == "tables[1].topic"
    with pytest.raises(StreamMissing, match="topic counts does") as unwritten:
        require_topics(job(TOPICS_JOB), ["clicks", "users", "big", "count"], NO_TOPICS)
    assert (unwritten.value.fields["key"], unwritten.value.fields["line"]) == (
        "sql.topics[1].topic",
        17,
    )
    assert unwritten.value.exit_code == unread.value.exit_code == 7  # it may be created yet
    assert unwritten.value.hint.startswith("did you mean `count`? ")


def test_a_topic_that_the_user_may_not_read_is_found_before_a_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lake = make_lake()
    describe = lake.source.describe_streams

    def forbid(streams: Sequence[str]) -> dict[str, StreamInfo]:
        return {name: replace(info, may_read=False) for name, info in describe(streams).items()}

    check_job(lake.opened())
    monkeypatch.setattr(lake.source, "describe_streams", forbid)
    with pytest.raises(SourceError, match="topic clicks: Read is missing"):
        check_job(lake.opened())


def test_a_topic_that_a_list_leaves_out_is_asked_for_by_its_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lake = make_lake()
    monkeypatch.setattr(lake.source, "list_streams", list)

    def refuse(_streams: Sequence[str]) -> dict[str, StreamInfo]:
        raise not_authorized("clicks", "Describe")

    monkeypatch.setattr(lake.source, "describe_streams", refuse)
    with pytest.raises(SourceError, match="topic clicks: Describe is missing") as caught:
        check_job(lake.opened())
    assert not isinstance(caught.value, StreamMissing)
    assert "kafka-acls.sh" in caught.value.hint


def damage(lake: Lake) -> None:
    lake.storage.delete(names.entry_path(lake.name, 1))
    lake.storage.create(names.entry_path(lake.name, 1), b"no entry")


def create_again(lake: Lake) -> None:
    lake.source.delete("clicks")
    lake.source.create("clicks", 2)


def expire_beyond(lake: Lake) -> None:
    """Let retention take what the log has not read."""
    lake.source.append(CLICKS_0, b"{}", b"{}", b"{}")
    lake.source.expire(CLICKS_0, 102)


@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        (damage, LogDamaged),
        (expire_beyond, OffsetsGone),
        (lambda lake: claim_tables(lake.storage, [TABLE], "other", 1), TableOwned),
        (lambda lake: claim_tables(lake.storage, [f"{TABLE}__dead"], "other", 1), TableOwned),
        (create_again, StreamReplaced),
        (lambda lake: lake.clock.jump_wall(-7_200), LogAhead),
        (lambda lake: lake.source.delete("clicks"), StreamMissing),
    ],
)
def test_what_is_known_without_spark_is_reported_before_it_starts(
    spoil: Callable[[Lake], object], expected: type[Stopped]
) -> None:
    lake = make_lake()
    check_job(lake.opened())
    spoil(lake)
    entries = len(lake.storage.list(names.log_directory(lake.name)))
    with pytest.raises(expected) as caught:
        check_job(lake.opened())
    assert caught.value.hint
    assert caught.value.exit_code in {4, 7}
    assert len(lake.storage.list(names.log_directory(lake.name))) == entries


def test_a_log_is_not_ahead_of_a_storage_whose_clock_is_right() -> None:
    lake = make_lake()
    lake.storage._clock = lake.clock.server()
    lake.clock.jump_wall(-7_200)
    check_job(lake.opened())


def test_a_gap_that_the_job_skips_keeps_it_from_nothing() -> None:
    lake = make_lake()
    expire_beyond(lake)
    lake.job = parse_job(JOB.replace('"127.0.0.1:9092"}', '"127.0.0.1:9092"}, gap: skip'))
    check_job(lake.opened())


def test_an_end_that_lags_behind_is_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    lake = make_lake()
    read, lagging = lake.source.read_offsets, [True, True]

    def lag(shards):
        found = read(shards)
        if not lagging:
            return found
        lagging.pop()
        return {key: type(there)(there.earliest, there.end - 1) for key, there in found.items()}

    monkeypatch.setattr(lake.source, "read_offsets", lag)
    check_job(lake.opened())
    lagging[:] = [True] * 99
    began_s = lake.clock.monotonic_s()
    with pytest.raises(OffsetsWentBack):
        check_job(lake.opened())
    assert lake.clock.monotonic_s() - began_s >= 2
