"""State rewritten into another number of partitions, and compared.

What it is: the part of a rescale that needs Spark.
What it promises: keys and values are moved as they are. Each store of the target is read again, and
has the same rows as that of the source: as many, with the same digest.
What it must not know: how the target was prepared, and what becomes of it.
"""

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import StructType

from ashore.checkpoints.checkpoint import Checkpoint
from ashore.checkpoints.rescaling import commit
from ashore.errors import CheckpointUnfit
from ashore.jobs.events import Event, Rescaled, StateStep, StoreRows
from ashore.jobs.progress import StateWork
from ashore.spark.internals.state import (
    FAMILY,
    KEY,
    PARTITION_KEY,
    VALUE,
    StateStores,
    list_state,
    read_state,
    rewrite_state,
)

Send = Callable[[Event], None]


@dataclass(frozen=True, slots=True)
class Cut:
    """Into how many partitions the state of a batch is cut."""

    batch: int
    partitions: int


@dataclass(frozen=True, slots=True)
class _Content:
    """What stores hold: rows, and a sum over a hash of each that no order changes."""

    rows: int
    digest: int


def rescale(
    spark: SparkSession, source: Checkpoint, target: Checkpoint, cut: Cut, send: Send
) -> Rescaled:
    """Write the state of a checkpoint to another one, in so many partitions.

    Requires: all of the target but its state is there; see `lay_out`. Its batch is committed, and
    `finish` is left to do.
    Raises CheckpointUnfit where what was written is not what was read; SparkUnknown, StorageError.
    """
    before = _measure(spark, source, cut.batch, StateWork.COUNT, send)
    waiting = iter(sorted({(each.operator, each.name) for each in before}))

    def repartition(rows: DataFrame) -> DataFrame:
        operator, name = next(waiting, (-1, ""))
        send(StateStep(StateWork.WRITE, operator, name))
        return _repartition(rows, cut.partitions)

    ids = rewrite_state(spark, source.uri, target.uri, cut.batch, repartition) or {}
    commit(source, target, cut.batch, ids)
    after = _measure(spark, target, cut.batch, StateWork.COMPARE, send)
    found = tuple(
        StoreRows(stores.operator, stores.name, family, content.rows)
        for stores, families in before.items()
        for family, content in families.items()
    )
    if before != after:
        raise CheckpointUnfit(
            f"{target.uri}: the rows that were written are not those that were read",
            hint="nothing was switched: the checkpoint is as it was; please report this",
            why="rows_differ",
        )
    return Rescaled(found)


def _repartition(rows: DataFrame, partitions: int) -> DataFrame:
    """Return the rows as Spark's exchange deals them out: an operator without keys has one task."""
    key = rows.schema[PARTITION_KEY].dataType
    if isinstance(key, StructType) and not key.fields:
        return rows.coalesce(1)
    return rows.repartition(partitions, PARTITION_KEY)


def _measure(
    spark: SparkSession, checkpoint: Checkpoint, batch: int, work: StateWork, send: Send
) -> dict[StateStores, dict[str, _Content]]:
    """Return what each store holds, by its column families."""
    found: dict[StateStores, dict[str, _Content]] = {}
    for stores in list_state(spark, checkpoint.uri):
        send(StateStep(work, stores.operator, stores.name))
        found[stores] = _measure_stores(read_state(spark, checkpoint.uri, batch, stores))
    return found


def _measure_stores(rows: DataFrame) -> dict[str, _Content]:
    # A sum of 64-bit numbers needs more than 64 bits.
    hashed = F.xxhash64(F.col(KEY), F.col(VALUE)).cast("decimal(38,0)")
    counted = rows.groupBy(FAMILY).agg(F.count("*"), F.sum(hashed)).collect()
    return {family: _Content(count, int(digest)) for family, count, digest in counted}
