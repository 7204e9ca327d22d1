"""Step 2 on Spark: one job over exactly the ranges of a plan.

What it promises: one action a batch; the jobs of a slice run in a pool of its own and can be
cancelled together.
"""

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from ashore.errors import BatchFailed, OffsetsGone, StorageError, WorkerCrashed
from ashore.log.plan_batch import BatchPlan
from ashore.storage.open import LakeAddress
from ashore.topics.loop.splits import Split, plan_splits
from ashore.topics.read.reading import KafkaAddress
from ashore.topics.run.spark.causes import DETAIL_LENGTH_MAX, innermost_cause, text_of
from ashore.topics.run.spark.internals.numbered import NumberedJobs, Work
from ashore.topics.run.spark.reader import (
    number_tasks,
    record_columns,
    row_shape,
    select_decoded,
    with_decoded,
)
from ashore.topics.run.spark.source.record_schema import REASON
from ashore.topics.run.spark.task import (
    READING,
    RESULT_DDL,
    Report,
    do_nothing,
    land,
    land_probes,
    land_splits,
    land_splits_as_rows,
    of_number,
    read_reported,
    read_row,
    reported_ddl,
)
from ashore.topics.write.batch import BatchOrder, TaskResult

T = TypeVar("T")

_WORKER_DIED = "Python worker exited unexpectedly"  # Spark does not say by which signal


class SparkRunner:
    """The BatchRunner of one slice. `run` by the slice's thread, `cancel` by any."""

    def __init__(
        self, spark: SparkSession, kafka: KafkaAddress, lake: LakeAddress, group: str
    ) -> None:
        self._spark = spark
        self._kafka = kafka
        self._lake = lake
        self._group = group
        self._jobs = NumberedJobs(spark)

    def run(self, order: BatchOrder, plan: BatchPlan) -> list[TaskResult]:
        """Run one Spark job and return what its tasks report. Raises BatchFailed, BadRecord."""
        self._join_group(f"batch {order.batch}")
        try:
            reports = self._land(order, plan)
        except (PySparkException, Py4JError) as error:
            text = text_of(error)
            failure = WorkerCrashed if _WORKER_DIED in text else BatchFailed
            raise failure(
                f"batch {order.batch} failed in Spark: {innermost_cause(text)}",
                hint="nothing was prepared; the batch is retried",
                detail=text[:DETAIL_LENGTH_MAX],
            ) from error
        try:
            return [read_row(*each) for each in reports]
        except OffsetsGone as error:
            # Retention overtook the reading. The next plan sees the gap, and knows what to do.
            raise BatchFailed(f"batch {order.batch} failed: {error.message}") from error

    def _land(self, order: BatchOrder, plan: BatchPlan) -> list[Report]:
        """Land the whole plan in one action; return what tasks report."""
        tables = dict(order.tables)
        # What no decoder may look at, no expression may either.
        selected = [each for each in tables if tables[each].is_selected and order.is_decoded]
        splits = plan_splits(plan, tables.keys() - selected)
        land_mine = functools.partial(land_splits, order, self._kafka, splits)
        frames = [
            self._select(order, stream, mine)
            for stream in selected
            if (mine := plan_splits(plan, {stream}))
        ]
        if not frames:
            return self._jobs.run(len(splits), _numbered(land_mine))
        results = [frame.mapInArrow(functools.partial(land, order), RESULT_DDL) for frame in frames]
        if splits:
            read = functools.partial(land_splits_as_rows, land_mine)
            results.append(number_tasks(self._spark, len(splits)).mapInArrow(read, RESULT_DDL))
        rows = functools.reduce(lambda left, right: left.union(right), results).collect()
        return [Report(row.is_error, bytes(row.content)) for row in rows]

    def _select(self, order: BatchOrder, stream: str, splits: list[Split]) -> DataFrame:
        """Return the records of a stream with what `select` and `where` make of them."""
        spec = dict(order.tables)[stream]
        shape = row_shape(spec, *record_columns(spec), REASON)
        read = functools.partial(read_reported, order, self._kafka, splits, shape)
        rows = number_tasks(self._spark, len(splits)).mapInArrow(read, reported_ddl(shape))
        return select_decoded(with_decoded(rows, spec), spec, REASON, READING)

    def probe(self, files: Mapping[str, bytes]) -> None:
        """Have one executor write files. Raises StorageError, BatchFailed."""
        self._join_group("probe")
        write = functools.partial(land_probes, self._lake, files)
        try:
            (message,) = self._jobs.run(1, _numbered(write))
        except (PySparkException, Py4JError) as error:
            raise BatchFailed(
                f"the probe failed in Spark: {innermost_cause(text_of(error))}"
            ) from error
        if message:
            raise StorageError(
                f"an executor cannot write to the lake: {message}",
                hint="check the address of the lake and the permissions of the executors' user",
            )

    def cancel(self) -> None:
        """Cancel the slice's jobs that are under way."""
        self._spark.sparkContext.cancelJobGroup(self._group)

    def _join_group(self, description: str) -> None:
        context = self._spark.sparkContext
        context.setJobGroup(self._group, f"{self._group} {description}", interruptOnCancel=True)
        context.setLocalProperty("spark.scheduler.pool", self._group)


def start_worker(spark: SparkSession) -> None:
    """Have an executor start the Python worker that a probe would start, and do nothing there.

    The probe will report what keeps it from starting.
    """
    with contextlib.suppress(PySparkException, Py4JError):
        NumberedJobs(spark).run(1, _numbered(do_nothing))


def _numbered(work: Callable[[Iterable[int]], Iterator[T]]) -> Work[T]:
    return functools.partial(of_number, work)
