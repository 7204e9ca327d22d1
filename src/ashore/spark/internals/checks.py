"""Whether a frame may be run as a stream.

What it is: Spark's own check and planner, and what they let through: a query that fails with its
first batch, and one that silently loses rows.
What it promises: nothing is started. What passes may still be refused by a source or a sink.
What it must not know: who asks; where rows go.
"""

from collections.abc import Iterator

from pyspark.sql import DataFrame

from ashore.errors import QueryRefused
from ashore.spark.internals import jvm
from ashore.spark.internals.joins import JOIN, find_early, is_silent, join_type
from ashore.spark.internals.lineage import Lineage, learn_lineage
from ashore.spark.internals.operators import GROUPED, describe_planned
from ashore.spark.internals.planning import OutputMode, PlannedNode, plan_streaming
from ashore.spark.internals.refusals import UPSERT
from ashore.spark.internals.sources import find_columns
from ashore.spark.internals.version import require_known_spark

MODES = {
    OutputMode.APPEND: jvm.APPEND,
    OutputMode.UPDATE: jvm.UPDATE,
    OutputMode.COMPLETE: jvm.COMPLETE,
}
BOUND = "`AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 1 HOUR`"


def check_streaming(frame: DataFrame, mode: str) -> None:
    """Refuse what cannot be run as a stream, or not rightly.

    Raises AnalysisException, for `explain_refusal`; QueryRefused, for what Spark would accept;
    SparkUnknown.
    """
    spark = frame.sparkSession
    require_known_spark(spark)
    java_mode = MODES[OutputMode(mode)](spark)
    jvm.CHECK_FOR_STREAMING(spark, jvm.analyzed_plan(frame), java_mode)
    plan = plan_streaming(frame)  # some shapes pass the check, and the planner refuses them
    lineage = learn_lineage(plan.node, find_columns(frame))
    if mode == OutputMode.APPEND:
        _refuse_endless(plan, lineage)
    for join in _joins(plan):
        if is_silent(join):
            _refuse_silent(join_type(join.node))
        for column in find_early(spark, join):
            _refuse_early(lineage.qualified().describe(column))


def _refuse_endless(plan: PlannedNode, lineage: Lineage) -> None:
    """Spark's check is content with event time anywhere below; the first batch is not."""
    for operator in describe_planned(plan, lineage):
        if operator.kind in GROUPED and not operator.is_bounded:
            raise QueryRefused(
                f"rows of `{operator.name}` are appended once they are final, and none ever is: "
                "no watermark passes these keys",
                hint="group by the window itself, not by its start or end: a column that is "
                f"computed from event time has no watermark; or {UPSERT}",
            )


def _refuse_silent(how: str) -> None:
    """Spark's check is content with a bound by any column; what forgets is not."""
    raise QueryRefused(
        f"a {how} join tells rows without a match once it forgets them, and it never would: it is "
        "bounded by a column without a watermark",
        hint=f"bound it by the columns that have one: {BOUND}",
    )


def _refuse_early(column: str) -> None:
    raise QueryRefused(
        f"Spark would forget rows of a join while they can still match: the join is bounded by "
        f"another column than {column}, and rows are forgotten by {column}",
        hint=f"bound it by {column} as well, by the longest time that a match can take: {BOUND}",
    )


def _joins(planned: PlannedNode) -> Iterator[PlannedNode]:
    if planned.node.kind == JOIN:
        yield planned
    for child in planned.children:
        yield from _joins(child)
