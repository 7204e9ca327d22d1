"""State of a checkpoint as rows of bytes, read and written without a query.

What it is: Spark's own reader of state with its keys and values as they are stored, and its own
writer of whole stores; `reported_progress`, how far its tasks are while it reads or writes; and
`StatefulAggregate`, the step of a planned query that merges a batch into its state, run over rows
that are no batch: how what it keeps for its functions begins, and how two become one.
What it promises: no value is decoded, so that any operator's state can be moved. What is read is
only read. Progress is a hint, taken each half second, and only while the block runs. Spark's own
functions begin and merge; nothing here knows one of them.

The columns of such rows: `partition_key` (a struct: what Spark's exchange cuts by), `key_bytes`,
`value_bytes`, `column_family_name`.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from py4j.java_gateway import JavaObject
from pyspark.sql import Column, DataFrame, SparkSession

from ashore.errors import check
from ashore.jobs.events import Event, StateProgress
from ashore.topics.run.spark.internals import jvm
from ashore.topics.run.spark.internals.spark_version import require_known_spark

PARTITION_KEY = "partition_key"
KEY, VALUE, FAMILY = "key_bytes", "value_bytes", "column_family_name"
_PAUSE_S = 0.5  # between two looks at the tasks
StoreIds = dict[int, tuple[tuple[str, ...], ...]]  # by operator: by partition, then by store


@dataclass(frozen=True, slots=True)
class StateStores:
    """The stores of one name of an operator, in all partitions."""

    operator: int
    name: str


def list_state(spark: SparkSession, checkpoint: str) -> list[StateStores]:
    """Return the stores of a checkpoint, by the order of its operators."""
    found = spark.read.format("state-metadata").load(checkpoint)
    rows = found.select("operatorId", "stateStoreName").distinct().collect()
    return [
        StateStores(operator, name) for operator, name in sorted((row[0], row[1]) for row in rows)
    ]


def read_state(spark: SparkSession, checkpoint: str, batch: int, stores: StateStores) -> DataFrame:
    """Return the rows of stores at the end of a batch.

    Not guaranteed: partitions whose directory is missing are not missed.
    """
    options = {"storeName": stores.name, "_readAllColumnFamilies": "true"}
    return read_decoded(spark, checkpoint, batch, stores.operator, options)


def read_decoded(
    spark: SparkSession, checkpoint: str, batch: int, operator: int, options: Mapping[str, str]
) -> DataFrame:
    """Return the rows of an operator at the end of a batch, with keys and values decoded.

    The settings of `spark` have the format of the state. `options`: which of the rows, where an
    operator has several kinds.

    Not guaranteed: partitions whose directory is missing are not missed.
    """
    require_known_spark(spark)
    _have_coordinator(spark)
    which = {"path": checkpoint, "batchId": str(batch), "operatorId": str(operator)}
    return spark.read.format("statestore").options(**which, **options).load()


def rewrite_state(
    spark: SparkSession,
    source: str,
    target: str,
    batch: int,
    change: Callable[[DataFrame], DataFrame],
) -> StoreIds | None:
    """Write the state of a batch to another checkpoint; return its ids where the format has some.

    Requires: offsets of the batch, and what operators and schemas say, lie in the target, which
    has no state.

    The settings of `spark` have the format of the state; the batch is the same in both. `change`:
    returns the rows to write, of the same columns; row for row each task writes the store of its
    partition. Called once for the stores of each name of each operator.
    Raises SparkUnknown, and what Spark raises.
    """
    require_known_spark(spark)
    session = jvm.session_of(spark)
    _have_coordinator(spark)
    jvm.take_calls(spark)
    settings = jvm.NEW_HADOOP_SETTINGS(jvm.SESSION_STATE(session))
    rewriter = jvm.REWRITER(
        spark,
        session,
        batch,
        batch,
        target,
        settings,
        jvm.SOME(spark, source),
        jvm.SOME(spark, _Function(spark, change)),
        jvm.NOTHING(spark),
    )
    ids = jvm.REWRITE(rewriter)
    return _read_ids(jvm.OPTION_GET(ids)) if jvm.IS_DEFINED(ids) else None


def encode_struct(rows: DataFrame, column: str) -> Column:
    """Return the bytes of a struct in the form that state has.

    Requires: the rows come out of an exchange, or of `with_schema_of`: then they, and structs in
    them, are bytes already.
    """
    spark = rows.sparkSession
    nothing = jvm.TO_LIST(jvm.NOTHING(spark))
    bytes_of = jvm.OBJECT_TYPE(spark, jvm.FIND_CLASS(spark, jvm.UNSAFE_ROW))
    binary = jvm.TYPE_OF_DDL(spark, "binary")
    struct = jvm.expression_of(spark, rows[column])
    copied = jvm.INVOKE(spark, struct, "copy", bytes_of, nothing, nothing, True, True, True)
    encoded = jvm.INVOKE(spark, copied, "getBytes", binary, nothing, nothing, True, True, True)
    return Column(jvm.COLUMN_OF(spark, encoded))


def with_schema_of(rows: DataFrame, other: DataFrame) -> DataFrame:
    """Return rows whose columns are called as those of another frame, and may be NULL as they.

    Requires: they have the same types, and no NULL where the other has none.
    """
    spark = rows.sparkSession
    computed = jvm.TO_RDD(jvm.execution_of(rows))
    schema = jvm.SCHEMA(jvm.dataset_of(other))
    return DataFrame(jvm.FRAME_OF_ROWS(jvm.session_of(spark), computed, schema, False), spark)


def _have_coordinator(spark: SparkSession) -> None:
    """Let Spark make what each store reports to: it is made with the manager of queries."""
    jvm.STREAMS(jvm.session_of(spark))


class _Function:
    """A function of Python's, as Scala calls one."""

    def __init__(self, spark: SparkSession, change: Callable[[DataFrame], DataFrame]) -> None:
        self._spark = spark
        self._change = change

    def apply(self, rows: JavaObject) -> JavaObject:
        """Return what the function makes of a Dataset."""
        return jvm.dataset_of(self._change(DataFrame(rows, self._spark)))

    class Java:
        """What Py4J shows to the JVM."""

        implements: Any = ["scala.Function1"]  # noqa: RUF012 - as Py4J reads it


def _read_ids(ids: JavaObject) -> StoreIds:
    pairs = jvm.items(jvm.MAP_TO_LIST(ids))
    return {
        int(jvm.PAIR_FIRST(pair)): tuple(
            tuple(str(unique) for unique in stores) for stores in jvm.PAIR_SECOND(pair)
        )
        for pair in pairs
    }


# ---- progress of tasks


@contextmanager
def reported_progress(spark: SparkSession, send: Callable[[Event], None]) -> Iterator[None]:
    """Send how many tasks of the active stages are done, and what these have taken in."""
    done = threading.Event()

    def watch() -> None:
        last = None
        while not done.wait(_PAUSE_S):
            found = _read_progress(spark)
            if found is not None and found != last:
                last = found
                send(found)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


def _read_progress(spark: SparkSession) -> StateProgress | None:
    tracker = spark.sparkContext.statusTracker()
    stages = [tracker.getStageInfo(each) for each in tracker.getActiveStageIds()]
    there = [each for each in stages if each is not None]
    if not there:
        return None
    completed = sum(each.numCompletedTasks for each in there)
    total = sum(each.numTasks for each in there)
    return StateProgress(completed, total, *_count_taken(spark))


def _count_taken(spark: SparkSession) -> tuple[int, int]:
    """Return how many rows and bytes the active stages have taken from an exchange.

    Nothing waits: Spark counts a task's rows at its heartbeats and at its end.
    """
    store = jvm.STATUS_STORE(jvm.SPARK_CONTEXT(jvm.session_of(spark)))
    stages = [*jvm.items(jvm.ACTIVE_STAGES(store))]
    rows = sum(int(jvm.STAGE_ROWS(each)) for each in stages)
    return rows, sum(int(jvm.STAGE_BYTES(each)) for each in stages)


# ---- what aggregates keep for their functions

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
