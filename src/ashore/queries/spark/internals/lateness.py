"""How many records of a batch are behind the watermark of their query.

What it is: `TimeMark`, a time that the plan of a streaming query holds as a constant and that moves
between batches; `count_observed`, what a batch has observed, while it runs still, and
`count_observed_once`, what a frame that is no stream has.
What it promises: Spark plans each batch anew, and folds the mark into it as it is then: at no cost
for a record. It is no part of what a plan means: it stands where rows are counted.
"""

from collections.abc import Iterable

from py4j.java_gateway import JavaObject
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from ashore.topics.run.spark.internals import jvm


class TimeMark:
    """A time as an expression. It begins where Spark's watermark begins, at the epoch."""

    def __init__(self, spark: SparkSession) -> None:
        # Py4J makes Integers of small numbers. A double is always one, and exact for such times.
        self._holder = jvm.HOLDER(spark, 0.0)
        nothing = jvm.TO_LIST(jvm.NOTHING(spark))
        double = jvm.TYPE_OF_DDL(spark, "double")
        literal = jvm.LITERAL_OF(spark, self._holder)
        call = jvm.INVOKE(spark, literal, "get", double, nothing, nothing, True, False, True)
        millis = Column(jvm.COLUMN_OF(spark, call)).cast("bigint")
        self.column = F.timestamp_millis(millis)

    def move(self, time_ms: int) -> None:
        """Let the batches that are planned from now on have another time."""
        jvm.HOLD(self._holder, float(time_ms))


def find_execution(frame: DataFrame, query_id: str) -> JavaObject | None:
    """Return how Spark runs the batch of a query that is under way; None: it does not run."""
    streams = jvm.STREAMS(jvm.session_of(frame.sparkSession))
    running = jvm.FIND_STREAM(streams, query_id)
    return None if running is None else jvm.LAST_EXECUTION(jvm.EXECUTION_OF(running))


def count_observed(
    frame: DataFrame, query_id: str, names: Iterable[str], count: int
) -> list[tuple[int, ...]]:
    """Return the first numbers of each observation of the batch that a query runs.

    Arguments:
        frame: that the query was started with.
        query_id: Spark's.
        names: of observations; those that are not there are left out.
        count: how many numbers of each.

    Requires: the rows of the batch have been computed.

    """
    execution = find_execution(frame, query_id)
    return [] if execution is None else _read_observed(execution, names, count)


def count_observed_once(
    frame: DataFrame, names: Iterable[str], count: int
) -> list[tuple[int, ...]]:
    """Return what `count_observed` does, of a frame that is no stream.

    Requires: its rows have been collected.
    """
    return _read_observed(jvm.execution_of(frame), names, count)


def _read_observed(
    execution: JavaObject, names: Iterable[str], count: int
) -> list[tuple[int, ...]]:
    observed = jvm.OBSERVED(execution)
    found = [jvm.MAP_GET(observed, name) for name in names]
    rows = [jvm.OPTION_GET(row) for row in found if jvm.IS_DEFINED(row)]
    return [tuple(int(jvm.ROW_LONG(row, place)) for place in range(count)) for row in rows]
