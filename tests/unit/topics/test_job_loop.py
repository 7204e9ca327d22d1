"""Slices side by side: rhythm, patience, stops. Real threads, a source and a storage in memory."""

import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest
from tests.specs import landing

from ashore.base.clock import SystemClock
from ashore.base.unique import unique
from ashore.errors import (
    CallsHang,
    Fenced,
    InvariantBroken,
    OffsetsGone,
    PathExists,
    QueryStopped,
    SourceUnreachable,
    StorageError,
    TableOwned,
)
from ashore.log.names import SliceName
from ashore.log.plan_batch import Limits
from ashore.log.positions import StreamShard
from ashore.log.progress import BatchLanded, Measure, QueryProgress, TablePartitions
from ashore.log.store.log import LandingLog, LogContext
from ashore.log.store.owner import claim_tables, read_owner
from ashore.log.store.reader import read_log
from ashore.storage import MemoryStorage
from ashore.storage.base import FileStat, Storage
from ashore.storage.open import LakeAddress
from ashore.topics.loop import job_loop
from ashore.topics.loop.housekeeping import CleanRule
from ashore.topics.loop.job_loop import RACERS, JobLoop, Rhythm, probe_lake
from ashore.topics.loop.slice_loop import SliceLoop, SliceParts, SlicePlan
from ashore.topics.loop.worker import Tick
from ashore.topics.read.source import FirstOffset
from ashore_lab.testing import FailBefore, FaultyStorage, RecordedRunner, RecordedSource
from ashore_lab.testing.wrapper import WrappedStorage


class Reported:
    """A progress that keeps what it was told."""

    def __init__(self) -> None:
        self.landed_rows = 0
        self.landed_tables: set[str] = set()
        self.warnings: list[str] = []
        self.notes: list[str] = []
        self.steps: list[str] = []
        self.recoveries: list[tuple[str, int]] = []

    def step(self, slice_name: str, step: str) -> None:
        self.steps.append(step)

    def landed(self, slice_name: str, batch: BatchLanded) -> None:
        self.landed_rows += batch.rows
        self.landed_tables.update(batch.tables)

    def warn(self, slice_name: str, message: str) -> None:
        self.warnings.append(message)

    def note(self, slice_name: str, message: str) -> None:
        self.notes.append(message)

    def query(self, slice_name: str, progress: QueryProgress) -> None: ...

    def measured(self, measure: Measure) -> None: ...

    def sealed(self, slice_name: str, entry: int, sealed: TablePartitions) -> None: ...

    def registered(self, slice_name: str, registered: TablePartitions) -> None: ...

    def recovered(self, slice_name: str, after_ms: int, tries: int) -> None:
        self.recoveries.append((slice_name, tries))
        assert after_ms > 0

    def stopped(self, slice_name: str, message: str) -> None:
        self.warnings.append(f"stopped: {message}")


class Job:
    """A job with a slice for each stream."""

    def __init__(
        self,
        *streams: str,
        until_drained: bool = True,
        records: int = 10,
        storage: MemoryStorage | None = None,
    ) -> None:
        self.storage = storage or MemoryStorage()
        self.source = RecordedSource(clock=SystemClock())
        self.reported = Reported()
        for stream in streams:
            self.source.create(stream, 1)
            values = [b'{"ts": %d}' % number for number in range(records)]
            self.source.append(StreamShard(stream, "0"), *values)
        self.slices = [self._slice(stream) for stream in streams]
        rhythm = Rhythm(0.01, CleanRule(3600, 0), 2.0, until_drained)
        shared = {
            "storage": self.storage, "clock": SystemClock(), "progress": self.reported,
            "tables": list,
        }  # fmt: skip
        self.how = (rhythm, shared)
        self.loop = JobLoop(self.slices, [], rhythm, **shared)

    def _slice(self, stream: str) -> SliceLoop:
        name = SliceName("job", stream)
        plan = SlicePlan(
            LakeAddress("memory:"), name,
            lambda: {stream: landing(table=f"ods.{stream}")}, frozenset({stream}),
            lambda _name, _first: FirstOffset("earliest"), False,
            Limits(4, 1 << 30, 2), 1,
        )  # fmt: skip
        clock = SystemClock()
        log = LandingLog(LogContext(self.storage, clock, unique), name)
        runner = RecordedRunner(self.source, self.storage)
        return SliceLoop(
            plan, SliceParts(self.storage, self.source, runner, log, clock, self.reported)
        )

    def fold(self, stream: str):
        return read_log(self.storage, SliceName("job", stream))


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    class Quick:
        def __init__(self, *_bounds: float) -> None: ...

        def delays_s(self, _jitter):
            while True:
                yield 0.001

    monkeypatch.setattr(job_loop, "Backoff", Quick)


def wait_until(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.005)


def test_slices_are_drained_side_by_side_and_their_logs_closed():
    job = Job("clicks", "orders")
    job.loop.run()
    assert job.reported.landed_rows == 20
    assert job.reported.landed_tables == {"ods.clicks", "ods.orders"}
    for stream in ("clicks", "orders"):
        fold = job.fold(stream)
        assert [state.next for state in fold.shards.values()] == [10]
        assert fold.unclosed is None


def test_a_slice_that_breaks_takes_no_other_along():
    job = Job("clicks", "orders")
    job.source.expire(StreamShard("clicks", "0"), 5)
    job.slices[0].open()
    job.slices[0].tick()  # joins at 5
    job.source.append(StreamShard("clicks", "0"), *[b"{}"] * 20)
    job.source.expire(StreamShard("clicks", "0"), 25)
    with pytest.raises(OffsetsGone):
        job.loop.run()
    assert [state.next for state in job.fold("orders").shards.values()] == [10]


def test_an_error_that_no_one_thought_of_takes_no_other_along_either(monkeypatch):
    job = Job("clicks", "orders")
    monkeypatch.setattr(job.slices[0].parts.runner, "run", lambda *_: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        job.loop.run()
    assert [state.next for state in job.fold("orders").shards.values()] == [10]


def test_what_may_pass_is_ridden_out_and_reported(monkeypatch):
    job = Job("clicks")
    read_offsets, failures = job.source.read_offsets, [1, 2, 3]

    def sometimes(shards):
        if failures:
            failures.pop()
            raise SourceUnreachable("no broker")
        return read_offsets(shards)

    monkeypatch.setattr(job.source, "read_offsets", sometimes)
    job.loop.run()
    assert job.reported.landed_rows == 10
    assert job.reported.warnings == ["no broker"] * 3
    assert job.reported.recoveries == [("clicks", 3)]


def test_a_lake_that_is_away_when_the_job_starts_is_waited_for(monkeypatch):
    job = Job("clicks", "orders")
    storage = FaultyStorage(job.storage, [FailBefore(number) for number in (1, 2)])
    for each in job.slices:
        monkeypatch.setattr(each.parts.log, "_context", LogContext(storage, SystemClock(), unique))
    job.loop.run()
    assert job.reported.landed_rows == 20
    assert len(job.reported.warnings) == 2
    assert [tries for _, tries in job.reported.recoveries] == [2]
    assert storage.calls[0].kind == "list", "the log is read before it is written"


def test_a_table_of_another_job_ends_the_start_at_once():
    job = Job("clicks")
    claim_tables(job.storage, ["ods.clicks"], "another", 1)
    plan = replace(
        job.slices[0].plan, streams=lambda: claim_tables(job.storage, ["ods.clicks"], "job", 2)
    )
    loop = JobLoop([SliceLoop(plan, job.slices[0].parts)], [], job.how[0], **job.how[1])
    with pytest.raises(TableOwned):
        loop.run()
    assert job.fold("clicks").end == -1, "nothing was written"


class Endless:
    """A worker that works until it is stopped, as a query does; or fails at its first turn."""

    batches_landed = 0

    def __init__(self, storage: MemoryStorage, failure: Exception | None = None) -> None:
        self.log = LandingLog(LogContext(storage, SystemClock(), unique), SliceName("job", "query"))
        self.failure = failure
        self.stopping, self.began = threading.Event(), threading.Event()
        self.cancelled = False

    def open(self) -> None: ...

    def tick(self) -> Tick:
        self.began.set()
        if self.failure is not None:
            raise self.failure
        assert self.stopping.wait(10), "nobody has stopped it"
        return Tick.IDLE

    def close(self, reason: str) -> None: ...

    def stop(self, *, finishes: bool = False) -> None:
        self.stopping.set()

    def cancel(self) -> None:
        self.cancelled = True


def test_a_query_goes_on_when_a_slice_has_ended_and_a_stop_reaches_both():
    job = Job("clicks", until_drained=False)
    query = Endless(job.storage)
    job.loop = JobLoop(job.slices, [query], job.how[0], **job.how[1])
    runner = threading.Thread(target=job.loop.run)
    runner.start()
    wait_until(lambda: job.reported.landed_rows == 10 and query.began.is_set())
    job.loop.stop()
    runner.join(10)
    assert not runner.is_alive()
    assert job.fold("clicks").unclosed is None


def test_a_query_that_stops_for_good_takes_no_slice_along():
    job = Job("clicks")
    job.loop = JobLoop(
        job.slices, [Endless(job.storage, OffsetsGone("gone"))], job.how[0], **job.how[1]
    )
    with pytest.raises(QueryStopped) as stopped:
        job.loop.run()
    assert job.reported.landed_rows == 10
    assert "stopped: gone" in job.reported.warnings
    assert stopped.value.exit_code == 8
    assert "query: gone" in stopped.value.message
    (one,) = stopped.value.fields["stopped"]
    assert (one["slice"], one["code"]) == ("query", "offsets-gone")


@pytest.mark.parametrize(
    ("failures", "expected"),
    [
        ([OffsetsGone("gone")], OffsetsGone),  # all that the job has
        ([OffsetsGone("gone"), TableOwned("owned")], OffsetsGone),
        ([OffsetsGone("gone"), None], QueryStopped),
        ([OffsetsGone("gone"), Fenced("late")], Fenced),  # nobody may start that one again
        ([OffsetsGone("gone"), InvariantBroken("bug")], InvariantBroken),
        ([OffsetsGone("gone"), CallsHang("hang"), None], CallsHang),
    ],
)
def test_a_query_that_stops_hides_nothing_that_is_graver(failures, expected):
    job = Job("clicks")
    queries = [Endless(job.storage, failure) for failure in failures]
    loop = JobLoop([], queries, job.how[0], **job.how[1])
    runner = threading.Thread(target=lambda: wait_until(lambda: all_began(queries)) or loop.stop())
    runner.start()
    with pytest.raises(expected):
        loop.run()
    runner.join(10)


def all_began(queries: list[Endless]) -> bool:
    return all(query.began.is_set() for query in queries)


def test_a_slice_that_stops_for_good_takes_no_query_along(monkeypatch):
    job = Job("clicks")
    query = Endless(job.storage)
    monkeypatch.setattr(job.slices[0], "tick", lambda: (_ for _ in ()).throw(OffsetsGone("gone")))
    job.loop = JobLoop(job.slices, [query], job.how[0], **job.how[1])
    failures: list[BaseException] = []

    def run() -> None:
        try:
            job.loop.run()
        except OffsetsGone as error:
            failures.append(error)

    runner = threading.Thread(target=run)
    runner.start()
    wait_until(lambda: job.reported.warnings == ["stopped: gone"])
    assert runner.is_alive()
    assert not query.stopping.is_set()
    query.stop()
    runner.join(10)
    assert [str(each) for each in failures] == ["gone"]


def test_a_bug_in_a_slice_stops_the_queries_so_that_it_is_seen(monkeypatch):
    job = Job("clicks")
    query = Endless(job.storage)
    monkeypatch.setattr(job.slices[0].parts.runner, "run", lambda *_: 1 // 0)
    job.loop = JobLoop(job.slices, [query], job.how[0], **job.how[1])
    with pytest.raises(ZeroDivisionError):
        job.loop.run()
    assert query.stopping.is_set()


def test_what_does_not_stop_in_half_of_the_grace_is_cancelled():
    job = Job("clicks", until_drained=False)
    query = Endless(job.storage)
    query.stop = lambda **_how: None
    rhythm = replace(job.how[0], grace_s=0.02)
    job.loop = JobLoop([], [query], rhythm, **job.how[1])
    runner = threading.Thread(target=job.loop.run)
    runner.start()
    wait_until(query.began.is_set)
    job.loop.stop()
    wait_until(lambda: query.cancelled)
    query.stopping.set()
    runner.join(10)
    assert not runner.is_alive()


def test_a_stop_that_finishes_cancels_nothing_until_another_one_does() -> None:
    job = Job("clicks", until_drained=False)
    query = Endless(job.storage)
    how: list[bool] = []
    query.stop = lambda *, finishes: how.append(finishes)
    job.loop = JobLoop([], [query], replace(job.how[0], grace_s=0.02), **job.how[1])
    runner = threading.Thread(target=job.loop.run)
    runner.start()
    wait_until(query.began.is_set)
    job.loop.stop(finishes=True)
    time.sleep(0.1)  # five times the grace
    assert not query.cancelled
    job.loop.stop()
    wait_until(lambda: query.cancelled)
    assert how == [True, False]
    query.stopping.set()
    runner.join(10)
    assert job.loop.log_ends() == (), "it was never opened"


def test_it_tells_where_its_logs_end() -> None:
    job = Job("clicks", "orders")
    job.loop.run()
    ends = {each.slice: each.entry for each in job.loop.log_ends()}
    assert ends == {name: job.fold(name).end for name in ("clicks", "orders")}


def test_a_process_in_which_too_many_calls_hang_ends_to_be_started_again(monkeypatch):
    """Calls on dead connections may never come back: waiting for them would be for ever."""
    job = Job("clicks")

    def hanging(*_):
        raise CallsHang("256 calls hang")

    monkeypatch.setattr(job.slices[0].parts.log, "append", hanging)
    with pytest.raises(CallsHang) as ended:
        job.loop.run()
    assert ended.value.exit_code == 1
    assert job.reported.warnings == ["stopped: 256 calls hang"], "it is not tried again"


def test_a_job_that_is_to_end_does_not_wait_for_ever(monkeypatch):
    job = Job("clicks")

    def never(_streams):
        raise SourceUnreachable("no broker")

    monkeypatch.setattr(job.source, "describe_streams", never)
    with pytest.raises(SourceUnreachable):
        job.loop.run()
    assert len(job.reported.warnings) == job_loop.TRIES_UNTIL_DRAINED


def test_a_job_without_end_lands_what_comes_and_stops_in_order():
    job = Job("clicks", until_drained=False)
    runner = threading.Thread(target=job.loop.run)
    runner.start()
    wait_until(lambda: job.reported.landed_rows == 10)
    job.source.append(StreamShard("clicks", "0"), b'{"ts": 10}')
    wait_until(lambda: job.reported.landed_rows == 11 and "idle" in job.reported.steps)
    job.loop.stop()
    runner.join(10)
    assert not runner.is_alive()
    assert job.fold("clicks").unclosed is None


def test_of_two_jobs_one_owns_a_table():
    storage = MemoryStorage()
    claim_tables(storage, ["ods.clicks"], "first", 1)
    claim_tables(storage, ["ods.clicks"], "first", 2)
    with pytest.raises(TableOwned) as refused:
        claim_tables(storage, ["ods.clicks"], "second", 3)
    assert refused.value.fields["owner"] == "first"
    owner = read_owner(storage, "ods.clicks")
    assert owner is not None
    assert (owner.job, owner.claimed_ms, owner.number) == ("first", 1, 0)


def test_of_many_jobs_that_claim_a_table_at_once_one_wins():
    storage, start, won = MemoryStorage(), threading.Barrier(8), []

    def claim(job: str) -> None:
        start.wait()
        with contextlib.suppress(TableOwned):
            claim_tables(storage, ["ods.clicks"], job, 1)
            won.append(job)

    threads = [threading.Thread(target=claim, args=(f"job{n}",)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    owner = read_owner(storage, "ods.clicks")
    assert owner is not None
    assert won == [owner.job]


class OtherLake:
    """A runner whose executors see another lake."""

    def probe(self, files: Mapping[str, bytes]) -> None:
        for path, content in files.items():
            MemoryStorage().create(path, content)


def test_a_lake_that_executors_do_not_share_is_found_by_the_probe():
    storage, name = MemoryStorage(), SliceName("job", "main")
    with pytest.raises(StorageError, match="cannot see"):
        probe_lake(storage, OtherLake(), name, ["ods.clicks"])


def test_a_mount_inside_a_table_is_found_by_the_probe():
    inner, name = MemoryStorage(), SliceName("job", "main")
    storage = FaultyStorage(inner, [FailBefore(1, kind="publish")])
    with pytest.raises(StorageError, match="moved from staging"):
        probe_lake(storage, RecordedRunner(RecordedSource(), storage), name, ["ods.clicks"])


def test_a_probe_leaves_nothing_behind():
    storage, name = MemoryStorage(), SliceName("job", "main")
    probe_lake(storage, RecordedRunner(RecordedSource(), storage), name, ["ods.clicks"])
    left = [each for each in storage.list("ods.db/clicks") if not each.is_directory]
    assert left == []


class LooksFirst(WrappedStorage):
    """A store that looks whether a name is free and writes later: all look before any writes."""

    def __init__(self, inner: Storage) -> None:
        super().__init__(inner)
        self._looked = threading.Barrier(RACERS)

    def create(self, path: str, data: bytes) -> None:
        if self._inner.stat(path) is not None:
            raise PathExists(path)
        self._looked.wait(timeout=10)
        with contextlib.suppress(PathExists):
            self._inner.create(path, data)


def test_a_store_that_lets_two_writers_create_a_name_is_refused():
    inner, name = MemoryStorage(), SliceName("clicks", "main")
    runner = RecordedRunner(RecordedSource(), inner)
    with pytest.raises(StorageError, match="16 of 16 writers"):
        probe_lake(LooksFirst(inner), runner, name, ["ods.clicks"])
    assert all_files(inner, "ods.db") == all_files(inner, ".ashore") == []


class FoldedNames(WrappedStorage):
    """A storage that ignores the case of names, as many disks of desktops and NAS do."""

    def stat(self, path: str) -> FileStat | None:
        return self._inner.stat(path.lower())


def test_a_lake_whose_names_ignore_case_is_refused_by_the_probe():
    inner, name = MemoryStorage(), SliceName("job", "main")
    storage = FoldedNames(inner)
    with pytest.raises(StorageError, match="ignores the case"):
        probe_lake(storage, RecordedRunner(RecordedSource(), storage), name, ["ods.clicks"])
    assert all_files(inner, "ods.db") == []


def test_one_task_probes_all_tables_and_leaves_nothing_behind_where_one_fails():
    inner, name = MemoryStorage(), SliceName("job", "main")
    storage = FaultyStorage(inner, [FailBefore(2, kind="publish")])
    runner = CountedProbes(RecordedSource(), storage)
    tables = ["ods.clicks", "ods.orders", "ods.users"]
    with pytest.raises(StorageError, match="moved from staging"):
        probe_lake(storage, runner, name, tables)
    assert [len(files) for files in runner.probes] == [3]
    assert all_files(inner, "ods.db") == []
    probe_lake(inner, CountedProbes(RecordedSource(), inner), name, tables)
    assert all_files(inner, "ods.db") == []


class CountedProbes(RecordedRunner):
    """A runner that notes what it was asked to probe."""

    def __init__(self, source: RecordedSource, storage: Storage) -> None:
        super().__init__(source, storage)
        self.probes: list[Mapping[str, bytes]] = []

    def probe(self, files: Mapping[str, bytes]) -> None:
        self.probes.append(files)
        super().probe(files)


def all_files(storage: MemoryStorage, path: str) -> list[str]:
    found = []
    for each in storage.list(path):
        found += all_files(storage, each.path) if each.is_directory else [each.path]
    return found
