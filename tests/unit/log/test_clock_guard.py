"""A clock that is far ahead tells no time that would stand in the log for ever."""

import json

import pytest
from tests.crash.query_job import query_world

from ashore.base.clock import AHEAD_MS_MAX
from ashore.base.unique import unique
from ashore.errors import (
    AshoreError,
    ClockAhead,
    JobFileInvalid,
    LogAhead,
    LogGrows,
    SourceUnreachable,
)
from ashore.jobs.file import parse_job
from ashore.log.entries import Join, Open, Prepare, ResetClock, Seal, SealedPartition
from ashore.log.names import SliceName
from ashore.log.positions import BatchTime, StreamShard
from ashore.log.store.reader import read_history, read_log
from ashore.proof.retire import apply_retire, plan_retire
from ashore.storage.memory import MemoryStorage
from ashore.storage.open import LakeAddress
from ashore.tables.catalog import NoCatalog
from ashore.topics.loop.assembly import Environment, JobAssembly
from ashore.topics.loop.slice_loop import SliceLoop
from ashore.topics.loop.worker import Tick, ends_worker
from ashore.topics.open_job import OpenJob
from ashore.topics.use import reset_clock
from ashore.topics.use.take_over import rejoin_topic
from ashore_lab.drills.sites.memory import TaskRunner
from ashore_lab.testing import FakeClock, RecordedSource

NAME = SliceName("clicks", "main")
CLICKS, OTHER = StreamShard("clicks", "0"), StreamShard("clicks", "1")
HOUR_S = 3_600
TODAY = "date=2026-11-18/hour=11"
YEARS_S = 10 * 365 * 24 * HOUR_S
JOB = """\
job: clicks
lake: file:///lake
source: {kafka: {bootstrap_servers: "127.0.0.1:9092"}, first_start: {default: earliest}}
tables:
  - topic: clicks
    table: ods.clicks
    schema: "ts BIGINT"
    event_time: {column: ts}
    partition_by: [date, hour]
    late: {after: 2h, policy: rehome, future_max: 1h}
    seal: {delay: 10m, idle_after: 30m}
    format: jsonl
"""


class Lake:
    """A job and its servers. The machine's clock may jump; theirs may be the same one or not."""

    def __init__(self, *, has_servers: bool = True) -> None:
        self.clock = FakeClock()
        self.servers = self.clock.server() if has_servers else self.clock
        self.storage = MemoryStorage(self.servers)
        self.source = RecordedSource("kafka", self.servers)
        self.source.create("clicks", 2)
        self.job = parse_job(JOB)
        self.loop = self.start()

    def start(self) -> SliceLoop:
        """Start a process of the job, in the place of the one before."""
        around = Environment(
            LakeAddress("memory:"), self.storage, self.source, NoCatalog(), self.clock
        )
        runner = TaskRunner(self.source, self.storage, unique)
        self.loop = JobAssembly(self.job, around).slice(runner, 1)
        return self.loop

    def produce(self, ts_ms: int | None = None, shard: StreamShard = CLICKS) -> None:
        """Append a record of a time, or of now by a right clock."""
        value = {"ts": self.servers.now_ms() if ts_ms is None else ts_ms}
        self.source.append(shard, json.dumps(value).encode())

    def land(self) -> None:
        self.produce()
        assert self.loop.tick() is Tick.LANDED

    def kinds(self) -> list[str]:
        return [entry.kind for entry in read_history(self.storage, NAME)]

    def times(self) -> list[int]:
        """Return every time that the log has of what was planned."""
        found = [read_log(self.storage, NAME).latest_ms]
        for entry in read_history(self.storage, NAME):
            if isinstance(entry.body, Prepare):
                found.append(entry.body.time.now_ms)
            if isinstance(entry.body, Seal):
                found += [each.now_ms for each in entry.body.partitions]
            if isinstance(entry.body, Join):
                found.append(entry.written_ms)
        return found

    def opened(self) -> OpenJob:
        return OpenJob(self.job, self.storage, self.source, self.clock)


@pytest.fixture(params=[True, False], ids=["servers with clocks", "one machine"])
def lake(request: pytest.FixtureRequest) -> Lake:
    return Lake(has_servers=request.param)


@pytest.fixture
def servers() -> Lake:
    return Lake(has_servers=True)


def refused(lake: Lake, error: type[AshoreError]) -> AshoreError:
    with pytest.raises(error) as caught:
        lake.loop.tick()
    return caught.value


def test_a_jump_of_years_is_refused_and_the_job_goes_on_once_the_clock_is_right(lake: Lake):
    lake.land()
    lake.produce()
    lake.clock.jump_wall(YEARS_S)
    before = lake.kinds()
    error = refused(lake, ClockAhead)
    assert not ends_worker(error), "it may pass"
    assert error.exit_code == 4
    assert "2036" in error.message
    assert "the lake's storage says 2026-11-18" in error.message
    refused(lake, ClockAhead)
    assert lake.kinds() == before, "nothing was appended"
    lake.clock.jump_wall(-YEARS_S)
    assert lake.loop.tick() is Tick.LANDED
    assert max(lake.times()) <= lake.clock.now_ms()


def test_a_start_with_a_clock_that_is_ahead_is_refused_by_the_storage_of_servers(servers: Lake):
    servers.land()
    servers.loop.close("stop")
    servers.clock.jump_wall(YEARS_S)
    servers.start()
    servers.produce()
    refused(servers, ClockAhead)
    servers.clock.jump_wall(-YEARS_S)
    assert servers.loop.tick() is Tick.LANDED
    servers.start()
    servers.land()
    assert max(servers.times()) <= servers.clock.now_ms()


def test_nothing_is_joined_by_a_clock_that_is_ahead(servers: Lake):
    servers.clock.jump_wall(YEARS_S)
    refused(servers, ClockAhead)
    assert "join" not in servers.kinds()
    servers.clock.jump_wall(-YEARS_S)
    servers.land()
    servers.source.add_shard("clicks")
    servers.clock.jump_wall(YEARS_S)
    refused(servers, ClockAhead)
    servers.clock.jump_wall(-YEARS_S)
    servers.land()
    assert max(servers.times()) <= servers.clock.now_ms()


def test_nothing_is_sealed_by_a_clock_that_is_ahead(lake: Lake):
    lake.land()
    lake.clock.jump_wall(YEARS_S)
    refused(lake, ClockAhead)
    assert "seal" not in lake.kinds()
    lake.clock.jump_wall(-YEARS_S)
    lake.clock.advance(3 * HOUR_S)
    assert lake.loop.tick() is Tick.IDLE
    assert "seal" in lake.kinds()


def test_another_open_of_the_same_process_does_not_believe_the_clock(lake: Lake):
    lake.land()
    lake.produce()
    lake.clock.jump_wall(YEARS_S)
    lake.loop.open()
    refused(lake, ClockAhead)


def test_a_query_lands_nothing_by_a_clock_that_is_ahead():
    world = query_world()
    process = world.start().loop
    process.tick()
    world.clock.jump_wall(YEARS_S)
    for _ in range(2):  # each try is a run of its own, which opens the log
        with pytest.raises(ClockAhead):
            process.tick()
    world.clock.jump_wall(-YEARS_S)
    while process.tick() is not Tick.IDLE:
        pass
    assert read_log(world.machine, process.plan.name).latest_ms <= world.clock.now_ms()


@pytest.mark.parametrize("seconds", [AHEAD_MS_MAX / 1000 - 1, -YEARS_S])
def test_a_small_jump_and_one_back_change_nothing(lake: Lake, seconds: float):
    lake.land()
    lake.clock.jump_wall(seconds)
    lake.land()


def test_a_job_may_have_been_away_for_months_and_idle_for_days(lake: Lake):
    lake.land()
    lake.loop.close("stop")
    lake.produce()
    lake.clock.advance(90 * 24 * HOUR_S)
    lake.start()
    assert lake.loop.tick() is Tick.LANDED
    lake.clock.advance(5 * 24 * HOUR_S)
    while lake.loop.tick() is not Tick.IDLE:
        pass
    lake.produce(ts_ms=0)
    assert lake.loop.tick() is Tick.LANDED


def test_a_clock_that_was_behind_and_is_set_right_is_believed_with_servers(servers: Lake):
    servers.clock.jump_wall(-YEARS_S)
    servers.land()
    servers.clock.jump_wall(YEARS_S)
    servers.land()


class LiveKafka(RecordedSource):
    """A source whose newest records are of a time that a test sets."""

    newest: list[int] | None = None

    def newest_times(self, shards):
        if self.newest is None:
            raise SourceUnreachable("no broker answers")
        return self.newest


def test_on_one_machine_records_of_now_speak_for_a_clock_that_was_set_right():
    lake = Lake(has_servers=False)
    source = LiveKafka("kafka", lake.clock)
    source.create("clicks", 1)
    lake.source = source
    lake.clock.jump_wall(-YEARS_S)
    lake.start()
    lake.land()
    lake.clock.jump_wall(YEARS_S)
    lake.produce()
    now_ms = lake.clock.now_ms()
    refused(lake, ClockAhead)  # nobody answers
    for newest in ([], [now_ms - 2 * AHEAD_MS_MAX], [now_ms + 2 * AHEAD_MS_MAX]):
        source.newest = newest
        refused(lake, ClockAhead)
    source.newest = [0, now_ms - AHEAD_MS_MAX + 60_000]
    assert lake.loop.tick() is Tick.LANDED


# ---- the way back


@pytest.fixture
def poisoned(lake: Lake) -> Lake:
    """A log that a clock ten years ahead has written, and that clock set right."""
    lake.land()
    if lake.servers is not lake.clock:  # all of them were ahead
        lake.servers = lake.storage._clock = lake.source._clock = lake.clock
    lake.loop.close("stop")
    lake.clock.jump_wall(YEARS_S)
    lake.start()
    lake.land()  # so that the watermark is of that time too
    lake.produce(ts_ms=lake.clock.now_ms() - YEARS_S * 1000)  # of today: late, so rehomed
    assert lake.loop.tick() is Tick.LANDED
    assert lake.loop.tick() is Tick.IDLE
    lake.loop.close("stop")
    lake.clock.jump_wall(-YEARS_S)
    return lake


def test_a_log_that_is_ahead_is_refused_until_it_is_set_back(poisoned: Lake):
    lake = poisoned
    lake.start()
    lake.produce()
    error = refused(lake, LogAhead)
    assert ends_worker(error)
    assert error.exit_code == 4
    assert "ashore reset-clock" in error.hint
    (planned,) = reset_clock.plan(lake.opened())
    shown = "\n".join(planned.explain())
    assert "2 batches were landed ahead" in shown
    assert "    ods.clicks date=2036-11-15/hour=11: 2 rows" in shown
    assert f"ods.clicks {TODAY} was sealed ahead" in shown
    assert "version 1" in shown
    (done,) = reset_clock.apply(lake.opened(), "NTP was wrong", takes_over=True)
    *_, before, last = read_history(lake.storage, NAME)
    assert isinstance(before.body, Open)
    assert isinstance(last.body, ResetClock)
    assert (done.reset.rows, done.reset.batches) == (planned.reset.rows, 2)
    assert last.body.why == "NTP was wrong"
    assert reset_clock.plan(lake.opened()) == ()
    assert reset_clock.apply(lake.opened(), "again", takes_over=False) == ()
    lake.start()
    assert lake.loop.tick() is Tick.LANDED
    *_, landed = (e.body for e in read_history(lake.storage, NAME) if isinstance(e.body, Prepare))
    (target,) = landed.targets
    assert target.partition == TODAY, "records of now go where they belong"
    assert read_log(lake.storage, NAME).latest_ms <= lake.clock.now_ms()
    lake.clock.advance(3 * HOUR_S)
    while lake.loop.tick() is not Tick.IDLE:
        pass
    sealed = read_log(lake.storage, NAME).partitions["ods.clicks", TODAY]
    assert (sealed.sealed_version, sealed.sealed_rows) == (2, 2), "what came late is told of"


def test_a_log_that_is_ahead_seals_nothing_where_the_job_is_idle(poisoned: Lake):
    poisoned.start()
    poisoned.clock.advance(3 * HOUR_S)
    before = len(poisoned.kinds())
    while poisoned.loop.tick() is not Tick.IDLE:
        pass
    assert set(poisoned.kinds()[before:]) <= {"open", "commit"}


def test_a_log_is_ahead_by_a_seal_alone(servers: Lake):
    servers.land()
    servers.loop.close("stop")
    log = servers.opened().log(NAME)
    far_ms = log.open().now_ms + YEARS_S * 1000
    log.append(Seal((SealedPartition("ods.clicks", TODAY, 1, 1, 1, far_ms),), (), ()), None)
    servers.start()
    servers.produce()
    refused(servers, LogAhead)


def test_a_reset_needs_a_reason(poisoned: Lake):
    with pytest.raises(JobFileInvalid, match="the reason is missing"):
        reset_clock.apply(poisoned.opened(), " ", takes_over=True)


def test_a_reset_is_refused_where_the_job_runs(poisoned: Lake):
    class Busy(FakeClock):
        """While somebody waits, the job lands."""

        def sleep(self, seconds: float) -> None:
            super().sleep(seconds)
            poisoned.start().open()

    clock = Busy(poisoned.clock.now_ms())
    opened = OpenJob(poisoned.job, poisoned.storage, poisoned.source, clock)
    with pytest.raises(LogGrows):
        reset_clock.apply(opened, "NTP", takes_over=False)
    assert "reset_clock" not in poisoned.kinds()


def test_a_clock_that_is_ahead_sets_no_log_back(servers: Lake):
    servers.land()
    servers.loop.close("stop")
    log = servers.opened().log(NAME)
    fold = log.open()
    far_ms = servers.clock.now_ms() + 2 * YEARS_S * 1000
    log.append(Prepare(fold.next_batch, BatchTime(far_ms), (), (), (), (), None), None)
    servers.clock.jump_wall(YEARS_S)
    with pytest.raises(ClockAhead, match="2036"):
        reset_clock.apply(servers.opened(), "NTP", takes_over=True)
    assert read_log(servers.storage, NAME).now_ms == far_ms
    servers.clock.jump_wall(-YEARS_S)
    (done,) = reset_clock.apply(servers.opened(), "NTP", takes_over=True)
    assert read_log(servers.storage, NAME).now_ms == done.reset.body.now_ms


def test_a_clock_that_is_ahead_retires_nothing(servers: Lake):
    servers.land()
    servers.loop.close("stop")
    servers.clock.jump_wall(YEARS_S)
    opened, days_ms = servers.opened(), 90 * 86_400_000
    planned = plan_retire(opened, "ods.clicks", [], days_ms)
    assert [each.partition for each in planned] == [TODAY]
    with pytest.raises(ClockAhead):
        apply_retire(opened, planned, "old", takes_over=True)
    assert "retire" not in servers.kinds()
    assert all(servers.storage.stat(path) for path in planned[0].files)


def test_a_clock_that_is_ahead_rejoins_nothing(servers: Lake):
    servers.land()
    servers.loop.close("stop")
    servers.source.delete_and_recreate("clicks", 2)
    servers.clock.jump_wall(YEARS_S)
    with pytest.raises(ClockAhead):
        rejoin_topic(servers.opened(), "clicks", takes_over=True)
    servers.clock.jump_wall(-YEARS_S)
    assert rejoin_topic(servers.opened(), "clicks", takes_over=True) == 2


def test_without_a_log_there_is_nothing_to_set_back():
    assert reset_clock.plan(Lake().opened()) == ()
