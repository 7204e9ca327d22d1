"""Tasks with something wrong, sent to executors by value: `tests` cannot be imported there."""

import os
import random
import resource
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from ashore.base.unique import unique
from ashore.errors import AnswerUnknown
from ashore.log.positions import ShardRange
from ashore.storage import DeadlineStorage, MemoryStorage
from ashore.storage.calls import HANGING_MAX
from ashore.storage.open import LakeAddress
from ashore.topics.read.reading import KafkaAddress
from ashore.topics.run.spark import task as task_module
from ashore.topics.run.spark.task import Report, land, land_probes, land_rows, land_splits
from ashore.topics.write.batch import BatchOrder, RowsOrder

Splits = Sequence[tuple[ShardRange, ...]]


def fail_first_attempt(
    order: BatchOrder, kafka: KafkaAddress, splits: Splits, numbers: Iterable[int]
) -> Iterator[Report]:
    """Do everything, files closed and synced, and die before the result is out."""
    results = list(land_splits(order, kafka, splits, numbers))
    context = TaskContext.get()
    if context is not None and context.attemptNumber() == 0:
        raise RuntimeError("the first attempt of each task fails")
    yield from results


def fail_always(
    order: BatchOrder, kafka: KafkaAddress, splits: Splits, numbers: Iterable[int]
) -> Iterator[Report]:
    """Do everything and die, on each attempt."""
    yield from list(land_splits(order, kafka, splits, numbers))[:0]
    raise RuntimeError("every attempt fails")


def measured(
    order: BatchOrder, kafka: KafkaAddress, splits: Splits, numbers: Iterable[int]
) -> Iterator[Report]:
    """Land, and note the largest batch and the most memory of this process in the lake."""
    largest, read_splits = 0, task_module.read_splits

    def watched(*arguments: Any) -> Iterator[pa.RecordBatch]:
        nonlocal largest
        for batch in read_splits(*arguments):
            largest = max(largest, batch.nbytes)
            yield batch

    task_module.read_splits = watched
    try:
        yield from list(land_splits(order, kafka, splits, numbers))
    finally:
        task_module.read_splits = read_splits
    memory_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    context = TaskContext.get()
    task = context.partitionId() if context else 0
    note = Path(order.lake.uri.removeprefix("file://")) / f"_measured-{order.batch}-{task}"
    note.write_text(f"{largest} {memory_kib * 1024}", "utf-8")


def land_where_calls_hang(
    order: BatchOrder, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Land, on the first attempt in a worker in which too many calls hang."""
    _hang_on_first_attempt(order.lake, "batch")
    yield from land(order, batches)


def probe_where_calls_hang(
    lake: LakeAddress, files: Mapping[str, bytes], numbers: Iterable[int]
) -> Iterator[str]:
    """Write the probes, on the first attempt in a worker in which too many calls hang."""
    _hang_on_first_attempt(lake, "probe")
    yield from land_probes(lake, files, numbers)


def _hang_on_first_attempt(lake: LakeAddress, what: str) -> None:
    """Note this worker's process in the lake; on the first attempt, have many calls hang in it."""
    context = TaskContext.get()
    attempt = context.attemptNumber() if context else 0
    note = f"_worker-{what}-{attempt}-{os.getpid()}-{os.getppid()}"
    Path(lake.uri.removeprefix("file://"), note).touch()
    storage = DeadlineStorage(_Silent(), 0.001)
    for _ in range(HANGING_MAX if attempt == 0 else 0):
        with suppress(AnswerUnknown):
            storage.stat("silent")


class _Silent(MemoryStorage):
    """Never answers."""

    def stat(self, path: str) -> None:
        threading.Event().wait()


def land_rows_but_one(
    order: RowsOrder, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Write the rows of a query; one task does not tell what it did."""
    results = list(land_rows(order, batches))
    context = TaskContext.get()
    if context is None or context.partitionId() != 1:
        yield from results


def draw(_numbers: Iterable[int]) -> Iterator[tuple[int, float, float, str]]:
    """Draw a number from each generator, beside another task, so that each has a worker."""
    time.sleep(2)
    drawn = np.random.random()  # noqa: NPY002 - the generator that all of a process share
    yield os.getpid(), drawn, random.random(), unique()
