"""What `status` says of queries: running or stopped and why, watermark, state, what came late."""

import json
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console
from tests.unit.jobs.test_sql import SQL_JOB
from tests.unit.jobs.texts import job

from ashore.cli import status as status_view
from ashore.errors import JobFileInvalid
from ashore.jobs.heartbeat import Heartbeat, WorkerBeat
from ashore.jobs.state import JobState
from ashore.jobs.writer import EventWriter
from ashore.log.entries import Closing, Commit, Join, Joined, Prepare, Query, ShardRead
from ashore.log.files import DataFile, Role, Target
from ashore.log.names import SliceName, query_source
from ashore.log.positions import BatchTime, OffsetRange, ShardKey, ShardRange, StreamShard
from ashore.log.progress import QueryProgress, Step
from ashore.log.store.log import LandingLog, LogContext
from ashore.log.store.walk import read_batches
from ashore.proof.status.health import DECIDE, Allowed, check_health, worst_ailment
from ashore.proof.status.status import JobStatus, read_status
from ashore.queries.tools.skip import apply, wish_of
from ashore.storage import MemoryStorage
from ashore.topics.open_job import OpenJob
from ashore_lab.testing import FakeClock, RecordedSource

NAME = SliceName("clicks", "ods__big")
AT = QueryProgress(3, 1_795_003_200_000, 1_234, 5_000_000, 120, 4)


class World:
    """A job with one query, whose log has one batch."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.storage = MemoryStorage(self.clock)
        log = LandingLog(LogContext(self.storage, self.clock, lambda: "0" * 16), NAME)
        log.open()
        late = (("late", 9),)
        log.append(Prepare(0, BatchTime(0), (), (), (), late, Query("q-1", 0, "lineage")), None)
        source = RecordedSource("kafka", self.clock)
        self.opened = OpenJob(job(SQL_JOB), self.storage, source, self.clock)

    def beat(self, *workers: WorkerBeat) -> Heartbeat:
        now_ms = self.clock.now_ms()
        started = ("clicks", "lake", "elsewhere", 1, now_ms, now_ms)
        return Heartbeat(*started, "idle", now_ms, workers=workers)

    def status(self, *workers: WorkerBeat) -> JobStatus:
        return read_status(self.opened, self.beat(*workers))


def shown(status: JobStatus, monkeypatch: pytest.MonkeyPatch) -> str:
    out = StringIO()
    monkeypatch.setattr(status_view, "out", Console(file=out, width=300, highlight=False))
    status_view.show(status)
    return out.getvalue()


def test_a_query_that_runs_shows_watermark_state_and_what_came_late(monkeypatch) -> None:
    world = World()
    status = world.status(WorkerBeat(NAME.slice, world.clock.now_ms(), None, AT))
    query = status.slices[0].query
    assert query is not None
    assert (query.batch_id, query.late, query.dropped, query.why) == (0, 9, 4, None)
    assert (query.state, query.watermark_ms, query.commit_ms) == (
        JobState.IDLE,
        AT.watermark_ms,
        120,
    )
    text = shown(status, monkeypatch)
    for part in (
        "query q-1, batch 0, idle",
        "watermark 2026-11-18T12:00:00.000Z",
        "state 1,234 rows, 5.0 MB, committed in 120 ms",
        "late 9 records",
        "4 rows dropped",
    ):
        assert part in text, part
    json.dumps(status.to_dict())
    assert worst_ailment(check_health(world.opened, status, Allowed())) == 0


def test_a_query_that_stopped_does_not_hide_behind_a_job_that_runs(monkeypatch) -> None:
    world = World()
    stopped = WorkerBeat(NAME.slice, world.clock.now_ms() - 61_000, "the topic is gone", AT)
    status = world.status(stopped)
    query = status.slices[0].query
    assert query is not None
    assert (status.state, query.state, query.why) == (
        JobState.IDLE,
        JobState.STOPPED,
        stopped.stopped,
    )
    (warned,) = [each for each in status.warnings if each.kind == "stopped"]
    assert warned.subject == NAME.slice
    assert "stopped 1.0 min ago: " in warned.text
    assert "stopped: the topic is" in shown(status, monkeypatch)
    assert worst_ailment(check_health(world.opened, status, Allowed())) == DECIDE


def test_what_only_the_process_knows_is_not_made_up() -> None:
    world = World()
    query = read_status(world.opened).slices[0].query
    assert query is not None
    assert (query.late, query.watermark_ms, query.state_rows, query.dropped) == (
        9,
        None,
        None,
        None,
    )
    old = replace(world.beat(WorkerBeat(NAME.slice, 0, "long ago", AT)), beat_ms=-1_000_000)
    query = read_status(world.opened, old).slices[0].query
    assert query is not None
    assert (query.why, query.watermark_ms) == (None, None)  # it has run elsewhere since


def test_a_worker_that_stopped_is_no_step_that_does_not_end(capsys) -> None:
    writer = EventWriter(lambda: 0)
    writer.step("main", Step.IDLE)
    writer.step(NAME.slice, Step.PLAN)
    writer.query(NAME.slice, AT)
    assert writer.at_work()[0] == "plan"
    writer.stopped(NAME.slice, "refused")
    assert writer.at_work()[0] == "idle"
    (worker,) = writer.workers()
    assert (worker.slice, worker.stopped, worker.query) == (NAME.slice, "refused", AT)
    reported = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["event"] for each in reported] == ["step", "step", "query", "warning"]
    assert reported[-1]["message"] == "stopped: refused"


def test_a_topic_that_was_cut_below_what_the_query_has_read_needs_a_decision() -> None:
    world, shard = World(), StreamShard("clicks", "0")
    source = world.opened.source
    assert isinstance(source, RecordedSource)
    source.create("clicks")
    source.append(shard, *[b"{}"] * 10)
    key = ShardKey(query_source(NAME), "clicks", 1, "0")
    log = LandingLog(LogContext(world.storage, world.clock, lambda: "1" * 16), NAME)
    log.open()
    info = source.describe_streams(["clicks"])["clicks"]
    joined = Join((Joined(key, info.stream_id, 0, "earliest"),))
    log.append(joined, Closing(1, 0, 0, registered=False, deferred=(), done=()))
    read = ShardRead(key, OffsetRange(0, 10), "ods.big", 0, 0, 0, 0, 0, 0, None, 0)
    log.append(Prepare(1, BatchTime(0), (read,), (), (), (), Query("q-1", 1, "later")), None)
    log.append(Commit("stop"), Closing(4, 0, 0, registered=False, deferred=(), done=()))
    assert not [each for each in world.status().warnings if each.kind == "truncated"]

    source.elect(shard, cut_at=8)
    source.append(shard, *[b"{}"] * 5)
    status = world.status()
    (warned,) = [each for each in status.warnings if each.kind == "truncated"]
    assert warned.subject == str(key)
    assert "skip JOB.yaml clicks/0 --to 10 --table ods.big" in warned.hint
    assert worst_ailment(check_health(world.opened, status, Allowed())) == DECIDE

    asked = wish_of(world.opened, "clicks/0", 10, "kept", "ods.big")
    assert apply(world.opened, asked, takes_over=True) == ShardRange(key, OffsetRange(10, 10))
    assert not [each for each in world.status().warnings if each.kind == "truncated"]
    with pytest.raises(JobFileInvalid, match=r"ods\.none is not"):
        wish_of(world.opened, "clicks/0", 10, "kept", "ods.none")


def read_batches_of(world: World, counters: tuple[tuple[str, int], ...], *rows: int) -> None:
    """Append batches of ten offsets each, a second apart, with a file of so many rows each."""
    source = world.opened.source
    assert isinstance(source, RecordedSource)
    source.create("clicks")
    source.append(StreamShard("clicks", "0"), *[b"{}"] * 50)
    key = ShardKey(query_source(NAME), "clicks", 1, "0")
    log = LandingLog(LogContext(world.storage, world.clock, lambda: "1" * 16), NAME)
    log.open()
    info = source.describe_streams(["clicks"])["clicks"]
    joined = Join((Joined(key, info.stream_id, 0, "earliest"),))
    log.append(joined, Closing(1, 0, 0, registered=False, deferred=(), done=()))
    files_before = 0
    target = Target("ods.big", Role.MAIN, "date=2026-11-21", (), "id BIGINT", "parquet")
    for batch, count in enumerate(rows, start=1):
        world.clock.advance(1)
        read = ShardRead(key, OffsetRange(10 * batch - 10, 10 * batch), "ods.big", *[0] * 6, None)
        file = DataFile(0, 0, f"{batch:016x}", count, 100, "0" * 16, (), None, None)
        files, targets = ((file,), (target,)) if count else ((), ())
        query = Query("q-1", batch, f"lineage {batch}")
        time = BatchTime(world.clock.now_ms())
        body = Prepare(batch, time, (read,), targets, files, counters, query)
        closing = Closing(log.end, files_before, 0, registered=False, deferred=(), done=())
        log.append(body, closing if batch > 1 else None)
        files_before = len(files)


def test_a_query_shows_the_offsets_that_it_has_read_and_its_rows(monkeypatch) -> None:
    world = World()
    read_batches_of(world, (), 3, 4)
    status = world.status()
    (found,) = status.slices
    assert (found.fetched, found.landed, found.records_per_s) == (20, 7, 10)
    assert (found.lag, status.lag) == (30, 30)
    assert "20 offsets read, 7 rows landed, 0 dead" in shown(status, monkeypatch)
    (*_, first, last) = read_batches(world.storage, NAME, 3)
    assert [(each.fetched, each.landed) for each in (first, last)] == [(10, 3), (10, 4)]


def test_a_query_into_a_topic_shows_the_rows_that_it_has_sent(monkeypatch) -> None:
    world = World()
    read_batches_of(world, (("sent", 5),), 0, 0)
    status = world.status()
    assert (status.slices[0].fetched, status.slices[0].landed) == (20, 10)
    assert "20 offsets read, 10 rows sent, 0 dead" in shown(status, monkeypatch)
    assert read_batches(world.storage, NAME, 1)[0].landed == 5
