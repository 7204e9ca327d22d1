"""Jobs of tasks that are given no more than their number, by both ways in which they run."""

import functools
import os
import threading
from collections.abc import Iterable, Iterator

import pytest
from py4j.protocol import Py4JError
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ashore.topics.run.spark.internals import numbered
from ashore.topics.run.spark.internals.numbered import NumberedJobs
from ashore.topics.run.spark.task import of_number

CORES = 2  # of the session that tests share: as many workers wait for a task
LARGE = 3 << 20  # PySpark itself sends what has more than 1 MB by a broadcast


@pytest.fixture(params=[True, False], ids=["by Spark's internals", "as PySpark does"])
def jobs(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> NumberedJobs:
    monkeypatch.setattr(numbered, "is_known", lambda _version: request.param)
    return NumberedJobs(spark)


def count_bytes(content: bytes, numbers: Iterable[int]) -> Iterator[tuple[int, int, int]]:
    context = TaskContext.get()
    assert context is not None
    for number in numbers:
        yield number, context.partitionId(), len(content)
        yield number, os.getpid(), 0


def fail(numbers: Iterable[int]) -> Iterator[int]:
    for number in numbers:
        if number == 1:
            raise ValueError("task 1 cannot do this")
        yield number


def wait(_numbers: Iterable[int]) -> Iterator[int]:
    threading.Event().wait(60)
    yield 0


def test_each_task_is_given_its_number_and_all_that_they_yield_comes_in_order(
    jobs: NumberedJobs,
) -> None:
    for tasks, size in ((1, 3), (5, LARGE), (1, 0), (5, 1)):
        work = functools.partial(of_number, functools.partial(count_bytes, bytes(size)))
        found = jobs.run(tasks, work)
        assert found[::2] == [(number, number, size) for number in range(tasks)]


def test_both_ways_keep_and_share_the_workers(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = functools.partial(of_number, functools.partial(count_bytes, b""))
    workers = set()
    for is_known in (True, False) * 4:
        monkeypatch.setattr(numbered, "is_known", lambda _version, known=is_known: known)
        workers.add(NumberedJobs(spark).run(1, work)[1][1])
    assert len(workers) <= CORES, "PySpark ends a worker that has not read to the end"


def test_an_error_of_a_task_comes_with_its_words(jobs: NumberedJobs) -> None:
    with pytest.raises((PySparkException, Py4JError), match="ValueError: task 1 cannot do this"):
        jobs.run(2, functools.partial(of_number, fail))


def test_a_job_is_cancelled_with_its_group(spark: SparkSession, jobs: NumberedJobs) -> None:
    context = spark.sparkContext
    context.setJobGroup("numbered", "waits", interruptOnCancel=True)
    stop = threading.Event()

    def cancel() -> None:
        while not stop.wait(0.3):
            context.cancelJobGroup("numbered")

    cancelling = threading.Thread(target=cancel)
    cancelling.start()
    try:
        with pytest.raises((PySparkException, Py4JError), match="cancelled"):
            jobs.run(1, functools.partial(of_number, wait))
    finally:
        stop.set()
        cancelling.join()
        context.setLocalProperty("spark.jobGroup.id", None)
