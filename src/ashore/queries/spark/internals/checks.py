"""Whether a frame may be run as a stream.

What it is: Spark's own check and planner, and what they let through.
What it promises: nothing is started. What passes may still be refused by a source or a sink.
"""

from pyspark.sql import DataFrame

from ashore.plans.checks import check_graph
from ashore.plans.graph import PlanGraph
from ashore.queries.spark.internals.planning import MODES, OutputMode
from ashore.queries.spark.internals.reading import read_plan
from ashore.topics.run.spark.internals import jvm
from ashore.topics.run.spark.internals.version import require_known_spark


def check_streaming(frame: DataFrame, mode: str) -> PlanGraph:
    """Return what a frame does. Refuse what cannot be run as a stream, or not rightly.

    Raises AnalysisException, for `explain_refusal`; QueryRefused, for what Spark would accept;
    SparkUnknown.
    """
    spark = frame.sparkSession
    require_known_spark(spark)
    java_mode = MODES[OutputMode(mode)](spark)
    jvm.CHECK_FOR_STREAMING(spark, jvm.analyzed_plan(frame), java_mode)
    graph = read_plan(frame)  # some shapes pass the check, and the planner refuses them
    check_graph(graph, appends=mode == OutputMode.APPEND)
    return graph
