"""Cleaning in the job: off the commit path, in its own rhythm, and no reason to stop landing."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.unit.topics.test_job_loop import Job, wait_until

from ashore.base.clock import SystemClock
from ashore.errors import InvariantBroken, StorageError
from ashore.log import names
from ashore.log.names import SliceName
from ashore.log.positions import StreamShard
from ashore.storage import MemoryStorage
from ashore.topics.loop.housekeeping import CleanRule
from ashore.topics.loop.job_loop import JobLoop, Rhythm

NAME = SliceName("job", "clicks")
STAGING = names.staging_root("ods.clicks", NAME)
LEFT = f"{STAGING}/0/0-{'f' * 16}.in-progress"  # by an epoch before the first of this log
LATER = f"{STAGING}/9/0-{'e' * 16}.in-progress"  # by a writer that this job does not know of
CLICKS = StreamShard("clicks", "0")


class Stubborn(MemoryStorage):
    """A storage that deletes nothing."""

    error: Exception = StorageError("no right to delete")

    def delete(self, path: str) -> None:
        raise self.error


def job_with(storage: MemoryStorage, ttl_ms: int = 0) -> Job:
    job = Job("clicks", until_drained=False, storage=storage)
    rhythm = Rhythm(0.01, CleanRule(0.02, ttl_ms), 2.0, until_drained=False)
    job.loop = JobLoop(
        job.slices, [], rhythm, storage=storage, clock=SystemClock(), progress=job.reported,
        tables=lambda: ["ods.clicks"],
    )  # fmt: skip
    for path in (LEFT, LATER):
        storage.create(path, b"x")
    return job


@contextmanager
def running(job: Job) -> Iterator[None]:
    thread = threading.Thread(target=job.loop.run)
    thread.start()
    try:
        yield
    finally:
        job.loop.stop()
        thread.join()


def test_a_job_that_runs_deletes_what_nothing_can_want():
    job = job_with(MemoryStorage())
    with running(job):
        wait_until(lambda: job.storage.stat(LEFT) is None)
        wait_until(lambda: job.reported.landed_rows == 10)
    assert job.storage.stat(LATER) is not None
    assert job.reported.warnings == []


def test_a_young_file_is_left_to_its_slow_task():
    job = job_with(MemoryStorage(), ttl_ms=3_600_000)
    with running(job):
        wait_until(lambda: job.reported.steps.count("idle") > 20)  # cleaning was due many times
    assert job.storage.stat(LEFT) is not None


def test_a_janitor_that_may_not_delete_says_so_and_landing_goes_on():
    job = job_with(Stubborn())
    with running(job):
        wait_until(lambda: "housekeeping: no right to delete" in job.reported.warnings)
        job.source.append(CLICKS, *[b"{}"] * 5)
        wait_until(lambda: job.reported.landed_rows == 15)


@pytest.mark.parametrize("kind", [InvariantBroken, ZeroDivisionError])
def test_a_bug_of_the_janitor_stops_the_job_rather_than_the_cleaning(kind: type[Exception]):
    storage = Stubborn()
    storage.error = kind("a bug")
    job = job_with(storage)
    with pytest.raises(kind, match="a bug"):
        job.loop.run()
