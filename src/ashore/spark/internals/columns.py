"""Columns of physical plans.

What it promises: values, but for `watermarked`, which hands on what Spark is asked about again.
What it must not know: operators.
"""

from py4j.java_gateway import JavaObject
from pyspark.sql.types import StructType

from ashore.spark.internals import jvm
from ashore.spark.internals.trees import Node, parse_tree

WATERMARK = "spark.watermarkDelayMs"  # of the metadata of a column


def parse_columns(attributes: JavaObject) -> list[Node]:
    """Return a Scala sequence of attributes as values."""
    return [parse_tree(jvm.TO_JSON(each)) for each in jvm.items(attributes)]


def type_of(column: Node) -> str:
    """Return the type of a column as SQL writes it."""
    written = {"name": "column", "type": column.fields["dataType"], "nullable": True}
    struct = StructType.fromJson({"fields": [{**written, "metadata": {}}]})
    return str(struct.fields[0].dataType.simpleString())


def watermarked(plan: JavaObject) -> list[JavaObject]:
    """Return the columns of a plan's output that are event time with a watermark."""
    return [
        column
        for column in jvm.items(jvm.PLAN_OUTPUT(plan))
        if jvm.HAS_METADATA(jvm.COLUMN_METADATA(column), WATERMARK)
    ]
