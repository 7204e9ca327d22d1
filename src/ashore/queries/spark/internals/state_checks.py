"""Spark's own comparison of a query with the state that it would continue with.

What it is: `check_state`: the first batch of a restart is planned, and none is run. On the way
Spark compares operators and schemas with those that the checkpoint has.
What it promises: no query is started and no source is read. Spark writes what it finds to be the
new schemas into the checkpoint: it has to be a copy of the caller's own.
"""

import re

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from ashore.queries.spark.internals.planning import MODES, OutputMode, emptied
from ashore.queries.state.layout import Settings
from ashore.topics.run.spark.internals import jvm
from ashore.topics.run.spark.internals.version import require_known_spark

_REFUSALS = re.compile(r"(?:STATE_STORE|STREAMING_STATEFUL_OPERATOR)_\w+")


def check_state(frame: DataFrame, mode: str, state: str, batch: int, settings: Settings) -> str:
    """Return the class of the error with which Spark refuses a state; empty: it accepts it.

    Arguments:
        frame: what the query selects, in its session.
        mode: what it hands to its sink; see OutputMode.
        state: the address of the directory `state` of a checkpoint. It is written.
        batch: that would be the next; it is planned.
        settings: with which the last batch was planned: they win over those of the session.

    Raises SparkUnknown; PySparkException, Py4JError where Spark fails in another way.

    """
    spark = frame.sparkSession
    require_known_spark(spark)
    session = jvm.CLONE_SESSION(jvm.session_of(spark))
    for name, value in settings.conf.items():
        jvm.SET(jvm.SESSION_SETTINGS(session), name, value)
    execution = jvm.PLAN_INCREMENTALLY(
        spark,
        session,
        emptied(spark, jvm.analyzed_plan(frame)),
        MODES[OutputMode(mode)](spark),
        state,
        jvm.RANDOM_UUID(spark),
        jvm.RANDOM_UUID(spark),
        batch,
        jvm.NOTHING(spark),
        jvm.OFFSETS_FROM_JSON(spark, settings.write()),
        jvm.NO_WATERMARKS(spark),
        True,  # of this run: then Spark compares
        jvm.NO_CHECKPOINT_IDS(spark),
        jvm.NO_STATE_SCHEMAS(spark),
        jvm.DEFAULT_EMISSION(spark),
        False,
    )
    try:
        jvm.EXECUTED_PLAN(execution)
    except (PySparkException, Py4JError) as error:
        condition = error.getCondition() if isinstance(error, PySparkException) else None
        found = _REFUSALS.search(condition or "") or _REFUSALS.search(str(error))
        if found is None:
            raise
        return found[0]
    return ""
