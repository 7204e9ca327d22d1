"""Batches of a query planned without starting it, and one that is run over no rows.

What it is: Spark's own planner of micro-batches, called as a query's batches call it:
`plan_streaming`, `write_operators`, `check_state`, `run_empty_batch`.
What it promises: no query is started, and no source is read but those that are no streams, as a
join with a dimension has. Spark compares operators and schemas with those of a checkpoint, and
writes what it finds new into it: it has to be a copy of the caller's own.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from ashore.errors import check
from ashore.queries.spark.internals.state import StoreIds
from ashore.queries.state.layout import STATE, Settings
from ashore.topics.run.spark.internals import jvm
from ashore.topics.run.spark.internals.spark_version import require_known_spark

# Never created: only a first batch writes the schemas of its state.
NO_CHECKPOINT = "none"
# Each branch is planned for itself: a plan that says "as over there" has no columns to follow.
PLAIN_PLANS = {
    "spark.sql.exchange.reuse": "false",
    "spark.sql.adaptive.enabled": "false",
    # Of a long list of values, made a set, Spark writes none.
    "spark.sql.optimizer.inSetConversionThreshold": "2147483647",
}
_REFUSALS = re.compile(r"(?:STATE_STORE|STREAMING_STATEFUL_OPERATOR)_\w+")
_LONG_AGO_MS = -(10**14)  # of the watermark; Spark adds to it, so that it is not the least number
_UPDATED, _REMOVED = "numUpdatedStateRows", "numRemovedStateRows"


class OutputMode(StrEnum):
    """What a query hands to its sink."""

    APPEND = "append"
    UPDATE = "update"
    COMPLETE = "complete"


MODES = {
    OutputMode.APPEND: jvm.APPEND,
    OutputMode.UPDATE: jvm.UPDATE,
    OutputMode.COMPLETE: jvm.COMPLETE,
}


def plan_streaming(frame: DataFrame) -> JavaObject:
    """Return the physical plan of a batch of a streaming frame. Raises SparkUnknown."""
    check(frame.isStreaming, "expected a streaming DataFrame")
    batch = _Batch(frame=frame, state=NO_CHECKPOINT, is_emptied=False, compares=False)
    return jvm.EXECUTED_PLAN(batch.plan())


def write_state_schemas(frame: DataFrame, mode: str, checkpoint: str, like: Settings) -> JavaObject:
    """Write what the stateful operators of a query say of themselves, and the schemas of state.

    Returns the physical plan of the query. Its streams have no rows, as those of a batch: over what
    stands for a stream before there is a batch, Spark takes other columns for never NULL.

    Written below the address `checkpoint`, as of a first batch. Settings of `like`, with which a
    batch was planned, override those of the session.
    Raises SparkUnknown, and what Spark raises.
    """
    settings = Settings(conf=like.conf)
    batch = _Batch(frame=frame, mode=mode, state=f"{checkpoint}/{STATE}", settings=settings)
    return jvm.EXECUTED_PLAN(batch.plan())


def check_state(frame: DataFrame, mode: str, state: str, batch: int, settings: Settings) -> str:
    """Return the class of the error with which Spark refuses a state; empty: it accepts it.

    The next batch is planned, with the address of the directory `state` of a checkpoint, which is
    written. `settings`, with which the last batch was planned, override those of the session.
    Raises SparkUnknown; PySparkException, Py4JError where Spark fails in another way.
    """
    planned = _Batch(
        frame=frame, mode=mode, state=state, number=batch, settings=settings, is_plain=False
    ).plan()
    try:
        jvm.EXECUTED_PLAN(planned)
    except (PySparkException, Py4JError) as error:
        condition = error.getCondition() if isinstance(error, PySparkException) else None
        found = _REFUSALS.search(condition or "") or _REFUSALS.search(str(error))
        if found is None:
            raise
        return found[0]
    return ""


def run_empty_batch(
    frame: DataFrame, mode: str, checkpoint: str, settings: Settings, done: tuple[int, StoreIds]
) -> dict[int, int]:
    """Run a query's next batch over no rows; return how many rows of state each operator changed.

    Spark's own operators load each store as for a batch of a query. The watermark is before all
    times, so that nothing is forgotten.

    `checkpoint`: the address of a copy of the caller's own, which is written. `done`: the number of
    the last batch, and the ids of its stores; none in format 1.
    Raises SparkUnknown, and what Spark raises where it cannot continue with the state.
    """
    spark, (number, ids) = frame.sparkSession, done
    batch = _Batch(
        frame=frame,
        mode=mode,
        state=f"{checkpoint}/{STATE}",
        number=number + 1,
        settings=Settings(_LONG_AGO_MS, conf=settings.conf),
        watermarks=jvm.ONE_WATERMARK,
        ids=ids,
    )
    run = jvm.RANDOM_UUID(spark)
    execution = batch.plan(run)
    try:
        jvm.RDD_COUNT(jvm.TO_RDD(execution))
    finally:
        coordinator = jvm.STATE_COORDINATOR(jvm.STREAMS(jvm.session_of(spark)))
        jvm.FORGET_STORES(coordinator, run)
    return dict(_changed(jvm.EXECUTED_PLAN(execution)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Batch:
    """A batch of a query, in a copy of its session: the session itself stays as it is."""

    frame: DataFrame
    mode: str = OutputMode.APPEND
    state: str  # the address of the directory `state`
    number: int = 0
    settings: Settings = field(default_factory=Settings)  # which override those of the session
    is_plain: bool = True  # whether each branch is planned for itself
    # whether its streams have no rows, as in a batch to which nothing has come
    is_emptied: bool = True
    # whether Spark compares operators and schemas with `state`, and writes them
    compares: bool = True
    watermarks: jvm.Static = jvm.NO_WATERMARKS  # how operators get theirs
    ids: StoreIds = field(default_factory=dict)  # of the stores that the batch continues with

    def plan(self, run: JavaObject | None = None) -> JavaObject:
        """Return how Spark would run it. `run`: the id of its run. Raises SparkUnknown."""
        spark = self.frame.sparkSession
        require_known_spark(spark)
        session = jvm.CLONE_SESSION(jvm.session_of(spark))
        for name, value in {**self.settings.conf, **(PLAIN_PLANS if self.is_plain else {})}.items():
            jvm.SET(jvm.SESSION_SETTINGS(session), name, value)
        plan = jvm.analyzed_plan(self.frame)
        return jvm.PLAN_INCREMENTALLY(
            spark,
            session,
            _emptied(spark, plan) if self.is_emptied else plan,
            MODES[OutputMode(self.mode)](spark),
            self.state,
            jvm.RANDOM_UUID(spark),
            run or jvm.RANDOM_UUID(spark),
            self.number,
            jvm.NOTHING(spark),
            jvm.OFFSETS_FROM_JSON(spark, self.settings.write()),
            self.watermarks(spark),
            self.compares,
            _write_ids(spark, self.ids),
            jvm.NO_STATE_SCHEMAS(spark),
            jvm.DEFAULT_EMISSION(spark),
            False,
        )


def _emptied(spark: SparkSession, plan: JavaObject) -> JavaObject:
    """Return a logical plan whose streams have no rows."""
    children = [*jvm.items(jvm.CHILDREN(plan))]
    if not children:
        if not jvm.IS_STREAMING(plan):
            return plan
        nothing = jvm.TO_LIST(jvm.NOTHING(spark))
        columns = jvm.PLAN_OUTPUT(plan)
        return jvm.LOCAL_RELATION(spark, columns, nothing, True, jvm.NOTHING(spark))
    made = [_emptied(spark, each) for each in children]
    return jvm.WITH_CHILDREN(plan, jvm.SEQ_OF(spark, made))


def _write_ids(spark: SparkSession, ids: StoreIds) -> JavaObject:
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
