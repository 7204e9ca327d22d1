"""Rows of stores that are written, made of the state that is read.

What it is: `Maker`: for each store of each operator, the rows that it is to have.
What it promises: the source is only read. What it has decoded and made anew, it keeps a list of, so
that it can be verified.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from ashore.errors import fail
from ashore.plans.change.backfill import is_filled
from ashore.plans.change.rewriting import (
    KeySource,
    NeverNull,
    OperatorRewrite,
    RewriteKind,
    ValueSource,
)
from ashore.queries.spark.internals.buffers import StatefulAggregate
from ashore.queries.spark.internals.state import (
    FAMILY,
    StateStores,
    read_decoded,
    read_state,
    with_schema_of,
)
from ashore.queries.spark.state.backfilling import BATCH, fill
from ashore.queries.spark.state.forms import ONLY, deal_out, struct_fields
from ashore.queries.spark.state.new_forms import RowForm, find_null, recode
from ashore.queries.state.checkpoint import Checkpoint

_SIDES = {"left", "right"}  # of a join
_WAITING = "{}-keyWithIndexToValue"  # the store, or the column family, of a side's rows


@dataclass(frozen=True, slots=True)
class Made:
    """Rows that were decoded and made anew. `options`: which of the operator's, for the reader."""

    rewrite: OperatorRewrite
    options: Mapping[str, str]


@dataclass(slots=True)
class Maker:
    """What rows are made with."""

    spark: SparkSession  # whose settings have the format of the state
    source: Checkpoint  # the checkpoint that is read
    planned: Checkpoint  # one that Spark has planned the new SQL in: its stores have no rows
    batch: int  # of both
    partitions: int  # into how many rows are dealt out
    aggregates: Mapping[int, StatefulAggregate]  # of the new plan, by their numbers
    made: list[Made] = field(default_factory=list)  # what was decoded and made anew so far
    replayed: Checkpoint | None = None  # what new parts are filled of

    def rows(self, rewrite: OperatorRewrite, store: str, like: DataFrame) -> DataFrame:
        """Return the rows of a store, a task for each partition.

        `like`: a frame that has the columns of such rows.

        Raises CheckpointUnfit where they have another form than the rewrite takes them for.
        """
        if rewrite.kind is RewriteKind.EMPTY:
            return self.deal_out(self.spark.createDataFrame([], like.schema))
        if rewrite.kind is RewriteKind.MOVE:
            return self._moved(rewrite, store, like)
        if rewrite.left or rewrite.right:
            return self._waiting(rewrite, store, like)
        aggregate = self.aggregates.get(rewrite.operator)
        planned = self.decoded(self.planned, rewrite.operator, {}).schema
        return self._recoded(Made(rewrite, {}), RowForm(planned, like, aggregate))

    def count(self, operator: int, store: str, *, is_replayed: bool = False) -> int:
        """Return how many rows a store of the source has, or of the replay where there was one."""
        of, batch = (self.replayed, BATCH) if is_replayed else (self.source, self.batch)
        checkpoint = of or fail("nothing was replayed")
        stores = StateStores(operator, store)
        return int(read_state(self.spark, checkpoint.uri, batch, stores).count())

    def find_null(self, rewrite: OperatorRewrite) -> str | None:
        """Return a column that has NULL in a row, and never has it from now on; None: none has."""
        old = rewrite.old if rewrite.old is not None else fail("rows are taken of no operator")
        places: dict[str, list[NeverNull]] = {}
        for each in rewrite.never_null:
            side = _WAITING.format(each.of) if each.of in _SIDES else ONLY
            places.setdefault(side, []).append(each)
        found = (
            find_null(self.decoded(self.source, old, _named(store)), never_null)
            for store, never_null in places.items()
        )
        return next((each for each in found if each is not None), None)

    def decoded(
        self, checkpoint: Checkpoint, operator: int, options: Mapping[str, str]
    ) -> DataFrame:
        """Return rows of an operator, with keys and values decoded."""
        return read_decoded(self.spark, checkpoint.uri, self.batch, operator, options)

    def deal_out(self, rows: DataFrame) -> DataFrame:
        """Return rows in the partitions of the state."""
        return deal_out(rows, self.partitions)

    # ---- rows as they are

    def _moved(self, rewrite: OperatorRewrite, store: str, like: DataFrame) -> DataFrame:
        return self.deal_out(with_schema_of(self._stored(rewrite, store), like))

    def _stored(self, rewrite: OperatorRewrite, store: str) -> DataFrame:
        old = rewrite.old if rewrite.old is not None else fail("rows are taken of no operator")
        return read_state(self.spark, self.source.uri, self.batch, StateStores(old, store))

    # ---- rows that wait for others

    def _waiting(self, rewrite: OperatorRewrite, store: str, like: DataFrame) -> DataFrame:
        """Return the rows of a store of a join: it has one of its own, or a column family."""
        sides = {
            _WAITING.format(side): values
            for side, values in (("left", rewrite.left), ("right", rewrite.right))
            if values
        }
        if store in sides:
            return self._side(rewrite, store, ONLY, sides[store], like)
        if store != ONLY:
            return self._moved(rewrite, store, like)
        rows = self._stored(rewrite, store)
        kept = with_schema_of(rows.where(~rows[FAMILY].isin([*sides])), like)
        for name, values in sides.items():
            kept = kept.unionAll(self._side(rewrite, name, name, values, like))
        return self.deal_out(with_schema_of(kept, like))

    def _side(
        self,
        rewrite: OperatorRewrite,
        store: str,
        family: str,
        values: tuple[ValueSource, ...],
        like: DataFrame,
    ) -> DataFrame:
        options = _named(store)
        planned = self.decoded(self.planned, rewrite.operator, options).schema
        made = Made(_with_values(rewrite, planned, values), options)
        return self._recoded(made, RowForm(planned, like, family=family))

    def _recoded(self, made: Made, form: RowForm) -> DataFrame:
        rows, rewrite = self._taken(made)
        # Rows of one of several families are dealt out with the others.
        return recode(rows, form, rewrite, self.deal_out if form.family == ONLY else _as_they_are)

    def _taken(self, made: Made) -> tuple[DataFrame, OperatorRewrite]:
        """Return the decoded rows that stores are made of, and where in them what is."""
        rewrite, rows = made.rewrite, None
        if rewrite.old is not None:
            rows = self.decoded(self.source, rewrite.old, made.options)
            self.made.append(made)
        if is_filled([rewrite]):
            replayed = self.replayed or fail("something is filled, and nothing was replayed")
            filled = read_decoded(self.spark, replayed.uri, BATCH, rewrite.operator, {})
            return fill(rows, filled, rewrite)
        return (fail("rows are made of no operator's") if rows is None else rows), rewrite


def _as_they_are(rows: DataFrame) -> DataFrame:
    return rows


def _named(store: str) -> dict[str, str]:
    return {} if store == ONLY else {"storeName": store}


def _with_values(
    rewrite: OperatorRewrite, planned: StructType, values: tuple[ValueSource, ...]
) -> OperatorRewrite:
    """Return the rewrite of rows whose keys stay."""
    places = range(len(struct_fields(planned["key"].dataType)))
    return OperatorRewrite(
        rewrite.operator,
        rewrite.name,
        RewriteKind.RECODE,
        rewrite.old,
        tuple(KeySource(place) for place in places),
        values,
    )
