"""Rows of stores that are written, made of the state that is read.

What it is: `Maker`: for each store of each operator, the rows that it is to have; `recode`, the
rows of an operator from the form of the old plan to that of the new one: decoded by Spark, computed
anew, and encoded by Spark; `find_null`, whether a column that is never NULL from now on has one.
`replay` runs the new query over all records up to the last batch, once, into a checkpoint of its
own; `fill` takes what the replay has for the keys of an old state.
What it promises: the source is only read. What it has decoded and made anew, it keeps a list of, so
that it can be verified. No byte of a row is made here. A column goes to its place as the rewrite
says, and only to one of the same type, or of a wider one where the rewrite says so. A replay lands
nothing. Whatever both keep is compared, key by key, and a difference refuses the backfill: records
are gone, came late, or were read by other SQL.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import DataType, DoubleType, FloatType, StructField, StructType

from ashore.errors import CheckpointUnfit, check, fail
from ashore.plans.change.backfill import is_filled
from ashore.plans.change.rewriting import (
    KeySource,
    NeverNull,
    OperatorRewrite,
    RewriteKind,
    ValueSource,
)
from ashore.queries.spark.internals.state import (
    FAMILY,
    KEY,
    PARTITION_KEY,
    VALUE,
    StatefulAggregate,
    StateStores,
    encode_struct,
    read_decoded,
    read_state,
    with_schema_of,
)
from ashore.queries.spark.state.forms import ONLY, deal_out, number_fields, struct_fields
from ashore.queries.state.checkpoint import Checkpoint
from ashore.queries.state.layout import OffsetsFile

_SIDES = {"left", "right"}  # of a join
_WAITING = "{}-keyWithIndexToValue"  # the store, or the column family, of a side's rows
_DECODED_KEY, _DECODED_VALUE = "key", "value"
_SESSION = "session_window"  # the name of the column, whatever the SQL calls it


@dataclass(frozen=True, slots=True)
class RowForm:
    """In which form rows of state are."""

    decoded: StructType  # the schema of keys and values
    raw: DataFrame  # a frame that has the columns of rows as bytes
    # whose state it is; None: the operator is none, and what is new is NULL
    aggregate: StatefulAggregate | None = None
    family: str = ONLY  # the column family that they are of

    @property
    def functions(self) -> StatefulAggregate:
        """The aggregate. Requires: the operator is one."""
        return self.aggregate or fail("the state of no aggregate is merged by its functions")

    def fields(self, column: str) -> list[StructField]:
        """Return the columns of keys or of values."""
        return struct_fields(self.decoded[column].dataType)


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
        made = Made(_rewrite_side(rewrite, planned, values), options)
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


def _rewrite_side(
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


# ---- rows in another form


def recode(
    rows: DataFrame,
    form: RowForm,
    rewrite: OperatorRewrite,
    deal_out: Callable[[DataFrame], DataFrame],
) -> DataFrame:
    """Return decoded rows of an old operator as the bytes of the new one's stores.

    `deal_out` brings rows to the tasks of their partitions, by their `partition_key`.
    Raises CheckpointUnfit where the form is another than the rewrite takes it for.
    """
    _require_form(rows, form, rewrite)
    fields = zip(rewrite.keys, form.fields(_DECODED_KEY), strict=True)
    keys = [_key(*each).alias(f"k{place}") for place, each in enumerate(fields)]
    numbered = rows.select(number_fields(rows, _DECODED_KEY), number_fields(rows, _DECODED_VALUE))
    made = _with_values(numbered, form, rewrite, keys)
    if rewrite.kind is RewriteKind.MERGE:
        made = _last(made) if rewrite.is_last else _merged(made, form, deal_out)
    # What comes last in the keys of a session or of a row that waits says no partition.
    parted = len(struct_fields(form.raw.schema[PARTITION_KEY].dataType))
    structs = (
        F.struct(*(F.col(f"{prefix}{place}") for place in range(count))).alias(name)
        for prefix, name, count in (
            ("k", PARTITION_KEY, parted),
            ("k", _DECODED_KEY, len(rewrite.keys)),
            ("v", _DECODED_VALUE, len(rewrite.values)),
        )
    )
    built = made.select(*structs)
    # Out of rows of bytes a struct is its own encoding. Spark must not see of what it is made: of
    # constants it would make it anew, above the exchange.
    dealt = deal_out(with_schema_of(built, built))
    encoded = dealt.select(
        PARTITION_KEY,
        # A struct without fields has no bytes.
        (encode_struct(dealt, _DECODED_KEY) if rewrite.keys else F.lit(b"")).alias(KEY),
        (encode_struct(dealt, _DECODED_VALUE) if rewrite.values else F.lit(b"")).alias(VALUE),
        F.lit(form.family).alias(FAMILY),
    )
    return with_schema_of(encoded, form.raw)


def find_null(rows: DataFrame, never_null: Sequence[NeverNull]) -> str | None:
    """Return the name of one of these columns in which a decoded row has NULL; None: none has."""
    numbered = rows.select(
        *(number_fields(rows, column) for column in (_DECODED_KEY, _DECODED_VALUE))
    )
    names = []
    for each in never_null:
        column = _DECODED_KEY if each.of == _DECODED_KEY else _DECODED_VALUE
        name = struct_fields(rows.schema[column].dataType)[each.column].name
        names.append(F.when(F.col(column)[f"c{each.column}"].isNull(), name))
    found = numbered.select(F.coalesce(*names).alias("name")).where("name IS NOT NULL").head()
    return None if found is None else str(found["name"])


def _require_form(rows: DataFrame, form: RowForm, rewrite: OperatorRewrite) -> None:
    """Raise CheckpointUnfit where a column has another type than that which it is made of."""
    now = {each: form.fields(each) for each in (_DECODED_KEY, _DECODED_VALUE)}
    taken: dict[str, list[int | None]] = {
        _DECODED_KEY: [None if each.is_widened else each.column for each in rewrite.keys],
        _DECODED_VALUE: [None if each.is_widened else each.column for each in rewrite.values],
    }
    parted = _types(struct_fields(form.raw.schema[PARTITION_KEY].dataType))
    is_right = parted == _types(now[_DECODED_KEY])[: len(parted)]
    is_right &= _has_session_at_its_place(rows, form, rewrite)
    for name, places in taken.items():
        was = _types(struct_fields(rows.schema[name].dataType))
        is_right &= len(places) == len(now[name])
        is_right &= all(
            place is None or (place < len(was) and was[place] == kind)
            for place, kind in zip(places, _types(now[name]), strict=False)
        )
    if not is_right:
        raise CheckpointUnfit(
            f"`{rewrite.name}`: Spark writes its keys and values in another form than "
            "expected; nothing was changed",
            hint="keep this operator unchanged, and please report this",
            why="other_form",
        )


def _has_session_at_its_place(rows: DataFrame, form: RowForm, rewrite: OperatorRewrite) -> bool:
    """Return whether a session window is made of a session window."""
    was, now = struct_fields(rows.schema[_DECODED_VALUE].dataType), form.fields(_DECODED_VALUE)
    return all(
        source.column is not None
        and source.column < len(was)
        and (was[source.column].name == _SESSION) == (field.name == _SESSION)
        for source, field in zip(rewrite.values[: rewrite.grouped], now, strict=False)
    )


def _types(fields: list[StructField]) -> list[str]:
    return [each.dataType.simpleString() for each in fields]


def _key(source: KeySource, field: StructField) -> Column:
    column = F.col(_DECODED_KEY)[f"c{source.column}"]
    if source.is_widened:
        return column.cast(field.dataType)
    if source.length_us is None:
        return column
    length_us, offset_us = source.length_us, source.offset_us
    start_us = F.unix_micros(column["start"])
    begins_us = start_us - F.pmod(start_us - F.lit(offset_us), F.lit(length_us))
    ends_us = begins_us + F.lit(length_us)
    return F.struct(
        F.timestamp_micros(begins_us).alias("start"), F.timestamp_micros(ends_us).alias("end")
    )


def _with_values(
    rows: DataFrame, form: RowForm, rewrite: OperatorRewrite, keys: list[Column]
) -> DataFrame:
    """Return keys and values, each in a column; what is new is as Spark's functions begin."""
    fields = form.fields(_DECODED_VALUE)
    values = []
    for place, source in enumerate(rewrite.values):
        if source.column is not None:
            value = F.col(f"{_DECODED_VALUE}.c{source.column}")
            values.append(value.cast(fields[place].dataType) if source.is_widened else value)
        elif form.aggregate is None:
            values.append(F.lit(None).cast(fields[place].dataType))
        else:
            values.append(F.col(f"b{place}"))
    has_new = any(source.column is None for source in rewrite.values)
    if has_new and form.aggregate is not None:
        begun = [
            StructField(f"b{place}", each.dataType)
            for place, each in enumerate(fields)
            if place >= rewrite.grouped
        ]
        like = rows.sparkSession.createDataFrame([], StructType(begun))
        rows = rows.crossJoin(F.broadcast(form.functions.begin(like)))
    return rows.select(*keys, *(each.alias(f"v{place}") for place, each in enumerate(values)))


def _merged(
    rows: DataFrame, form: RowForm, deal_out: Callable[[DataFrame], DataFrame]
) -> DataFrame:
    columns = rows.columns
    keys = [each for each in columns if each.startswith("k")]
    if not keys and rows.isEmpty():
        return rows  # without keys Spark makes a row of no rows
    dealt = deal_out(rows.withColumn(PARTITION_KEY, F.struct(*keys)))
    return form.functions.merge(dealt.select(*columns))


def _last(rows: DataFrame) -> DataFrame:
    keys = [each for each in rows.columns if each.startswith("k")]
    values = [each for each in rows.columns if each.startswith("v")]
    return rows.groupBy(*keys).agg(*(F.max(each).alias(each) for each in values))


# ---- state that is filled of a replay

BATCH = 0  # of the replay
_KEY, _VALUE = "key", "value"
_TOLERANCE = 1e-9  # sums of a DOUBLE depend on the order of rows in their last digits
_OPAQUE = ("binary", "array", "map", "struct")  # what a function writes in an order of its own


def replay(frame: DataFrame, mode: str, offsets: OffsetsFile, scratch: Checkpoint) -> None:
    """Run a query once, from where its topics begin up to the end of a batch.

    `offsets`: of that batch, in the order of the query's sources. `scratch`: gets the state; it has
    a query's id, and nothing else.
    Raises what Spark raises where a record is not there any more.
    """
    settings = offsets.settings
    # Nothing is late: what has come is in the state, and each window that it has.
    everything = replace(settings, watermark_ms=0) if settings else None
    scratch.plan(BATCH, replace(offsets, settings=everything))
    writer = frame.writeStream.format("noop").outputMode(mode).trigger(once=True)
    writer.option("checkpointLocation", scratch.uri).start().awaitTermination()
    check(scratch.read_position().committed == BATCH, "the replay has done its batch")


def fill(
    rows: DataFrame | None, replayed: DataFrame, rewrite: OperatorRewrite
) -> tuple[DataFrame, OperatorRewrite]:
    """Return decoded rows of state with what is filled beside it, and where that is.

    `rows`: of the old operator; None: it is a new one. `replayed`: of the new one.
    Raises CheckpointUnfit where the replay has other values than the state.
    """
    if rows is None:
        values = tuple(ValueSource(place) for place in range(len(rewrite.values)))
        return replayed, replace(rewrite, values=values)
    old = rows.select(number_fields(rows, _KEY), number_fields(rows, _VALUE))
    new = replayed.select(
        number_fields(replayed, _KEY, "replayed_key"), number_fields(replayed, _VALUE, "replayed")
    )
    met = [
        F.col(_KEY)[f"c{key.column}"].eqNullSafe(F.col("replayed_key")[f"c{place}"])
        for place, key in enumerate(rewrite.keys)
    ]
    joined = old.join(new, met or F.lit(True), "left")
    _require_same(joined, rows, rewrite)
    filled = [place for place, each in enumerate(rewrite.values) if each.is_filled]
    count = len(struct_fields(rows.schema[_VALUE].dataType))
    value = F.struct(
        *(F.col(_VALUE)[f"c{place}"].alias(f"c{place}") for place in range(count)),
        *(
            F.col("replayed")[f"c{place}"].alias(f"c{count + number}")
            for number, place in enumerate(filled)
        ),
    )
    places = {place: count + number for number, place in enumerate(filled)}
    values = tuple(
        ValueSource(places[place]) if place in places else each
        for place, each in enumerate(rewrite.values)
    )
    return joined.select(F.col(_KEY), value.alias(_VALUE)), replace(rewrite, values=values)


def _require_same(joined: DataFrame, rows: DataFrame, rewrite: OperatorRewrite) -> None:
    """Raise CheckpointUnfit where a group is not in the replay, or has other values there."""
    kinds = [each.dataType for each in struct_fields(rows.schema[_VALUE].dataType)]
    differs = [F.col("replayed_key").isNull()]
    differs += [
        ~_is_same(F.col(_VALUE)[f"c{each.column}"], F.col("replayed")[f"c{place}"], kind)
        for place, each in enumerate(rewrite.values)
        if each.column is not None
        and not (kind := kinds[each.column]).simpleString().startswith(_OPAQUE)
    ]
    counted = joined.agg(F.count("*").alias("all"), F.count_if(reduce(or_, differs)).alias("other"))
    found = counted.collect()[0]
    if found["other"]:
        raise CheckpointUnfit(
            f"`{rewrite.name}`: a replay gives other values for {found['other']:,} of "
            f"{found['all']:,} groups; nothing was changed",
            hint="the state does not have all records of the topic, or has some that the topic no "
            "longer has: records came late, were skipped, or were read by different SQL. Without "
            "`--backfill` the new functions begin empty",
            why="backfill_differs",
        )


def _is_same(one: Column, other: Column, kind: DataType) -> Column:
    if not isinstance(kind, DoubleType | FloatType):
        return one.eqNullSafe(other)
    is_near = F.abs(one - other) <= F.greatest(F.abs(one), F.abs(other)) * F.lit(_TOLERANCE)
    return one.eqNullSafe(other) | F.coalesce(is_near, F.lit(False))
