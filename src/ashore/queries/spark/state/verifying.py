"""State that was rewritten, read again and compared with what it was to be.

What it is: `count_placed`, rows that lie where Spark looks for them; `require_sample`, some keys
with what they hold, computed once more from the old state; `require_loads`, a batch over no rows in
a copy, for which Spark itself loads each store.
What it promises: nothing that was written is changed. Values are computed in another way than when
they were written: by functions of SQL over the columns of the old state, and windows by their
bounds. What SQL cannot compute of the columns, as a sketch of distinct values, is not compared.
Memory does not grow with the state: a sample has `SAMPLE` keys.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from py4j.protocol import Py4JError
from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import (
    ByteType,
    DataType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StructType,
    VariantType,
)

from ashore.errors import CheckpointUnfit, fail
from ashore.log import names
from ashore.log.plan_query import CheckpointPosition
from ashore.plans.change.rewriting import KeySource, OperatorRewrite, RewriteKind, ValueSource
from ashore.queries.spark.internals.planning import run_empty_batch
from ashore.queries.spark.internals.state import PARTITION_KEY, StateStores, read_state
from ashore.queries.spark.sql.topics import JSON_OPTIONS
from ashore.queries.spark.state.forms import number_fields, struct_fields
from ashore.queries.state.checkpoint import Checkpoint, copy_checkpoint
from ashore.topics.run.spark.causes import outermost_cause

SAMPLE = 32  # keys of an operator
_SCRATCH = "scratch"  # below the root that is verified
_INTEGERS = (ByteType, ShortType, IntegerType, LongType)
_DIGITS = 1e-9  # of a DOUBLE, by which a sum may differ that was added in another order
_HINT = "nothing was switched: the checkpoint is unchanged; please report this"


# ---- partitions


def count_placed(spark: SparkSession, checkpoint: Checkpoint, batch: int, of: StateStores) -> int:
    """Return how many rows stores have.

    Raises CheckpointUnfit where one lies in a partition in which Spark would not look for its key.
    """
    rows = read_state(spark, checkpoint.uri, batch, of)
    rows = rows.select(number_fields(rows, PARTITION_KEY))
    parted = struct_fields(rows.schema[PARTITION_KEY].dataType)
    keys = [F.col(PARTITION_KEY)[each.name] for each in parted]
    partitions = checkpoint.read_offsets(batch).partitions or 1
    expected = F.pmod(F.hash(*keys), F.lit(partitions)) if keys else F.lit(0)
    is_wrong = F.spark_partition_id() != expected
    texts = rows.select(F.when(is_wrong, F.to_json(PARTITION_KEY, JSON_OPTIONS)).alias("wrong"))
    found = texts.agg(F.count("*"), F.first("wrong", ignorenulls=True)).collect()[0]
    count, wrong = int(found[0]), found[1]
    if wrong is not None:
        text = f"operator {of.operator}, {of.name}: the key {wrong} is in another partition"
        raise _unfit(checkpoint, "misplaced", f"{text} than Spark reads it from")
    return count


# ---- a sample of keys


@dataclass(frozen=True, slots=True)
class Rewritten:
    """Rows of an operator before and after, as Spark decodes them."""

    rewrite: OperatorRewrite
    before: DataFrame
    after: DataFrame


def require_sample(rewritten: Rewritten, checkpoint: Checkpoint) -> int:
    """Compare some keys with the old state; return how many.

    Raises CheckpointUnfit with the first key that is missing, or holds something else.
    """
    before, after = (_numbered(each) for each in (rewritten.before, rewritten.after))
    some = _sample(after).persist(StorageLevel.DISK_ONLY)
    try:
        _require_values(rewritten, before, some, checkpoint)
        count = int(some.count())
    finally:
        some.unpersist()
    if rewritten.rewrite.kind is RewriteKind.MERGE:
        _require_kept(rewritten, before, after, checkpoint)
    return count


def _require_values(
    rewritten: Rewritten, before: DataFrame, some: DataFrame, checkpoint: Checkpoint
) -> None:
    rewrite = rewritten.rewrite
    expected = list(_expected(rewrite, rewritten.after.schema["value"].dataType))
    met = before.alias("old").join(F.broadcast(some.alias("new")), _became(rewrite, some))
    computed = met.groupBy("new.id").agg(
        F.count("*").alias("rows"), *(value.alias(f"e{place}") for place, value, _ in expected)
    )
    both = some.join(F.broadcast(computed), "id", "left")
    count = F.coalesce("rows", F.lit(0))
    is_one = count >= 1 if rewrite.kind is RewriteKind.MERGE else count == 1
    differs = [F.when(~is_one, F.concat(F.lit("it was made of "), count, F.lit(" rows")))]
    for place, _, is_same in expected:
        found = F.col(f"v.c{place}")
        texts = (F.to_json(F.struct(each), JSON_OPTIONS) for each in (found, F.col(f"e{place}")))
        text = F.format_string(f"value {place + 1} is %s, expected %s", *texts)
        differs.append(F.when(~is_same(found, F.col(f"e{place}")), text))
    both = both.select(F.to_json("k", JSON_OPTIONS), F.coalesce(*differs).alias("differs"))
    wrong = both.where("differs IS NOT NULL").head()
    if wrong is not None:
        text = f"`{rewrite.name}`, operator {rewrite.operator}, key {wrong[0]}: {wrong[1]}"
        raise _unfit(checkpoint, "sample_differs", text)


def _require_kept(
    rewritten: Rewritten, before: DataFrame, after: DataFrame, checkpoint: Checkpoint
) -> None:
    """Raise where the key that an old one has become is not there."""
    rewrite = rewritten.rewrite
    some = _sample(before).persist(StorageLevel.DISK_ONLY)
    try:
        met = F.broadcast(some.alias("old")).join(after.alias("new"), _became(rewrite, after))
        there = met.select(F.col("old.id").alias("id")).distinct()
        lost = some.join(F.broadcast(there), "id", "left_anti").head()
    finally:
        some.unpersist()
    if lost is not None:
        text = f"`{rewrite.name}`, operator {rewrite.operator}: {lost['k']} of the old state"
        raise _unfit(checkpoint, "sample_differs", f"{text} has become no key")


def _numbered(rows: DataFrame) -> DataFrame:
    """Return keys and values as structs whose fields are called by their places."""
    return rows.select(number_fields(rows, "key", "k"), number_fields(rows, "value", "v"))


def _sample(rows: DataFrame) -> DataFrame:
    """Return some rows, the same at each call: those whose keys have the least hashes."""
    some = rows.orderBy(F.xxhash64("k")).limit(SAMPLE)
    return some.withColumn("id", F.monotonically_increasing_id())


def _became(rewrite: OperatorRewrite, new: DataFrame) -> Column:
    """Return whether an old key has become a new one."""
    found = F.lit(True)
    fields = zip(rewrite.keys, struct_fields(new.schema["k"].dataType), strict=True)
    for place, (source, field) in enumerate(fields):
        found &= _is_key(source, F.col(f"new.k.c{place}"), field.dataType)
    return found


def _is_key(source: KeySource, new: Column, kind: DataType) -> Column:
    old = F.col(f"old.k.c{source.column}")
    if source.length_us is not None:
        return (old["start"] >= new["start"]) & (old["end"] <= new["end"])
    return (old.cast(kind) if source.is_widened else old).eqNullSafe(new)


# ---- what a value is to be

_Same = Callable[[Column, Column], Column]


def _expected(rewrite: OperatorRewrite, values: DataType) -> Iterator[tuple[int, Column, _Same]]:
    """Yield the places of values, what SQL computes for each, and how the two are compared."""
    for place, (source, field) in enumerate(
        zip(rewrite.values, struct_fields(values), strict=True)
    ):
        kind = field.dataType
        if _holds_maps(kind) or source.is_filled:
            continue
        if source.column is None:
            begins = _begins(source)
            if begins is not None:
                yield place, F.first(begins.cast(kind)), _is_same
            continue
        old = F.col(f"old.v.c{source.column}")
        if rewrite.kind is RewriteKind.RECODE:
            yield place, F.first(old.cast(kind)), _is_same
        elif rewrite.is_last:
            yield place, F.max(old), _is_same
        else:
            merged = _merged(source, old, kind)
            if merged is not None:
                yield place, *merged


def _begins(source: ValueSource) -> Column | None:
    """Return what a function has before its first row, where that is well known; else None.

    A column of a row that waits is of no function, and NULL.
    """
    match source.function, source.part:
        case ("Count" | "CountIf", _) | ("Average", "count"):
            return F.lit(0)
        case ("", _) | ("Min" | "Max", _) | ("Sum", ""):
            return F.lit(None)
        case _:
            return None


def _merged(source: ValueSource, old: Column, kind: DataType) -> tuple[Column, _Same] | None:
    match source.function, source.part:
        case ("Sum" | "Count" | "CountIf" | "Average", part) if part != "isEmpty":
            if isinstance(kind, _INTEGERS):
                return F.sum(old.cast("DECIMAL(38, 0)")), _is_same_wrapped
            if isinstance(kind, DoubleType | FloatType):
                return F.sum(old), _is_alike
            return None  # the sum of a DECIMAL that does not fit is NULL, or too long
        case "Min", _:
            return F.min(old), _is_same
        case "Max", _:
            return F.max(old), _is_same
        case _:
            return None


def _is_same(one: Column, other: Column) -> Column:
    return one.eqNullSafe(other)


def _is_same_wrapped(one: Column, other: Column) -> Column:
    """Compare a sum of integers, which wraps, with one that does not."""
    turn = F.lit(str(1 << 64)).cast("DECIMAL(38, 0)")
    rest = F.pmod(one.cast("DECIMAL(38, 0)") - other, turn)
    return F.when(one.isNull() | other.isNull(), one.isNull() & other.isNull()).otherwise(rest == 0)


def _is_alike(one: Column, other: Column) -> Column:
    least = F.greatest(F.abs(one), F.abs(other), F.lit(1.0))
    return one.eqNullSafe(other) | F.coalesce(F.abs(one - other) <= least * _DIGITS, F.lit(False))


def _holds_maps(kind: DataType) -> bool:
    """Return whether values of a type cannot be compared."""
    if isinstance(kind, StructType):
        return any(_holds_maps(each.dataType) for each in kind.fields)
    inner = getattr(kind, "elementType", None)
    return isinstance(kind, MapType | VariantType) or (inner is not None and _holds_maps(inner))


# ---- a batch over no rows


def require_loads(
    frame: DataFrame, mode: str, checkpoint: Checkpoint, batch: int, without_keys: Sequence[int]
) -> None:
    """Let Spark load all stores of a copy, for a batch over no rows, which changes none of them.

    If interrupted: the copy is left below the checkpoint.

    `without_keys`: operators whose one row is written at each batch, as it was.
    Raises CheckpointUnfit where Spark refuses the state, or changes it; StorageError.
    """
    path, uri = (names.join(each, _SCRATCH) for each in (checkpoint.path, checkpoint.uri))
    copy = Checkpoint(checkpoint.storage, path, uri)
    try:
        copy_checkpoint(checkpoint, copy, CheckpointPosition(None, batch, batch))
        offsets = checkpoint.read_offsets(batch)
        copy.plan(batch + 1, offsets)
        settings = offsets.settings or fail("a batch of Spark 4 has settings")
        ids = checkpoint.read_commit(batch).store_ids or {}
        changed = run_empty_batch(frame, mode, uri, settings, (batch, dict(ids)))
    except (PySparkException, Py4JError) as error:
        why = outermost_cause(error).replace(f"/{_SCRATCH}", "")
        text = f"Spark does not load the state for a batch without rows: {why}"
        raise _unfit(checkpoint, "not_loaded", text) from error
    finally:
        copy.delete_all()
    for operator, rows in sorted(changed.items()):
        if rows > (operator in without_keys):
            text = f"a batch without rows changes {rows} rows of operator {operator}"
            raise _unfit(checkpoint, "changed", text)


def _unfit(checkpoint: Checkpoint, why: str, text: str) -> CheckpointUnfit:
    place = checkpoint.place
    return CheckpointUnfit(f"{place}: {text}; nothing was changed", hint=_HINT, why=why)
