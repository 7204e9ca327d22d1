"""Step 2 on Spark: one job over exactly the ranges of a plan.

What it promises: one action a batch; the jobs of a slice run in a pool of its own and can be
cancelled together.
"""

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ashore.errors import (
    AshoreError,
    BatchFailed,
    OffsetsGone,
    RecordsTooLarge,
    StorageError,
    WorkerCrashed,
)
from ashore.log.plan_batch import BatchPlan
from ashore.log.positions import ShardRange, StreamShard
from ashore.storage.open import LakeAddress
from ashore.topics.loop.splits import plan_splits
from ashore.topics.read.limits import refused_range
from ashore.topics.read.reading import KafkaAddress
from ashore.topics.run.spark.causes import DETAIL_LENGTH_MAX, innermost_cause, text_of
from ashore.topics.run.spark.internals.numbered import NumberedJobs, Work
from ashore.topics.run.spark.reader import read_in_spark
from ashore.topics.run.spark.task import (
    RESULT_DDL,
    Report,
    do_nothing,
    land,
    land_probes,
    land_splits,
    land_splits_as_rows,
    of_number,
    read_row,
)
from ashore.topics.write.batch import BatchOrder, TaskResult

T = TypeVar("T")

_WORKER_DIED = "Python worker exited unexpectedly"  # Spark does not say by which signal


@dataclass(frozen=True, slots=True)
class _Cut:
    """What Spark's own source reads in a batch: its tasks are the first, from 0."""

    tasks: int
    ranges: tuple[ShardRange, ...]


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
        # A record that Spark's source has no memory for ends its JVM: the batch that a start, or a
        # failure, is followed by is looked through first.
        self._is_looked_through = False

    def run(self, order: BatchOrder, plan: BatchPlan) -> list[TaskResult]:
        """Run one Spark job and return what its tasks report. Raises BatchFailed, BadRecord."""
        self._join_group(f"batch {order.batch}")
        try:
            reports, cut = self._land(order, plan)
        except (PySparkException, Py4JError) as error:
            self._is_looked_through = False
            text = text_of(error)
            failure = WorkerCrashed if _WORKER_DIED in text else BatchFailed
            raise failure(
                f"batch {order.batch} failed in Spark: {innermost_cause(text)}",
                hint="nothing was prepared; the batch is retried",
                detail=text[:DETAIL_LENGTH_MAX],
            ) from error
        try:
            return _vouch([read_row(*each) for each in reports], cut)
        except OffsetsGone as error:
            # Retention overtook the reading. The next plan sees the gap, and knows what to do.
            raise BatchFailed(f"batch {order.batch} failed: {error.message}") from error

    def _land(self, order: BatchOrder, plan: BatchPlan) -> tuple[list[Report], "_Cut"]:
        """Land the whole plan in one action; return what tasks report, and what Spark has cut."""
        tables = dict(order.tables)
        splits = plan_splits(plan, tables)
        land_mine = functools.partial(land_splits, order, self._kafka, splits)
        decoded = tuple(each for each in plan.ranges if tables[each.key.stream].is_decoded_by_spark)
        if not self._is_looked_through:
            refuse_large(self._kafka, decoded)
        frames = read_in_spark(self._spark, self._kafka, plan, tables)
        if not frames:
            return self._jobs.run(len(splits), _numbered(land_mine)), _Cut(0, ())
        cut = _Cut(sum(frame.rdd.getNumPartitions() for frame in frames), decoded)
        land_frame = functools.partial(land, order, self._kafka.limits)
        results = [frame.mapInArrow(land_frame, RESULT_DDL) for frame in frames]
        if splits:
            numbers = self._spark.range(0, len(splits), 1, len(splits))
            read = functools.partial(land_splits_as_rows, land_mine)
            results.append(numbers.mapInArrow(read, RESULT_DDL))
        rows = functools.reduce(lambda left, right: left.union(right), results).collect()
        self._is_looked_through = True
        return [Report(row.is_error, bytes(row.content)) for row in rows], cut

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


def _vouch(results: list[TaskResult], cut: _Cut) -> list[TaskResult]:
    """Return the results, and that what Spark has cut was read, if all its tasks have reported.

    Such a task does not know which ranges it reads; Spark fails it where it cannot read them.
    """
    if {result.task for result in results} >= set(range(cut.tasks)):
        return [*results, TaskResult(cut.tasks, (), (), (), ()).having_read(cut.ranges)]
    return results


def refuse_large(kafka: KafkaAddress, ranges: Iterable[ShardRange]) -> None:
    """Raise RecordsTooLarge where a record of ranges exceeds the limit, read without Spark.

    Nothing is said of ranges that cannot be read so, and of batches of Kafka that are too large:
    Spark's source decompresses them record by record.
    """
    left = {StreamShard(each.key.stream, each.key.shard): each.offsets for each in ranges}
    while left:
        try:
            for _ in kafka.read(left):
                pass
        except RecordsTooLarge as error:
            shard, refused = refused_range(error)
            if refused.size == 1:
                raise
            del left[shard]
        except AshoreError:
            return
        else:
            return


def start_worker(spark: SparkSession) -> None:
    """Have an executor start the Python worker that a probe would start, and do nothing there.

    The probe will report what keeps it from starting.
    """
    with contextlib.suppress(PySparkException, Py4JError):
        NumberedJobs(spark).run(1, _numbered(do_nothing))


def _numbered(work: Callable[[Iterable[int]], Iterator[T]]) -> Work[T]:
    return functools.partial(of_number, work)
