"""Tasks with something wrong, sent to executors by value: `tests` cannot be imported there."""

import resource
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext

from ashore.landing.batch import BatchOrder
from ashore.spark.task import land


def fail_first_attempt(
    order: BatchOrder, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Do everything, files closed and synced, and die before the result is out."""
    results = list(land(order, batches))
    context = TaskContext.get()
    if context is not None and context.attemptNumber() == 0:
        raise RuntimeError("the first attempt of each task fails")
    yield from results


def fail_always(order: BatchOrder, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Do everything and die, on each attempt."""
    yield from list(land(order, batches))[:0]
    raise RuntimeError("every attempt fails")


def measured(order: BatchOrder, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Land, and note the largest batch and the most memory of this process in the lake."""
    largest = 0

    def watched() -> Iterator[pa.RecordBatch]:
        nonlocal largest
        for batch in batches:
            largest = max(largest, batch.nbytes)
            yield batch

    yield from land(order, watched())
    memory_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    context = TaskContext.get()
    task = context.partitionId() if context else 0
    note = Path(order.lake.uri.removeprefix("file://")) / f"_measured-{order.batch}-{task}"
    note.write_text(f"{largest} {memory_kib * 1024}", "utf-8")
