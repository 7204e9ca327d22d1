"""What the stages that run have taken in so far.

What it is: `count_taken`.
What it promises: nothing waits. Spark counts a task's rows at its heartbeats and at its end, so
that what is returned is a little behind.
"""

from pyspark.sql import SparkSession

from ashore.topics.run.spark.internals import jvm


def count_taken(spark: SparkSession) -> tuple[int, int]:
    """Return how many rows and bytes the active stages have taken from an exchange."""
    store = jvm.STATUS_STORE(jvm.SPARK_CONTEXT(jvm.session_of(spark)))
    stages = [*jvm.items(jvm.ACTIVE_STAGES(store))]
    rows = sum(int(jvm.STAGE_ROWS(each)) for each in stages)
    return rows, sum(int(jvm.STAGE_BYTES(each)) for each in stages)
