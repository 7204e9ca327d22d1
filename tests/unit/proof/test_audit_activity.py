"""Whether a job runs, as far as its log tells."""

import pytest
from tests.unit.proof.lakes import Lake, fill, make_lake
from tests.unit.proof.watching import Gate, Watch

from ashore.log.entries import Commit
from ashore.proof.audit.result import Activity


@pytest.fixture
def lake() -> Lake:
    """A lake in order whose last entry is closed, at offset 100 of its topic."""
    lake = make_lake()
    lake.append(Commit("idle"))
    return lake


@pytest.fixture
def watch(lake: Lake) -> Watch:
    return Watch(lake)


def test_a_job_that_has_work_and_does_not_write_is_silent(lake: Lake, watch: Watch):
    last_ms = lake.entries[-1].written_ms
    assert watch.first.activity == Activity(last_ms, None)
    fill(lake.source, "clicks", 0, 3)
    before = [watch.tick().activity for _ in range(3)]
    assert before == [Activity(last_ms, None)] * 3
    silent = watch.tick()
    assert silent.activity.silent_since_ms == silent.now_ms - 30_000
    assert silent.findings == ()

    lake.land({lake.key(0): (100, 103)})
    lake.append(Commit("idle"))
    seen = watch.tick().activity
    assert (seen.last_entry_ms, seen.silent_since_ms) == (lake.entries[-1].written_ms, None)
    assert [watch.tick().activity for _ in range(9)][-1].silent_since_ms is None  # nothing waits


def test_a_job_that_never_gets_to_the_end_is_not_silent(lake: Lake, watch: Watch):
    fill(lake.source, "clicks", 0, 100)
    for number in range(100, 106):
        lake.land({lake.key(0): (number, number + 1)})
        seen = watch.tick()
        assert (seen.gauge.lag, seen.activity.silent_since_ms) == (199 - number, None)


def test_an_entry_that_nobody_closes_tells_at_once_that_no_job_runs(lake: Lake):
    fill(lake.source, "clicks", 0, 3)
    lake.land({lake.key(0): (100, 103)})
    lake.clock.advance(60)
    assert Watch(lake).first.activity.silent_since_ms == lake.entries[-1].written_ms


def test_a_job_is_not_called_silent_while_the_lake_or_kafka_is_away(lake: Lake):
    fill(lake.source, "clicks", 0, 3)
    gate = Gate(lake.storage)
    watch = Watch(lake, storage=gate)
    for away in ("lake", "Kafka"):
        gate.is_open, lake.source.is_reachable = away != "lake", away != "Kafka"
        assert {watch.tick().activity.silent_since_ms for _ in range(6)} == {None}
    gate.is_open = lake.source.is_reachable = True
    assert watch.tick().activity.silent_since_ms is None
