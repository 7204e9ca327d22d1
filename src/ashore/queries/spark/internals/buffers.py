"""What Spark's aggregates keep for their functions: how it begins, and how two become one.

What it is: `StatefulAggregate`, the step of a planned query that merges a batch into its state, run
over rows that are no batch.
What it promises: Spark's own functions begin and merge; nothing here knows one of them.
"""

from dataclasses import dataclass

from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame, SparkSession

from ashore.errors import check
from ashore.topics.run.spark.internals import jvm

_SAVES = {"StateStoreSaveExec", "SessionWindowStateStoreSaveExec"}
_SESSIONS = "MergingSessionsExec"


@dataclass(frozen=True, slots=True)
class StatefulAggregate:
    """The step of a query that merges values with those of its state.

    `plan`: Spark's node; rows have its keys, then what it keeps for each function.
    """

    plan: JavaObject

    def begin(self, like: DataFrame) -> DataFrame:
        """Return one row: what it keeps before its first row.

        `like`: a frame with the columns that it keeps, without keys.
        """
        spark = like.sparkSession
        nothing = jvm.TO_LIST(jvm.NOTHING(spark))
        buffers = jvm.OWN_BUFFERS(self.plan)
        # Spark must not see that there are no rows: it would plan no task at all.
        none = spark.range(0, 1, 1, 1).where("id < 0")
        rows = jvm.TO_RDD(jvm.execution_of(none))
        whole = self._aggregate(spark, nothing, buffers, rows)
        return _frame(spark, whole, like)

    def merge(self, rows: DataFrame) -> DataFrame:
        """Return one row for each key of a partition, merged.

        Requires: rows of one key lie in one partition. Its rows are sorted here.
        """
        spark = rows.sparkSession
        keys = jvm.GROUPED(self.plan)
        columns = rows.columns[: jvm.SEQ_SIZE(keys)]
        ordered = rows.sortWithinPartitions(*columns) if columns else rows
        output = jvm.PLAN_OUTPUT(jvm.ONLY_CHILD(self.plan))
        check(jvm.SEQ_SIZE(output) == len(rows.columns), "rows are not those of the aggregate")
        taken = jvm.TO_RDD(jvm.execution_of(ordered))
        merged = self._aggregate(spark, keys, output, taken)
        return _frame(spark, merged, rows)

    def _aggregate(
        self, spark: SparkSession, keys: JavaObject, columns: JavaObject, rows: JavaObject
    ) -> JavaObject:
        """Return Spark's aggregate over rows of these columns, of which the first are keys."""
        return jvm.SORT_AGGREGATE(
            spark,
            jvm.NOTHING(spark),
            False,
            jvm.NOTHING(spark),
            keys,
            jvm.BASE_AGGREGATES(self.plan),
            jvm.AGGREGATE_ATTRIBUTES(self.plan),
            jvm.SEQ_SIZE(keys),
            columns,
            _scan(spark, columns, rows),
        )


def find_aggregates(plan: JavaObject) -> dict[int, StatefulAggregate]:
    """Return the aggregates of a planned query that keep state, by the numbers of their state."""
    found: dict[int, StatefulAggregate] = {}
    waiting = [plan]
    while waiting:
        node = waiting.pop()
        children = [*jvm.items(jvm.CHILDREN(node))]
        if jvm.class_name(node) in _SAVES:
            info = jvm.OPTION_GET(jvm.STATE_INFO(node))
            found[int(jvm.STATE_OPERATOR_ID(info))] = StatefulAggregate(_merging(children[0]))
        waiting += children
    return found


def _merging(node: JavaObject) -> JavaObject:
    """Return the aggregate below the node that saves its state."""
    while not jvm.class_name(node).endswith(("AggregateExec", _SESSIONS)):
        (node,) = jvm.items(jvm.CHILDREN(node))
    return node


def _scan(spark: SparkSession, output: JavaObject, rows: JavaObject) -> JavaObject:
    return jvm.SCAN_OF_ROWS(
        spark,
        output,
        rows,
        "state",
        jvm.ANY_PARTITIONING(spark),
        jvm.ANY_ORDER(spark),
        jvm.NOTHING(spark),
    )


def _frame(spark: SparkSession, plan: JavaObject, like: DataFrame) -> DataFrame:
    schema = jvm.SCHEMA(jvm.dataset_of(like))
    rows = jvm.EXECUTE(plan)
    return DataFrame(jvm.FRAME_OF_ROWS(jvm.session_of(spark), rows, schema, False), spark)
