"""State that is filled of a replay: the new query over all records up to the last batch.

What it is: `replay`, which runs it once, into a checkpoint of its own; `fill`, rows of an old state
with what the replay has for their keys.
What it promises: nothing is landed. Whatever both keep is compared, key by key, and a difference
refuses the backfill: records are gone, came late, or were read by other SQL.
"""

from dataclasses import replace
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import DataType, DoubleType, FloatType

from ashore.errors import CheckpointUnfit, check
from ashore.plans.change.rewriting import OperatorRewrite, ValueSource
from ashore.queries.spark.state.forms import number_fields, struct_fields
from ashore.queries.state.checkpoint import Checkpoint
from ashore.queries.state.layout import OffsetsFile

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
