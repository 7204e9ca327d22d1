"""Plans of streaming frames, made without starting a query.

What it is: Spark's own planner of micro-batches, called as a query's batches call it.
What it promises: no query runs, no source is read, nothing is written.
What it must not know: what operators are called.
"""

from dataclasses import dataclass
from enum import StrEnum

from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame, SparkSession

from ashore.errors import check
from ashore.spark.internals import jvm
from ashore.spark.internals.trees import Node, parse_tree
from ashore.spark.internals.version import require_known_spark

NO_OFFSETS = '{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{}}'
# Never created: only a first batch writes the schemas of its state.
NO_CHECKPOINT = "none"


# Each branch is planned for itself: a plan that says "as over there" has no columns to follow.
PLAIN_PLANS = {"spark.sql.exchange.reuse": "false", "spark.sql.adaptive.enabled": "false"}


class OutputMode(StrEnum):
    """What a query hands to its sink."""

    APPEND = "append"
    UPDATE = "update"
    COMPLETE = "complete"


@dataclass(frozen=True, slots=True)
class PlannedNode:
    """A node of a physical plan: what Spark writes of it, and the object itself."""

    node: Node
    java: JavaObject
    children: tuple["PlannedNode", ...]


def plan_streaming(frame: DataFrame) -> PlannedNode:
    """Return the physical plan of a batch of a streaming frame. Raises SparkUnknown."""
    spark = frame.sparkSession
    require_known_spark(spark)
    check(frame.isStreaming, "only a streaming frame is planned here")
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
    physical = jvm.EXECUTED_PLAN(execution)
    return _pair(parse_tree(jvm.TO_JSON(physical)), physical)


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
        jvm.OFFSETS_FROM_JSON(spark, NO_OFFSETS),
        jvm.NO_WATERMARKS(spark),
        False,
        jvm.NO_CHECKPOINT_IDS(spark),
        jvm.NO_STATE_SCHEMAS(spark),
        jvm.DEFAULT_EMISSION(spark),
        False,
    )


def _pair(node: Node, java: JavaObject) -> PlannedNode:
    java_children = list(jvm.items(jvm.CHILDREN(java)))
    kind = jvm.class_name(java)
    check(
        kind == node.kind and len(java_children) == len(node.children),
        f"Spark writes {node.kind} of a {kind} with {len(java_children)} children",
    )
    pairs = zip(node.children, java_children, strict=True)
    return PlannedNode(node, java, tuple(_pair(*each) for each in pairs))
