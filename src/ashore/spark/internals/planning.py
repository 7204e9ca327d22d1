"""Plans of streaming frames, made without starting a query.

What it is: Spark's own planner of micro-batches, called as a query's batches call it.
What it promises: no query runs, no source is read, nothing is written.
What it must not know: what operators are called.
"""

from enum import StrEnum

from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame, SparkSession

from ashore.checkpoints.layout import Settings
from ashore.errors import check
from ashore.spark.internals import jvm
from ashore.spark.internals.version import require_known_spark

# Never created: only a first batch writes the schemas of its state.
NO_CHECKPOINT = "none"


# Each branch is planned for itself: a plan that says "as over there" has no columns to follow.
PLAIN_PLANS = {
    "spark.sql.exchange.reuse": "false",
    "spark.sql.adaptive.enabled": "false",
    # Of a long list of values, made a set, Spark writes none.
    "spark.sql.optimizer.inSetConversionThreshold": "2147483647",
}


class OutputMode(StrEnum):
    """What a query hands to its sink."""

    APPEND = "append"
    UPDATE = "update"
    COMPLETE = "complete"


def plan_streaming(frame: DataFrame) -> JavaObject:
    """Return the physical plan of a batch of a streaming frame. Raises SparkUnknown."""
    spark = frame.sparkSession
    require_known_spark(spark)
    check(frame.isStreaming, "expected a streaming DataFrame")
    execution = jvm.PLAN_INCREMENTALLY(
        spark,
        _plain_session(spark),
        jvm.analyzed_plan(frame),
        jvm.APPEND(spark),
        NO_CHECKPOINT,
        jvm.RANDOM_UUID(spark),
        jvm.RANDOM_UUID(spark),
        0,
        *_first_batch(spark),
    )
    return jvm.EXECUTED_PLAN(execution)


def _plain_session(spark: SparkSession) -> JavaObject:
    """Return a copy of the session that plans plainly. The session itself stays as it is."""
    session = jvm.CLONE_SESSION(jvm.session_of(spark))
    for name, value in PLAIN_PLANS.items():
        jvm.SET(jvm.SESSION_SETTINGS(session), name, value)
    return session


def _first_batch(spark: SparkSession) -> tuple[object, ...]:
    """Return the arguments that say where a query is: before its first batch."""
    return (
        jvm.NOTHING(spark),
        jvm.OFFSETS_FROM_JSON(spark, Settings().write()),
        jvm.NO_WATERMARKS(spark),
        False,
        jvm.NO_CHECKPOINT_IDS(spark),
        jvm.NO_STATE_SCHEMAS(spark),
        jvm.DEFAULT_EMISSION(spark),
        False,
    )
