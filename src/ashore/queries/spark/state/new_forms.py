"""Rows of state in another form: decoded by Spark, computed anew, and encoded by Spark.

What it is: `recode`, the rows of an operator from the form of the old plan to that of the new one;
`find_null`, whether a column that is never NULL from now on has one.
What it promises: no byte of a row is made here. A column goes to its place as the rewrite says, and
only to one of the same type, or of a wider one where the rewrite says so.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import StructField, StructType

from ashore.errors import CheckpointUnfit, fail
from ashore.plans.change.rewriting import KeySource, NeverNull, OperatorRewrite, RewriteKind
from ashore.queries.spark.internals.buffers import StatefulAggregate
from ashore.queries.spark.internals.state import (
    FAMILY,
    KEY,
    PARTITION_KEY,
    VALUE,
    encode_struct,
    with_schema_of,
)
from ashore.queries.spark.state.forms import ONLY, number_fields, struct_fields

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
