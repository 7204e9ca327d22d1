"""State rewritten into another number of partitions, and compared.

What it is: the part of a rescale that needs Spark.
What it promises: keys and values are moved as they are. Each store of the target is read again, and
has the same rows as that of the source: as many, with the same digest.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from ashore.errors import CheckpointUnfit
from ashore.jobs.events import Event, Rescaled, StateStep, StoreRows
from ashore.log.progress import StateWork
from ashore.queries.spark.internals.state import (
    FAMILY,
    KEY,
    VALUE,
    StateStores,
    list_state,
    read_state,
    rewrite_state,
)
from ashore.queries.spark.state.forms import deal_out
from ashore.queries.state.checkpoint import Checkpoint
from ashore.queries.state.rescaling import commit

Send = Callable[[Event], None]
_BITS = 22  # of a part of a hash: three have all 64, and a sum has room for 2**41 rows
_PART = 1 << _BITS


@dataclass(frozen=True, slots=True)
class Cut:
    """Into how many partitions the state of a batch is cut."""

    batch: int
    partitions: int


@dataclass(frozen=True, slots=True)
class Content:
    """What stores hold: rows, and sums over the parts of a hash of each: no order changes them."""

    rows: int
    digest: tuple[int, ...]


def rescale(
    spark: SparkSession, source: Checkpoint, target: Checkpoint, cut: Cut, send: Send
) -> Rescaled:
    """Write the state of a checkpoint to another one, in another number of partitions.

    Requires: all of the target but its state is there; see `lay_out`. Its batch is committed, and
    `finish` is left to do.
    Raises CheckpointUnfit where what was written is not what was read; SparkUnknown, StorageError.
    """
    moved = _Moved(list_state(spark, source.uri), cut.partitions, send)
    with moved:
        ids = rewrite_state(spark, source.uri, target.uri, cut.batch, moved.move) or {}
    before = moved.found
    commit(source, target, cut.batch, ids)
    after = _measure(spark, target, cut.batch, send)
    found = tuple(
        StoreRows(stores.operator, stores.name, family, content.rows)
        for stores, families in before.items()
        for family, content in families.items()
    )
    if before != after:
        raise CheckpointUnfit(
            f"{target.uri}: the rows that were written are not those that were read",
            hint="nothing was switched: the checkpoint is unchanged; please report this",
            why="rows_differ",
        )
    return Rescaled(found)


class _Moved:
    """Rows of one store after the other: measured, then dealt out to other partitions.

    What Spark has read is kept on disk while a store is written: to read a state is to open it,
    which costs more than to write it down.
    """

    def __init__(self, stores: Sequence[StateStores], partitions: int, send: Send) -> None:
        self.found: dict[StateStores, dict[str, Content]] = {}
        self._waiting = iter(stores)
        self._partitions = partitions
        self._send = send
        self._kept: DataFrame | None = None

    def move(self, rows: DataFrame) -> DataFrame:
        """Return the rows of the next store, as Spark's exchange deals them out."""
        self._let_go()
        stores = next(self._waiting)
        self._kept = rows.persist(StorageLevel.DISK_ONLY)
        self._send(StateStep(StateWork.COUNT, stores.operator, stores.name))
        self.found[stores] = measure_stores(rows)
        self._send(StateStep(StateWork.WRITE, stores.operator, stores.name))
        return deal_out(rows, self._partitions)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._let_go()

    def _let_go(self) -> None:
        if self._kept is not None:
            self._kept.unpersist()
            self._kept = None


def _measure(
    spark: SparkSession, checkpoint: Checkpoint, batch: int, send: Send
) -> dict[StateStores, dict[str, Content]]:
    found: dict[StateStores, dict[str, Content]] = {}
    for stores in list_state(spark, checkpoint.uri):
        send(StateStep(StateWork.COMPARE, stores.operator, stores.name))
        found[stores] = measure_stores(read_state(spark, checkpoint.uri, batch, stores))
    return found


def measure_stores(rows: DataFrame) -> dict[str, Content]:
    """Return what rows of stores hold, by their column families."""
    # A sum of 64-bit numbers needs more than 64 bits; one of decimals takes longer than three sums.
    hashed = F.xxhash64(F.col(KEY), F.col(VALUE))
    parts = [F.shiftright(hashed, at).bitwiseAND(_PART - 1) for at in (0, _BITS, 2 * _BITS)]
    counted = rows.groupBy(FAMILY).agg(F.count("*"), *map(F.sum, parts)).collect()
    return {row[0]: Content(row[1], tuple(row[2:])) for row in counted}
