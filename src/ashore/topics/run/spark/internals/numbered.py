"""Jobs of tasks that are given no more than their number.

What it is: `NumberedJobs`: a function of Python runs once for each number, on executors.
What it promises: Spark plans nothing, no row passes through Arrow, and the JVM is asked for little:
that is most of what a small job costs. A Spark whose internals are not known does the same by
PySpark's own way, which takes half as long again.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from py4j.java_gateway import JavaObject
from pyspark import RDD
from pyspark.serializers import CloudPickleSerializer, CPickleSerializer, NoOpSerializer
from pyspark.sql import SparkSession

from ashore.topics.run.spark.internals import jvm
from ashore.topics.run.spark.internals.spark_version import is_known

T = TypeVar("T")
Work = Callable[[int, Iterable[Any]], Iterator[T]]

KEPT_MAX = 64


class NumberedJobs:
    """Jobs of one session, by one thread at a time, whose job group and pool they are in."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._is_known = is_known(spark.version)
        self._rows: dict[int, JavaObject] = {}  # no rows, by number of partitions; dear to make
        self._worker: jvm.PythonWorker | None = None

    def run(self, tasks: int, work: Work[T]) -> list[T]:
        """Run a job of `tasks` tasks, and return what they yield, in the order of their numbers.

        `work`: called by each task with its number, from 0, and an iterator which it has to
        exhaust, and which yields nothing: PySpark keeps no worker that has not read to the end.

        Raises PySparkException and Py4JError.
        """
        if not self._is_known:
            done: list[T] = self._empty(tasks).mapPartitionsWithIndex(work).collect()
            return done
        rows, function = self._rows_of(tasks), self._function_of(work)
        # Asynchronously, and waited for: what `collect` hands to Spark is analysed by Spark each
        # time, the code of its largest classes included, which is 5 ms of a batch.
        future = jvm.COLLECT_ASYNC(
            jvm.AS_JAVA_RDD(jvm.PYTHON_RDD(self._spark, rows, function, False, False))
        )
        pickled = jvm.WAIT_FOR(future)
        found = (jvm.LIST_GET(pickled, index) for index in range(jvm.LIST_SIZE(pickled)))
        return [CPickleSerializer().loads(each) for each in found]

    def _empty(self, tasks: int) -> RDD[Any]:
        return self._spark.sparkContext.parallelize([], tasks)

    def _rows_of(self, tasks: int) -> JavaObject:
        found = self._rows.get(tasks)
        if found is None:
            if len(self._rows) >= KEPT_MAX:
                self._rows.clear()
            self._rows[tasks] = found = jvm.jvm_rdd(self._empty(tasks))
        return found

    def _function_of(self, work: Work[T]) -> JavaObject:
        if self._worker is None:
            self._worker = jvm.worker_of(self._spark)
        command = (work, None, NoOpSerializer(), CPickleSerializer())
        return jvm.PYTHON_FUNCTION(
            self._spark, bytearray(CloudPickleSerializer().dumps(command)), *self._worker
        )
