"""State loaded by Spark, each store of it: a check whether a query can continue with it.

What it is: `load`, behind the trial of a copy that `ashore checkpoint doctor` has made.
What it promises: nothing is written to the checkpoint. Each row of each store is read; no older
snapshot is taken instead of one that cannot be read.
"""

from collections.abc import Callable

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ashore.errors import CheckpointUnfit
from ashore.jobs.events import Event, StateLoaded, StateStep, StoreRows
from ashore.jobs.requests import LoadRequest
from ashore.log.progress import StateWork
from ashore.queries.spark.internals.state import FAMILY, list_state, read_state
from ashore.topics.run.spark.causes import (
    DETAIL_LENGTH_MAX,
    JVM_ENDED,
    JVM_GONE,
    innermost_cause,
    text_of,
)

Send = Callable[[Event], None]


def load(spark: SparkSession, request: LoadRequest, send: Send) -> StateLoaded:
    """Load each store, and return how many rows it has. Raises CheckpointUnfit where Spark cannot.

    `send`: is sent each step.
    """
    uri, found, what = request.checkpoint.uri, [], "its operators"
    try:
        for each in list_state(spark, uri):
            what = f"operator {each.operator}, {each.name}"
            send(StateStep(StateWork.LOAD, each.operator, each.name))
            rows = read_state(spark, uri, request.batch, each).groupBy(FAMILY).count().collect()
            counted = sorted((row[0], int(row[1])) for row in rows)
            found += [StoreRows(each.operator, each.name, *row) for row in counted]
    except (PySparkException, Py4JError, ConnectionError) as error:
        text = JVM_ENDED if isinstance(error, JVM_GONE) else text_of(error)
        raise CheckpointUnfit(
            f"Spark cannot load {what}: {innermost_cause(text)}",
            hint="restore a savepoint, or an earlier batch",
            why="not_loaded",
            detail=text[:DETAIL_LENGTH_MAX],
        ) from error
    return StateLoaded(tuple(found))
