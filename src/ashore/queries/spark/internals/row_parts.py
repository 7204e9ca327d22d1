"""The part of a query that is computed row by row: what stands below its operators with state.

What it is: `read_row_parts`, from a batch frame over views of topics to frames that compute, of
each record, what a stream computes of it before state: filters, casts, keys and arguments of
aggregates, keys of joins.
What it promises: a row of such a frame comes of one record, so that a part of a batch fails only if
one of its records does. Spark has optimised the whole query before it is cut: what no output needs
is not computed here either. An operator that is not known ends the part below it.
"""

from collections.abc import Iterator

from py4j.java_gateway import JavaObject
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from ashore.topics.run.spark.internals import jvm
from ashore.topics.run.spark.internals.spark_version import require_known_spark

# A view of a topic counts its records; SQL cannot say this, so that what reads topics has it below.
_READS_TOPIC = "CollectMetrics"
_ROW_BY_ROW = {
    *("ArrowEvalPython", "BatchEvalPython", "CollectMetrics", "Expand", "Filter", "Generate"),
    *("Project", "RebalancePartitions", "Repartition", "RepartitionByExpression", "Union"),
}
_JOIN = "Join"
_EQUALS = {"EqualTo", "EqualNullSafe"}


def read_row_parts(frame: DataFrame) -> list[DataFrame]:
    """Return what is computed row by row, from each topic up to the first state. Lazy.

    `frame`: over views of topics that are no streams; Spark must not know one of them as empty, or
    it leaves out what is joined with it. Raises SparkUnknown.
    """
    spark = frame.sparkSession
    require_known_spark(spark)
    plan = jvm.OPTIMIZED(jvm.execution_of(frame))
    return [
        _select(spark, rows, [] if operator is None else _taken(spark, operator, rows))
        for rows, operator in _find(plan)
    ]


def _find(plan: JavaObject) -> Iterator[tuple[JavaObject, JavaObject | None]]:
    """Yield the largest plans without state that read topics, each with the operator above it.

    None: there is none, or it takes rows as they are.
    """
    if not _reads_topic(plan):
        return
    inputs = [each for each in jvm.items(jvm.CHILDREN(plan)) if _reads_topic(each)]
    if not _keeps_state(plan):
        yield plan, None
        return
    is_first = _is_state(plan)
    for each in inputs:
        if _keeps_state(each):
            yield from _find(each)
        else:
            yield each, plan if is_first else None


def _reads_topic(plan: JavaObject) -> bool:
    return jvm.class_name(plan) == _READS_TOPIC or any(
        _reads_topic(each) for each in jvm.items(jvm.CHILDREN(plan))
    )


def _keeps_state(plan: JavaObject) -> bool:
    """Return whether a row of a plan may come of several records."""
    return _is_state(plan) or any(
        _keeps_state(each) for each in jvm.items(jvm.CHILDREN(plan)) if _reads_topic(each)
    )


def _is_state(plan: JavaObject) -> bool:
    inputs = [each for each in jvm.items(jvm.CHILDREN(plan)) if _reads_topic(each)]
    kind = jvm.class_name(plan)
    if kind == _JOIN:
        return len(inputs) > 1  # with a table it is one record and one row at a time
    return bool(inputs) and kind not in _ROW_BY_ROW


# ---- what an operator takes in


def _taken(spark: SparkSession, operator: JavaObject, rows: JavaObject) -> list[Column]:
    """Return what an operator with state computes of rows of one of its inputs."""
    match jvm.class_name(operator):
        case "Aggregate":
            keys = [_column(spark, each) for each in jvm.items(jvm.GROUPING(operator))]
            named = jvm.items(jvm.AGGREGATED(operator))
            return [*keys, *(each for name in named for each in _arguments(spark, name))]
        case "Join":
            condition = jvm.LOGICAL_JOIN_CONDITION(operator)
            if not jvm.IS_DEFINED(condition):
                return []
            sides = _sides(jvm.OPTION_GET(condition))
            return [_column(spark, each) for each in sides if _is_of(each, rows)]
        case _:
            return []


def _arguments(spark: SparkSession, expression: JavaObject) -> Iterator[Column]:
    """Yield what the functions of an aggregate take in: a filter decides of which rows."""
    if jvm.class_name(expression) != "AggregateExpression":
        for each in jvm.items(jvm.CHILDREN(expression)):
            yield from _arguments(spark, each)
        return
    condition = jvm.AGGREGATE_FILTER(expression)
    for each in jvm.items(jvm.CHILDREN(jvm.AGGREGATE_FUNCTION(expression))):
        column = _column(spark, each)
        if jvm.IS_DEFINED(condition):
            column = F.when(_column(spark, jvm.OPTION_GET(condition)), column)
        yield column


def _sides(condition: JavaObject) -> Iterator[JavaObject]:
    """Yield the conditions of a join, of equations both sides."""
    kind = jvm.class_name(condition)
    if kind == "And" or kind in _EQUALS:
        for each in jvm.items(jvm.CHILDREN(condition)):
            yield from _sides(each)
    else:
        yield condition


def _is_of(expression: JavaObject, rows: JavaObject) -> bool:
    return bool(jvm.SUBSET_OF(jvm.REFERENCES(expression), jvm.OUTPUT_SET(rows)))


def _column(spark: SparkSession, expression: JavaObject) -> Column:
    return Column(jvm.COLUMN_OF(spark, expression))


def _select(spark: SparkSession, rows: JavaObject, taken: list[Column]) -> DataFrame:
    """Return rows of a plan with all columns, and what is taken of them, each under a new name."""
    frame = DataFrame(jvm.DATASET_OF(spark, jvm.session_of(spark), rows), spark)
    columns = [_column(spark, each) for each in jvm.items(jvm.PLAN_OUTPUT(rows))]
    return frame.select(*(each.alias(f"_{place}") for place, each in enumerate([*columns, *taken])))
