"""When the join of two streams forgets.

What it is: a second look at what Spark decides for the state of a join.
What it promises: a side whose rows Spark would forget while they can still match is found. Spark
takes any comparison of the side's columns with the other side's event time for the bound, and then
applies it to the side's own event time, whatever column the comparison was about. And a side whose
rows without a match are to be told, which happens when they are forgotten, but never are.
What it must not know: what is done about it.
"""

import re
from collections.abc import Iterator

from py4j.java_gateway import JavaObject
from pyspark.sql import SparkSession

from ashore.spark.internals import jvm
from ashore.spark.internals.columns import watermarked
from ashore.spark.internals.planning import PlannedNode
from ashore.spark.internals.trees import Node, parse_tree

JOIN = "StreamingSymmetricHashJoinExec"
BY_VALUE = "StreamingSymmetricHashJoinHelper$JoinStateValueWatermarkPredicate"
# Which sides are told without a match: left, right.
OUTER = {"left outer": (True, False), "right outer": (False, True), "full outer": (True, True)}
ANY_TIME_US = 1 << 50  # what the watermark is plays no part; a number that Java takes for a long


def is_bounded(join: PlannedNode) -> bool:
    """Return whether Spark forgets rows of both sides."""
    return all(jvm.IS_DEFINED(each) for each in _predicates(join))


def join_type(join: Node) -> str:
    """Return `inner`, `left outer`, `left semi` and the like."""
    value = join.fields.get("joinType")
    name = str(value.get("object", "")) if isinstance(value, dict) else ""
    return " ".join(re.findall(r"[A-Z][a-z]+", name.rpartition(".")[2])).lower()


def is_silent(join: PlannedNode) -> bool:
    """Return whether rows without a match are wanted that never come."""
    wanted = OUTER.get(join_type(join.node), (False, False))
    told = [jvm.IS_DEFINED(each) for each in _predicates(join)]
    return any(want and not tell for want, tell in zip(wanted, told, strict=True))


def find_early(spark: SparkSession, join: PlannedNode) -> Iterator[Node]:
    """Yield the event time of each side whose rows are forgotten while they can still match."""
    condition = jvm.FULL_CONDITION(jvm.JOIN_CONDITION(join.java))
    sides = [child.java for child in join.children]
    for predicate, own, other in zip(_predicates(join), sides, reversed(sides), strict=True):
        if not jvm.IS_DEFINED(predicate) or jvm.class_name(jvm.OPTION_GET(predicate)) != BY_VALUE:
            continue
        column, theirs = watermarked(own)[0], watermarked(other)[0]
        bound = jvm.STATE_WATERMARK(
            spark,
            jvm.COLUMN_SET(spark, column),
            jvm.COLUMN_SET(spark, theirs),
            condition,
            jvm.SOME(spark, ANY_TIME_US),
        )
        if not jvm.IS_DEFINED(bound):
            yield parse_tree(jvm.TO_JSON(column))


def _predicates(join: PlannedNode) -> tuple[JavaObject, JavaObject]:
    predicates = jvm.WATERMARK_PREDICATES(join.java)
    return jvm.LEFT_PREDICATE(predicates), jvm.RIGHT_PREDICATE(predicates)
