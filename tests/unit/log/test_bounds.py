"""What must not grow without a bound: files left behind, partitions remembered, entries."""

import contextlib
from dataclasses import replace
from functools import partial

import pytest
from tests.crash.query_job import Query, query_world
from tests.unit.topics.log_lake import NAME, Lake, fill, finish, join, land, write_batch
from tests.unit.topics.test_job_loop import Job, impatient  # noqa: F401 - without real pauses

from ashore.base.unique import unique
from ashore.errors import BatchFailed, Fenced, LogLost, StorageError, TooManyFiles
from ashore.log import names
from ashore.log.entries import Commit
from ashore.log.fold import Fold, PartitionState, forget_untouched
from ashore.log.lost_end import LogEnd
from ashore.log.names import SliceName
from ashore.log.progress import Quiet
from ashore.log.store import log as log_module
from ashore.log.store.archive import archive_log
from ashore.log.store.cleaner import apply_cleaning, plan_cleaning
from ashore.log.store.committer import Committer
from ashore.log.store.log import LandingLog, LogContext
from ashore.log.store.reader import list_log, read_log
from ashore.log.store.traces import find_traces, require_whole
from ashore.storage import MemoryStorage
from ashore.storage.base import build_temporary_path
from ashore.storage.open import LakeAddress
from ashore.topics.loop import query_sink, slice_loop
from ashore.topics.loop.query_sink import QuerySink, QuerySlice
from ashore_lab.testing import FakeClock, RecordedRunner, WrappedStorage

TABLE = "ods.clicks"
TTL_MS = 60_000


@pytest.fixture
def lake() -> Lake:
    return Lake()


# ---- files that were left behind


def test_what_dying_processes_leave_is_deleted_once_it_is_old(lake: Lake):
    log = lake.opened()
    fill(log, 2)
    before = set(lake.listed())
    left = [
        build_temporary_path(f"{names.log_directory(NAME)}/x"),
        build_temporary_path(f"{names.owner_directory(TABLE)}/x"),
        f"{names.job_directory(NAME.job)}/{names.probe_name('a')}",
        f"{names.table_path(TABLE)}/{names.probe_name('b')}",
        f"{names.staging_root(TABLE, NAME)}/{names.probe_name('c')}",
    ]
    for path in left:
        lake.storage.create(path, b"half")
    made_ms = lake.clock.now_ms()

    def planned(now_ms: int) -> list[str]:
        steps = plan_cleaning(lake.storage, NAME, log.fold, [TABLE], (now_ms, TTL_MS))
        return sorted(step.file.path for step in steps)

    stamps = {lake.storage.stat(path).modified_ms for path in left}  # type: ignore[union-attr]
    assert planned(min(stamps)) == [], "a process may be at it"
    assert planned(max(stamps) + TTL_MS) == sorted(left), made_ms
    steps = plan_cleaning(lake.storage, NAME, log.fold, [TABLE], (max(stamps) + TTL_MS, TTL_MS))
    assert apply_cleaning(lake.storage, steps) == 4 * len(left)
    assert set(lake.listed()) == before
    assert lake.wrong() is None


# ---- directories of epochs


def stage(lake: Lake, epoch: int, name: str = "0-00000000000000aa.in-progress") -> str:
    """Leave a file where the writer of an epoch stages; return its directory."""
    directory = names.staging_directory(TABLE, NAME, epoch)
    lake.storage.create(f"{directory}/{name}", b"half")
    return directory


def clean(lake: Lake, fold: Fold, ttl_ms: int = 0) -> None:
    now_and_ttl = (lake.clock.now_ms(), ttl_ms)
    apply_cleaning(lake.storage, plan_cleaning(lake.storage, NAME, fold, [TABLE], now_and_ttl))


def committer(lake: Lake, log: LandingLog) -> Committer:
    return Committer(log, lake.storage, lake.clock)


def staging(lake: Lake) -> list[int]:
    listed = lake.storage.list(names.staging_root(TABLE, NAME))
    return sorted(int(names.leaf(each.path)) for each in listed)


def test_of_epochs_that_are_over_only_the_newest_keeps_its_directory(lake: Lake):
    for epoch in range(1, 21):
        log = lake.opened()
        stage(lake, epoch)
    lake.opened()  # two starts that have staged nothing
    log = lake.opened()
    clean(lake, log.fold)
    assert staging(lake) == list(range(1, 21)), "what the first pass empties, the next removes"
    clean(lake, log.fold, ttl_ms=60_000)
    assert staging(lake) == list(range(1, 21)), "not before its time"
    clean(lake, log.fold)
    assert staging(lake) == [20], "it tells a start without a log that there was one"
    stage(lake, 22)
    clean(lake, log.fold)
    assert staging(lake) == [22]
    assert lake.wrong() is None


def test_a_log_that_was_lost_is_noticed_after_cleaning(lake: Lake):
    for epoch in (1, 2, 3):
        log = lake.opened()
        lake.storage.delete(f"{stage(lake, epoch)}/0-00000000000000aa.in-progress")
    log = lake.opened()
    clean(lake, log.fold)
    assert staging(lake) == [3]
    end = LogEnd(entry=1, epoch=2, next_batch=0)
    with pytest.raises(LogLost):
        require_whole(NAME, end, find_traces(lake.storage, NAME, [TABLE]))


def test_the_directory_of_the_unclosed_entry_stays(lake: Lake):
    log = lake.opened()
    join(log)
    land(lake, log)  # its files have left, and nobody has closed it
    for epoch in (2, 3):
        lake.storage.delete(f"{stage(lake, epoch)}/0-00000000000000aa.in-progress")
        log = lake.opened()
    assert log.fold.unclosed is not None
    clean(lake, log.fold)
    assert staging(lake) == [1, 3]
    log.append(Commit("test"), committer(lake, log).finish())
    clean(lake, log.fold)
    assert staging(lake) == [3]


def test_a_frozen_writer_whose_directory_is_gone_is_fenced(lake: Lake):
    frozen = lake.opened()
    join(frozen)
    frozen.append(write_batch(lake, frozen), None)
    log = lake.opened()
    log.append(Commit("recovery"), finish(log, lake.storage))
    stage(lake, 2)
    clean(lake, log.fold)
    assert staging(lake) == [2]
    closing = committer(lake, frozen).finish()  # its files are in their table: nothing is moved
    with pytest.raises(Fenced):
        frozen.append(Commit("frozen"), closing)


def test_a_directory_that_a_frozen_writer_writes_to_again_stays(lake: Lake):
    for epoch in (1, 2):
        log = lake.opened()
        lake.storage.delete(f"{stage(lake, epoch)}/0-00000000000000aa.in-progress")
    log = lake.opened()
    steps = plan_cleaning(lake.storage, NAME, log.fold, [TABLE], (lake.clock.now_ms(), 0))
    stage(lake, 1)
    apply_cleaning(lake.storage, steps)
    assert staging(lake) == [1, 2]


def test_whoever_cleans_by_an_old_log_leaves_the_directories_of_later_epochs(lake: Lake):
    for epoch in (1, 2, 3):
        log = lake.opened()
        lake.storage.delete(f"{stage(lake, epoch)}/0-00000000000000aa.in-progress")
        if epoch == 2:
            old = log.fold
    clean(lake, old)
    assert staging(lake) == [2, 3]


class Refusing(WrappedStorage):
    """Deletes nothing."""

    def delete(self, path: str) -> None:
        raise StorageError("no", path=path)


def test_a_directory_that_cannot_be_deleted_is_reported(lake: Lake):
    for epoch in (1, 2):
        log = lake.opened()
        lake.storage.delete(f"{stage(lake, epoch)}/0-00000000000000aa.in-progress")
    steps = plan_cleaning(lake.storage, NAME, log.fold, [TABLE], (lake.clock.now_ms(), 0))
    with pytest.raises(StorageError):
        apply_cleaning(Refusing(lake.storage), steps)


# ---- the archiver


class Counting(WrappedStorage):
    """Counts what is read."""

    reads = 0

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        self.reads += 1
        return super().read(path, start, length)


def test_the_archiver_does_not_read_the_opens_of_old_archives_again(lake: Lake, monkeypatch):
    monkeypatch.setattr(names, "ARCHIVE_ENTRIES", 4)
    for _ in range(10):  # a crash loop: four opens a thousand
        log = lake.opened()
    for _ in range(10):
        log = lake.opened()
        fill(log, log.fold.end + 3, snapshot=True)
    archive_log(lake.storage, NAME)
    opens = sum(entry.kind == "open" for entry in lake.history())
    assert opens == 20
    counting = Counting(lake.storage)
    assert archive_log(counting, NAME) == 0
    assert counting.reads <= names.ARCHIVE_ENTRIES
    assert lake.wrong() is None


def test_what_an_interrupted_archiver_has_left_is_removed_by_the_next(lake: Lake, monkeypatch):
    monkeypatch.setattr(names, "ARCHIVE_ENTRIES", 4)
    fill(lake.opened(), 30, snapshot=True)
    whole = lake.storage.first.copy()
    archive_log(lake.storage, NAME)
    newest = max(int(path.split("-")[-1][:-3]) for path in lake.listed() if path.endswith(".gz"))
    back = names.entry_path(NAME, newest * 4 + 2)
    lake.storage.replace(back, whole[back])
    assert archive_log(lake.storage, NAME) == 1
    assert lake.storage.stat(back) is None
    assert lake.wrong() is None


# ---- starts


def test_a_job_that_never_comes_to_its_first_batch_reads_no_more_of_its_log(monkeypatch):
    monkeypatch.setattr(log_module, "SNAPSHOT_EVERY", 5)
    job = Job("clicks")
    for number in range(23):
        dying = Job("clicks", storage=job.storage)
        dying.slices[0].open()
        assert dying.slices[0].log.fold.end == number
        assert number - dying.slices[0].log.fold.base < 5
    assert job.fold("clicks").epoch == 23
    job.slices[0].open()
    job.slices[0].tick()
    assert job.reported.landed_rows == 4, "it lands, once it lives long enough"


def test_what_is_left_of_its_starts_is_bounded(monkeypatch):
    monkeypatch.setattr(log_module, "SNAPSHOT_EVERY", 5)
    monkeypatch.setattr(names, "ARCHIVE_ENTRIES", 10)
    storage = Job("clicks").storage
    for _ in range(106):
        Job("clicks", storage=storage).slices[0].open()
    listing = list_log(storage, Job("clicks", storage=storage).slices[0].log.name)
    assert listing.archives == tuple(range(10))
    packed = [number for number in listing.entries if number < 100]
    assert packed == [each for index in range(10) for each in (10 * index, 10 * index + 9)]


def test_a_start_goes_on_where_its_log_cannot_be_packed(monkeypatch):
    monkeypatch.setattr(log_module, "SNAPSHOT_EVERY", 5)
    monkeypatch.setattr(names, "ARCHIVE_ENTRIES", 10)
    job = Job("clicks")
    for _ in range(14):
        Job("clicks", storage=job.storage).slices[0].open()
    job.storage.delete(names.entry_path(job.slices[0].log.name, 3))
    job.slices[0].open()
    assert any("packing the log" in each for each in job.reported.warnings)
    job.slices[0].tick()
    assert job.reported.landed_rows == 4


def test_nor_does_a_query(monkeypatch):
    monkeypatch.setattr(log_module, "SNAPSHOT_EVERY", 5)
    monkeypatch.setattr(names, "ARCHIVE_ENTRIES", 10)
    storage, clock = MemoryStorage(), FakeClock()
    for _ in range(26):
        log = LandingLog(LogContext(storage, clock, unique), NAME)
        plan = QuerySlice(LakeAddress("memory:"), NAME, None, 1, topic="results")
        fold = QuerySink(plan, storage=storage, log=log, clock=clock).open()
        assert fold.end - fold.base < 5
    assert read_log(storage, NAME).epoch == 26
    assert list_log(storage, NAME).entries == (0, 9, 10, 19, *range(20, 26))


# ---- partitions that are never sealed


def partition(number: int, table: str = TABLE, sealed_version: int = 0) -> PartitionState:
    return PartitionState(
        table, f"id={number}", 1, 1, number, True, sealed_version, sealed_version, 0
    )


def test_only_the_last_partitions_of_tables_that_are_not_sealed_are_remembered(lake: Lake):
    fold = lake.opened().fold
    states = [partition(number) for number in range(50)]
    states += [partition(number, "ods.days") for number in range(50)]
    states += [partition(50, sealed_version=1)]
    states = {(each.table, each.partition): each for each in states}
    kept = forget_untouched(replace(fold, partitions=states), {"ods.days"}, 10).partitions
    assert {key for key in kept if key[0] == "ods.days"} == {
        k for k in states if k[0] == "ods.days"
    }
    assert {key[1] for key in kept if key[0] == TABLE} == {f"id={n}" for n in range(40, 51)}
    assert forget_untouched(replace(fold, partitions=states), {"ods.days"}, 50).partitions == states


def test_a_snapshot_forgets_them(lake: Lake, monkeypatch):
    log = lake.opened()
    fill(log, 3)
    many = {(TABLE, f"id={n}"): partition(n) for n in range(12_000)}
    log._fold = replace(log.fold, partitions=many, unclosed=None)
    log.write_snapshot(0, {TABLE})
    assert len(log.fold.partitions) == 12_000
    log.write_snapshot(0)
    assert len(log.fold.partitions) == 10_000


# ---- an entry


def staged_files(job: Job) -> list[str]:
    directory = names.staging_root("ods.clicks", SliceName("job", "clicks"))
    return [
        file.path for epoch in job.storage.list(directory) for file in job.storage.list(epoch.path)
    ]


def test_a_batch_of_too_many_files_is_planned_again_with_fewer_records(monkeypatch):
    monkeypatch.setattr(slice_loop, "FILES_MAX", 0)
    job = Job("clicks", records=10)
    with pytest.raises(TooManyFiles, match="at most: until the"):
        job.loop.run()
    assert job.slices[0].plan.limits.records == 1
    assert job.fold("clicks").next_batch == 0, "nothing was prepared"
    assert staged_files(job) == []
    monkeypatch.setattr(slice_loop, "FILES_MAX", 1)
    job.slices[0].open()
    for _ in range(10):
        job.slices[0].tick()
    assert job.fold("clicks").next_batch == 10
    assert job.reported.landed_rows == 10


def test_a_task_that_exceeds_the_limit_of_files_makes_the_next_plan_smaller(monkeypatch):
    job = Job("clicks", records=10)
    job.slices[0].open()
    found = TooManyFiles("task 0 has 3 files", records=3)
    monkeypatch.setattr(RecordedRunner, "run", lambda *_arguments: fail_with(found))
    with pytest.raises(TooManyFiles) as failed:
        job.slices[0].tick()
    assert failed.value.__cause__ is found
    assert job.slices[0].plan.limits.records == 1


def test_what_other_tasks_have_staged_is_deleted_with_a_failed_batch(monkeypatch):
    """Else each try of a batch leaves files behind, until the disk is full of them."""
    job, seen = Job("clicks", records=10), []
    job.slices[0].open()
    land_all = RecordedRunner.run

    def land_and_fail(*arguments):
        land_all(*arguments)
        seen.append(staged_files(job))
        raise BatchFailed("a task failed after others had written their files")

    other = names.join(names.staging_directory("ods.clicks", SliceName("job", "clicks"), 0), "x")
    kept = [
        other.replace("/0/", f"/{epoch}/").replace("/x", f"/{names.pending_name(batch, 'a' * 32)}")
        for epoch, batch in ((0, 0), (1, 1))
    ]
    for path in kept:
        job.storage.create(path, b"of another epoch, or of another batch")
    monkeypatch.setattr(RecordedRunner, "run", land_and_fail)
    with pytest.raises(BatchFailed):
        job.slices[0].tick()
    assert len(seen[0]) > len(kept)
    assert sorted(staged_files(job)) == sorted(kept)


def fail_with(error: Exception):
    raise error


def test_a_batch_of_a_query_cannot_become_smaller_and_its_size_is_reported(monkeypatch):
    reported = []
    monkeypatch.setattr(query_sink, "FILES_MAX", 1)
    monkeypatch.setattr(Quiet, "note", lambda _self, _slice, message: reported.append(message))
    world = query_world()
    assert world.start().run() is None
    assert ["DISTRIBUTE BY" in each for each in reported] == [True] * 3
    assert "batch 0 has 2 files" in reported[0]


def test_what_tasks_have_staged_for_a_failed_batch_of_a_query_is_deleted():
    world, seen = query_world(), []

    class Failing(Query):
        def _write(self, begun, rows):
            list_staged = partial(
                self.sink.storage.list,
                names.staging_directory("ods.result", begun.order.name, begun.order.epoch),
            )
            try:
                with self.sink.discarding(begun):
                    super()._write(begun, rows)
                    seen.append(list_staged())
                    raise BatchFailed("a task failed")
            finally:
                seen.append(list_staged())

    world.query = Failing
    with contextlib.suppress(BatchFailed):
        world.start().run()
    assert seen[0]
    assert seen[1] == []
