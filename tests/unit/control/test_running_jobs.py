"""What takes a job over looks first whether it runs: every use case does, whoever calls it."""

from collections.abc import Callable

import pytest
from tests.unit.config.test_sql import SQL_JOB
from tests.unit.config.texts import job

from ashore.control import roll_back
from ashore.control.jobs import OpenJob, accept_losses, rejoin_topic, require_relandable
from ashore.errors import LogGrows
from ashore.landing.log import LandingLog, LogContext
from ashore.landing.log_reader import read_log
from ashore.protocol.names import SliceName
from ashore.storage import MemoryStorage
from ashore.testing import FakeClock, RecordedSource

TakingOver = Callable[[OpenJob, bool], object]
USE_CASES: dict[str, TakingOver] = {
    "reland": lambda opened, takes_over: require_relandable(opened, takes_over=takes_over),
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


@pytest.fixture
def opened() -> OpenJob:
    clock = OtherProcess()
    storage = MemoryStorage(clock)
    found = OpenJob(job(), storage, RecordedSource("kafka", clock), clock)
    found.source.create("clicks")
    log = LandingLog(LogContext(storage, clock, lambda: "0" * 16), found.name)
    log.open()
    clock.log = log
    return found


@pytest.mark.parametrize("name", USE_CASES)
def test_a_job_that_runs_is_left_alone(opened: OpenJob, name: str) -> None:
    with pytest.raises(LogGrows) as refused:
        USE_CASES[name](opened, False)
    assert "--take-over" in refused.value.hint


@pytest.mark.parametrize("name", USE_CASES)
def test_it_can_be_told_to_take_over_and_then_nobody_waits(opened: OpenJob, name: str) -> None:
    began_s = opened.clock.monotonic_s()
    USE_CASES[name](opened, True)
    assert opened.clock.monotonic_s() == began_s


def test_a_query_that_runs_does_not_go_back() -> None:
    clock = OtherProcess()
    storage = MemoryStorage(clock)
    found = OpenJob(job(SQL_JOB), storage, RecordedSource("kafka", clock), clock)
    clock.log = LandingLog(
        LogContext(storage, clock, lambda: "0" * 16), SliceName(found.job.job, "ods__big")
    )
    clock.log.open()
    before = read_log(storage, clock.log.name).end
    query = roll_back.find_query(found, "ods.big")
    with pytest.raises(LogGrows):
        roll_back.apply(found, query, 0, "why", takes_over=False)
    assert read_log(storage, clock.log.name).end == before + 1, "the other process alone wrote"
