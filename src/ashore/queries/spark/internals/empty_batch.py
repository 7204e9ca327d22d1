"""A batch of a query over no rows: Spark loads all of a state, and changes nothing of it.

What it is: `run_empty_batch`.
What it promises: no source is read but those that are no streams, as a join with a dimension has.
Spark's own operators load each store as for a batch of a query, after they have compared names and
types with those of the checkpoint. The watermark is before all times, so that nothing is forgotten.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame, SparkSession

from ashore.queries.spark.internals.planning import MODES, OutputMode, emptied, plain_session
from ashore.queries.spark.internals.state import StoreIds
from ashore.queries.state.layout import STATE, Settings
from ashore.topics.run.spark.internals import jvm
from ashore.topics.run.spark.internals.version import require_known_spark

_LONG_AGO_MS = -(10**14)  # of the watermark; Spark adds to it, so that it is not the least number
_UPDATED, _REMOVED = "numUpdatedStateRows", "numRemovedStateRows"


@dataclass(frozen=True, slots=True)
class LoadedState:
    """What a checkpoint holds.

    Arguments:
        uri: the checkpoint, which is written: a copy of the caller's own.
        batch: the last one that is done in it.
        settings: with which that was planned.
        ids: of its stores, in format 2; empty in format 1.

    """

    uri: str
    batch: int
    settings: Settings
    ids: StoreIds


def run_empty_batch(frame: DataFrame, mode: str, state: LoadedState) -> dict[int, int]:
    """Run a query's next batch over no rows; return how many rows of state each operator changed.

    Raises SparkUnknown, and what Spark raises where it cannot continue with the state.
    """
    spark = frame.sparkSession
    require_known_spark(spark)
    run = jvm.RANDOM_UUID(spark)
    execution = jvm.PLAN_INCREMENTALLY(
        spark,
        plain_session(spark, state.settings),
        emptied(spark, jvm.analyzed_plan(frame)),
        MODES[OutputMode(mode)](spark),
        f"{state.uri}/{STATE}",
        jvm.RANDOM_UUID(spark),
        run,
        state.batch + 1,
        jvm.NOTHING(spark),
        jvm.OFFSETS_FROM_JSON(spark, Settings(_LONG_AGO_MS, conf=state.settings.conf).write()),
        jvm.ONE_WATERMARK(spark),
        True,  # of this run: then Spark compares operators and schemas
        _ids(spark, state.ids),
        jvm.NO_STATE_SCHEMAS(spark),
        jvm.DEFAULT_EMISSION(spark),
        False,
    )
    try:
        jvm.RDD_COUNT(jvm.TO_RDD(execution))
    finally:
        coordinator = jvm.STATE_COORDINATOR(jvm.STREAMS(jvm.session_of(spark)))
        jvm.FORGET_STORES(coordinator, run)
    return dict(_changed(jvm.EXECUTED_PLAN(execution)))


def _ids(spark: SparkSession, ids: StoreIds) -> JavaObject:
    found = jvm.NO_CHECKPOINT_IDS(spark)
    text, texts = "java.lang.String", "[Ljava.lang.String;"
    for operator, partitions in ids.items():
        stores = [jvm.array_of(spark, text, each) for each in partitions]
        jvm.MAP_PUT(found, jvm.LONG(spark, str(operator)), jvm.array_of(spark, texts, stores))
    return found


def _changed(plan: JavaObject) -> Iterator[tuple[int, int]]:
    waiting = [plan]
    while waiting:
        node = waiting.pop()
        waiting += jvm.items(jvm.CHILDREN(node))
        metrics = jvm.NODE_METRICS(node)
        found = [jvm.MAP_GET(metrics, name) for name in (_UPDATED, _REMOVED)]
        if all(jvm.IS_DEFINED(each) for each in found):
            info = jvm.OPTION_GET(jvm.STATE_INFO(node))
            values = (jvm.METRIC_VALUE(jvm.OPTION_GET(each)) for each in found)
            yield int(jvm.STATE_OPERATOR_ID(info)), sum(map(int, values))
