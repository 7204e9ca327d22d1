"""Whether columns of a result tell its groups apart.

What it promises: nothing is started. A key that the columns do not tell is found; one that they
tell by a formula only is taken for one that they do not.
What it must not know: what the columns are for.
"""

from collections.abc import Sequence

from pyspark.sql import DataFrame

from ashore.spark.internals import jvm
from ashore.spark.internals.columns import parse_columns
from ashore.spark.internals.lineage import learn_lineage
from ashore.spark.internals.operators import GROUPED, describe_planned
from ashore.spark.internals.planning import plan_streaming
from ashore.spark.internals.sources import find_columns


def find_hidden_keys(frame: DataFrame, columns: Sequence[str]) -> tuple[str, ...] | None:
    """Return what an aggregate of a frame groups by and `columns` do not tell.

    Where there is some, rows of one batch may be equal in all of the columns. None where nothing
    is aggregated. Raises SparkUnknown.
    """
    plan = plan_streaming(frame)
    lineage = learn_lineage(plan.node, find_columns(frame)).qualified()
    described = {
        column.text("name"): lineage.describe(column)
        for column in parse_columns(jvm.PLAN_OUTPUT(plan.java))
    }
    told = {described[name] for name in columns if name in described}
    grouped = [each for each in describe_planned(plan, lineage) if each.kind in GROUPED]
    if not grouped:
        return None
    keys = (key for operator in grouped for key in operator.keys)
    return tuple(key for key in keys if not told & {key, f"start of {key}", f"end of {key}"})
