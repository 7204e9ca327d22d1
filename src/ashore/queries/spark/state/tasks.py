"""The progress of Spark's tasks, reported while they run.

What it promises: only while the block runs; a report is a hint, taken each half second.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from ashore.jobs.events import Event, StateProgress
from ashore.queries.spark.internals.state import count_taken

_PAUSE_S = 0.5


@contextmanager
def reported_progress(spark: SparkSession, send: Callable[[Event], None]) -> Iterator[None]:
    """Send how many tasks of the active stages are done, and what these have taken in."""
    done = threading.Event()

    def watch() -> None:
        last = None
        while not done.wait(_PAUSE_S):
            found = _count(spark)
            if found is not None and found != last:
                last = found
                send(found)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


def _count(spark: SparkSession) -> StateProgress | None:
    tracker = spark.sparkContext.statusTracker()
    stages = [tracker.getStageInfo(each) for each in tracker.getActiveStageIds()]
    there = [each for each in stages if each is not None]
    if not there:
        return None
    completed = sum(each.numCompletedTasks for each in there)
    total = sum(each.numTasks for each in there)
    return StateProgress(completed, total, *count_taken(spark))
