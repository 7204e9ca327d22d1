"""What takes a job over looks first: whether there is something to do, and whether the job runs."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.jobs.test_sql import SQL_JOB
from tests.unit.jobs.texts import job
from tests.unit.proof.lakes import Lake, fill, make_lake

from ashore.errors import LogGrows
from ashore.jobs.heartbeat import Heart
from ashore.log.entries import Commit
from ashore.log.names import SliceName
from ashore.log.store.log import LandingLog, LogContext
from ashore.log.store.reader import read_log
from ashore.queries.tools import roll_back as rollback
from ashore.queries.tools.stopped_query import find_query
from ashore.storage import MemoryStorage
from ashore.topics.open_job import OpenJob
from ashore.topics.use.requirements import require_stopped
from ashore.topics.use.take_over import (
    GivenUp,
    accept_losses,
    find_losses,
    is_relandable,
    rejoin_topic,
)
from ashore_lab.testing import FakeClock, RecordedSource

TakingOver = Callable[[OpenJob, bool], object]
USE_CASES: dict[str, TakingOver] = {
    "reland": lambda opened, takes_over: is_relandable(opened, takes_over=takes_over),
    "accept losses": lambda opened, takes_over: accept_losses(opened, "why", takes_over=takes_over),
    "rejoin": lambda opened, takes_over: rejoin_topic(opened, "clicks", takes_over=takes_over),
}


class OtherProcess(FakeClock):
    """A clock that lets the job's process append an entry while somebody waits."""

    def __init__(self) -> None:
        super().__init__()
        self.log: LandingLog | None = None

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        if self.log is not None:
            self.log.open()


def lose_a_file(lake: Lake) -> None:
    """Let somebody delete a file that the last entry lists."""
    fill(lake.source, "clicks", 1, 10)
    entry = lake.land({lake.key(1): (40, 50)}, is_moved=False)
    lake.storage.delete(lake.files(entry)[0][1])


def create_again(lake: Lake) -> None:
    lake.append(Commit("idle"))
    lake.source.delete_and_recreate("clicks", 3)


SPOIL = {"reland": lose_a_file, "accept losses": lose_a_file, "rejoin": create_again}


def open_lake(spoil: Callable[[Lake], None] | None = None) -> OpenJob:
    """Return a job whose process appends an entry as soon as somebody waits."""
    lake, clock = make_lake(), OtherProcess()
    if spoil is not None:
        spoil(lake)
    found = OpenJob(lake.job, lake.storage, lake.source, clock)
    clock.log = LandingLog(LogContext(lake.storage, clock, lambda: "0" * 16), found.name)
    return found


@pytest.mark.parametrize("name", USE_CASES)
def test_a_job_that_runs_is_left_alone(name: str) -> None:
    opened = open_lake(SPOIL[name])
    with pytest.raises(LogGrows) as refused:
        USE_CASES[name](opened, False)
    assert "--take-over" in refused.value.hint


def test_a_job_that_runs_here_and_lands_nothing_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its log does not grow: nothing came, or all queries wait."""
    monkeypatch.setenv("ASHORE_HOME", str(tmp_path))
    lake = make_lake()
    opened = lake.opened()
    beating = threading.Event()
    heart = Heart(lake.job.job, str(lake.job.lake), lambda: ("idle", 0), beating.set)
    heart.start()
    beating.wait()
    with pytest.raises(LogGrows, match=f"is running on .*, process {os.getpid()};") as refused:
        require_stopped(opened, takes_over=False)
    assert "--take-over" in refused.value.hint
    require_stopped(opened, takes_over=True)
    heart.end(None)
    require_stopped(opened, takes_over=False)


@pytest.mark.parametrize("name", USE_CASES)
def test_it_can_be_reported_to_take_over_and_then_nobody_waits(name: str) -> None:
    opened = open_lake(SPOIL[name])
    began_s = opened.clock.monotonic_s()
    assert USE_CASES[name](opened, True) in (True, GivenUp(1, 5), 3)
    assert opened.clock.monotonic_s() == began_s


@pytest.mark.parametrize("takes_over", [False, True])
@pytest.mark.parametrize("name", USE_CASES)
def test_what_has_nothing_to_do_takes_nothing_over(name: str, takes_over: bool) -> None:
    """A job that runs and is idle would be fenced for good."""
    opened = open_lake()
    before, began_s = read_log(opened.storage, opened.name), opened.clock.monotonic_s()
    assert USE_CASES[name](opened, takes_over) in (False, GivenUp(0, 0), 0)
    assert read_log(opened.storage, opened.name) == before
    assert opened.clock.monotonic_s() == began_s, "nor does anybody wait"


def test_a_file_of_another_size_at_its_source_is_lost_as_well() -> None:
    lake = make_lake()
    fill(lake.source, "clicks", 1, 10)
    entry = lake.land({lake.key(1): (40, 50)}, is_moved=False)
    lake.overwrite(lake.files(entry)[0][1], b"cut short")
    assert find_losses(lake.opened()) == {lake.name: 1}


def test_a_query_that_runs_does_not_go_back() -> None:
    clock = OtherProcess()
    storage = MemoryStorage(clock)
    found = OpenJob(job(SQL_JOB), storage, RecordedSource("kafka", clock), clock)
    clock.log = LandingLog(
        LogContext(storage, clock, lambda: "0" * 16), SliceName(found.job.job, "ods__big")
    )
    clock.log.open()
    before = read_log(storage, clock.log.name).end
    query = find_query(found, "ods.big")
    with pytest.raises(LogGrows):
        rollback.apply(found, query, 0, "why", takes_over=False)
    assert read_log(storage, clock.log.name).end == before + 1, "the other process alone wrote"
