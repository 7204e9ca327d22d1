"""Plans of streaming frames, made without starting a query.

What it is: Spark's own planner of micro-batches, called as a query's batches call it.
What it promises: no query runs and no source is read; nothing is written but by
`write_operators`, to the directory that it is given.
"""

from enum import StrEnum

from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame, SparkSession

from ashore.errors import check
from ashore.queries.state.layout import STATE, Settings
from ashore.topics.run.spark.internals import jvm
from ashore.topics.run.spark.internals.version import require_known_spark

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


MODES = {
    OutputMode.APPEND: jvm.APPEND,
    OutputMode.UPDATE: jvm.UPDATE,
    OutputMode.COMPLETE: jvm.COMPLETE,
}


def plan_streaming(frame: DataFrame) -> JavaObject:
    """Return the physical plan of a batch of a streaming frame. Raises SparkUnknown."""
    spark = frame.sparkSession
    require_known_spark(spark)
    check(frame.isStreaming, "expected a streaming DataFrame")
    return _plan(frame, OutputMode.APPEND, NO_CHECKPOINT, Settings(), writes=False)


def write_operators(frame: DataFrame, mode: str, checkpoint: str, like: Settings) -> JavaObject:
    """Write what the stateful operators of a query say of themselves, and the schemas of state.

    Returns the physical plan of the query. Its streams have no rows, as those of a batch: over what
    stands for a stream before there is a batch, Spark takes other columns for never NULL.

    Arguments:
        frame: of the query.
        mode: in which it runs.
        checkpoint: the address that it is written below, as of a first batch.
        like: what a batch was planned with: its settings override those of the session.

    Raises SparkUnknown, and what Spark raises.

    """
    require_known_spark(frame.sparkSession)
    return _plan(frame, OutputMode(mode), f"{checkpoint}/{STATE}", like, writes=True)


def _plan(
    frame: DataFrame, mode: OutputMode, checkpoint: str, like: Settings, *, writes: bool
) -> JavaObject:
    spark, plan = frame.sparkSession, jvm.analyzed_plan(frame)
    execution = jvm.PLAN_INCREMENTALLY(
        spark,
        plain_session(spark, like),
        emptied(spark, plan) if writes else plan,
        MODES[mode](spark),
        checkpoint,
        jvm.RANDOM_UUID(spark),
        jvm.RANDOM_UUID(spark),
        0,
        *_first_batch(spark, like, writes=writes),
    )
    return jvm.EXECUTED_PLAN(execution)


def plain_session(spark: SparkSession, like: Settings) -> JavaObject:
    """Return a copy of the session that plans plainly. The session itself stays as it is."""
    session = jvm.CLONE_SESSION(jvm.session_of(spark))
    for name, value in {**like.conf, **PLAIN_PLANS}.items():
        jvm.SET(jvm.SESSION_SETTINGS(session), name, value)
    return session


def emptied(spark: SparkSession, plan: JavaObject) -> JavaObject:
    """Return a logical plan whose streams have no rows, as in a batch to which nothing has come."""
    children = [*jvm.items(jvm.CHILDREN(plan))]
    if not children:
        if not jvm.IS_STREAMING(plan):
            return plan
        nothing = jvm.TO_LIST(jvm.NOTHING(spark))
        columns = jvm.PLAN_OUTPUT(plan)
        return jvm.LOCAL_RELATION(spark, columns, nothing, True, jvm.NOTHING(spark))
    made = [emptied(spark, each) for each in children]
    return jvm.WITH_CHILDREN(plan, jvm.SEQ_OF(spark, made))


def _first_batch(spark: SparkSession, like: Settings, *, writes: bool) -> tuple[object, ...]:
    """Return the arguments that say where a query is: before its first batch."""
    return (
        jvm.NOTHING(spark),
        jvm.OFFSETS_FROM_JSON(spark, Settings(conf=like.conf).write()),
        jvm.NO_WATERMARKS(spark),
        writes,
        jvm.NO_CHECKPOINT_IDS(spark),
        jvm.NO_STATE_SCHEMAS(spark),
        jvm.DEFAULT_EMISSION(spark),
        False,
    )
