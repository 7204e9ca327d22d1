"""Rows of state: shown, written to a file, or compared with those of an earlier batch.

What it is: `read_rows`, what `ashore checkpoint inspect --rows` and `diff` are answered by.
What it promises: Spark's own reader decodes; all rows of a store are read, or an error names what
could not be. Nothing is left out but columns without a type, which hold nothing.
"""

import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JError
from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import (
    DataType,
    DecimalType,
    LongType,
    NullType,
    StringType,
    StructField,
    StructType,
)

from ashore.errors import CheckpointUnfit, NotDone
from ashore.jobs.events import Event, StateChanges, StateRows, StateStep
from ashore.jobs.requests import RowsRequest, StateBatch, StateTable
from ashore.log.progress import StateWork
from ashore.queries.spark.internals.state import read_decoded, reported_progress
from ashore.queries.spark.sql.topics import JSON_OPTIONS
from ashore.queries.spark.state.forms import struct_fields
from ashore.topics.run.spark.causes import (
    DETAIL_LENGTH_MAX,
    innermost_cause,
    outermost_cause,
    text_of,
)

PARQUET, ARROW = ".parquet", ".arrow"

Send = Callable[[Event], None]
PARTITION, KEY, VALUE, BEFORE, CHANGE = "partition", "key", "value", "before", "change"
_SPARKS_PARTITION = "partition_id"
_EXPIRY = "expiresAtMicros"  # of a key that is remembered for a while: a time as a number
_GROUP = ["groupState", "timeoutTimestamp"]  # of flatMapGroupsWithState: -1 is no timeout
READING = {
    # The copy has the files of one batch, so there is no older snapshot to fall back to.
    "spark.sql.streaming.stateStore.autoSnapshotRepair.enabled": "false",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}


@dataclass(frozen=True, slots=True)
class _Read:
    frame: DataFrame
    keys: tuple[str, ...]
    values: tuple[str, ...]


def read_rows(spark: SparkSession, request: RowsRequest, send: Send) -> None:
    """Send the rows of each table, or how they differ from those before; write them where asked.

    Raises CheckpointUnfit where state cannot be read, NotDone where the request does not fit it.
    """
    for table in request.tables:
        send(StateStep(StateWork.READ, table.operator, table.name))
        with reported_progress(spark, send):
            try:
                send(_answer(spark, table, request))
            except (PySparkException, Py4JError) as error:
                states = [each for each in (request.now, request.before) if each is not None]
                raise explain_damage(error, table, states) from error


def _answer(spark: SparkSession, table: StateTable, request: RowsRequest) -> Event:
    now = _filter_rows(_read(spark, request.now, table), table, request)
    if request.before is None:
        return _show(now.frame, now, table, request)
    before = _filter_rows(_read(spark, request.before, table), table, request)
    found = _compare_bags(before, now) if table.is_bag else _compare(before, now)
    found = found.persist(StorageLevel.DISK_ONLY)
    try:
        counted = {row[0]: int(row[1]) for row in found.groupBy(CHANGE).count().collect()}
        ordered = found.orderBy(PARTITION, F.to_json(KEY, JSON_OPTIONS), CHANGE)
        shown = _show(ordered, now, table, request)
    finally:
        found.unpersist()
    return StateChanges(
        added=counted.get("added", 0),
        removed=counted.get("removed", 0),
        changed=counted.get("changed", 0),
        is_bag=table.is_bag,
        shown=shown,
    )


# ---- reading


def _read(spark: SparkSession, state: StateBatch, table: StateTable) -> _Read:
    """Return what Spark's reader gives, with columns that have one name each."""
    options = dict(table.options)
    rows = read_decoded(spark, state.checkpoint.uri, state.batch, table.operator, options)
    others = [each for each in rows.columns if each not in {KEY, _SPARKS_PARTITION}]
    has_struct = others == [VALUE] and isinstance(rows.schema[VALUE].dataType, StructType)
    value = F.col(VALUE) if has_struct else F.struct(*others)
    rows = rows.select(F.col(_SPARKS_PARTITION).alias(PARTITION), F.col(KEY), value.alias(VALUE))
    keys, values = (rows.schema[each].dataType for each in (KEY, VALUE))
    named = _named(KEY, keys, table.keys), _named(VALUE, values, table.values)
    rows = rows.select(PARTITION, *named)
    rows = rows.select(PARTITION, KEY, _readable(rows.schema[VALUE].dataType))
    return _Read(rows, _names(rows, KEY), _names(rows, VALUE))


def _named(column: str, kind: DataType, names: Sequence[str]) -> Column:
    """Return a struct with these names for its fields, and each only once.

    Spark calls the buffers of two sums alike: only a cast goes by their places.
    """
    fields = struct_fields(kind)
    shown = list(names) if len(names) == len(fields) else [each.name for each in fields]
    unique = _made_unique(shown)
    made = [
        StructField(name, each.dataType, each.nullable)
        for name, each in zip(unique, fields, strict=True)
    ]
    return F.col(column).cast(StructType(made)).alias(column)


def _made_unique(names: Iterable[str]) -> list[str]:
    found: list[str] = []
    for each in names:
        name, number = each, 1
        while name.casefold() in {other.casefold() for other in found}:
            number += 1
            name = f"{each}_{number}"
        found.append(name)
    return found


def _readable(kind: DataType) -> Column:
    """Return the value without what holds nothing, and with times as times."""
    columns = []
    is_group = [each.name for each in struct_fields(kind)] == _GROUP
    for field in struct_fields(kind):
        column = F.col(VALUE)[field.name]
        if isinstance(field.dataType, NullType):
            continue
        if is_group and isinstance(field.dataType, LongType) and field.name == _GROUP[-1]:
            time = F.when(column >= 0, F.timestamp_millis(column))
            columns.append(time.alias("times out at"))
        elif field.name == _EXPIRY and isinstance(field.dataType, LongType):
            columns.append(F.timestamp_micros(column).alias("expires at"))
        else:
            columns.append(column.alias(field.name))
    return F.struct(*columns).alias(VALUE)


def _names(rows: DataFrame, column: str) -> tuple[str, ...]:
    return tuple(each.name for each in struct_fields(rows.schema[column].dataType))


# ---- what is wanted


def _filter_rows(read: _Read, table: StateTable, request: RowsRequest) -> _Read:
    frame = read.frame
    if request.partition is not None:
        frame = frame.where(F.col(PARTITION) == request.partition)
    for name, text in request.keys:
        frame = frame.where(_equals(frame, table, name, text))
    return replace(read, frame=frame)


def _equals(frame: DataFrame, table: StateTable, name: str, text: str | None) -> Column:
    """Return whether a column of the key, or a field of one, has a value. Raises NotDone."""
    column, kind = _find_key(frame, name)
    if kind is None:
        known = ", ".join(_leaves(frame.schema[KEY].dataType)) or "none"
        raise NotDone(
            f"the key of operator {table.operator}, {table.name}, has no column {name}",
            hint=f"its columns are {known}",
        )
    if text is None:
        return column.isNull()
    value = F.lit(text).try_cast(kind)
    if frame.sparkSession.range(1).select(value.isNull()).collect()[0][0]:
        raise NotDone(
            f"{text} is not a value of {name}, which is {kind.simpleString()}",
            hint="write it as SQL does, as in --key 'w.start=2026-11-21 08:00:00'",
        )
    return column.eqNullSafe(value)


def _find_key(frame: DataFrame, name: str) -> tuple[Column, DataType | None]:
    column, kind = F.col(KEY), frame.schema[KEY].dataType
    rest = name
    while rest:
        fields = {each.name: each.dataType for each in struct_fields(kind)}
        found = next((each for each in fields if rest == each or rest.startswith(f"{each}.")), None)
        if found is None:
            return column, None
        column, kind, rest = column[found], fields[found], rest[len(found) + 1 :]
    return column, kind


def _leaves(kind: DataType, before: str = "") -> list[str]:
    found = []
    for each in struct_fields(kind):
        inner = _leaves(each.dataType, f"{before}{each.name}.")
        found += inner or [f"{before}{each.name}"]
    return found


# ---- comparing


def _compare(before: _Read, now: _Read) -> DataFrame:
    both = _sides(before, now, [PARTITION, "id"], [])
    change = (
        F.when(F.col("old.id").isNull(), "added")
        .when(F.col("new.id").isNull(), "removed")
        .when(F.col("old.digest") != F.col("new.digest"), "changed")
    )
    found = both.withColumn(CHANGE, change).where(F.col(CHANGE).isNotNull())
    return found.select(
        CHANGE,
        *(F.coalesce(f"new.{each}", f"old.{each}").alias(each) for each in (PARTITION, KEY, VALUE)),
        F.when(F.col(CHANGE) == "changed", F.col(f"old.{VALUE}")).alias(BEFORE),
    )


def _compare_bags(before: _Read, now: _Read) -> DataFrame:
    """Return the rows of which one side has more than the other, so often."""
    grouped = [F.first(KEY).alias(KEY), F.first(VALUE).alias(VALUE), F.count("*").alias("times")]
    both = _sides(before, now, [PARTITION, "id", "digest"], grouped)
    more = F.coalesce("new.times", F.lit(0)) - F.coalesce("old.times", F.lit(0))
    change = F.when(more > 0, "added").otherwise("removed")
    found = both.where(more != 0).select(
        change.alias(CHANGE),
        *(F.coalesce(f"new.{each}", f"old.{each}").alias(each) for each in (PARTITION, KEY, VALUE)),
        F.explode(F.sequence(F.lit(1), F.abs(more))).alias("_"),
    )
    return found.select(CHANGE, PARTITION, KEY, VALUE, F.lit(None).cast("int").alias(BEFORE))


def _sides(before: _Read, now: _Read, by: list[str], grouped: list[Column]) -> DataFrame:
    """Return the rows of both, beside each other where they agree in `by`.

    Rows are compared as JSON: not all types of Spark can be compared, and all can be written.
    """
    sides = []
    for name, read in (("old", before), ("new", now)):
        frame = read.frame.select(
            "*",
            F.to_json(F.struct(KEY), JSON_OPTIONS).alias("id"),
            F.to_json(F.struct(VALUE), JSON_OPTIONS).alias("digest"),
        )
        frame = frame.groupBy(*by).agg(*grouped) if grouped else frame
        sides.append(frame.alias(name))
    old, new = sides
    equal = [F.col(f"old.{each}") == F.col(f"new.{each}") for each in by]
    return old.join(new, equal, "full_outer")


# ---- answering


def _show(rows: DataFrame, read: _Read, table: StateTable, request: RowsRequest) -> StateRows:
    shown = StateRows(
        table.operator,
        table.operator_name,
        table.name,
        read.keys,
        read.values,
        table.is_named,
        (),
        has_more=False,
    )
    if request.to is not None:
        limited = rows if request.limit is None else rows.limit(request.limit)
        return replace(shown, written=write_file(_flat(limited), request.to))
    limited = rows if request.limit is None else rows.limit(request.limit + 1)
    columns = [_as_text(each, limited.schema[each].dataType) for each in limited.columns]
    texts = limited.select(F.to_json(F.struct(*columns), JSON_OPTIONS)).collect()
    found = tuple(str(row[0]) for row in texts)
    limit = len(found) if request.limit is None else request.limit
    return replace(shown, rows=found[:limit], has_more=len(found) > limit)


def _as_text(column: str, kind: DataType) -> Column:
    """Return a column for JSON: a DECIMAL as text, since a reader of JSON would round it."""
    if not isinstance(kind, StructType) or not any(
        isinstance(each.dataType, DecimalType) for each in kind.fields
    ):
        return F.col(column)
    cast = [
        StructField(each.name, StringType()) if isinstance(each.dataType, DecimalType) else each
        for each in kind.fields
    ]
    return F.col(column).cast(StructType(cast)).alias(column)


def _flat(rows: DataFrame) -> DataFrame:
    """Return the rows with a column for each of the key and the value; a name is there once."""
    columns: list[tuple[str, Column]] = []
    for each in rows.columns:
        fields = struct_fields(rows.schema[each].dataType)
        prefix = f"{each}." if each == BEFORE else ""
        if each in {KEY, VALUE, BEFORE}:
            columns += [(f"{prefix}{field.name}", F.col(each)[field.name]) for field in fields]
        else:
            columns.append((each, F.col(each)))
    names = _made_unique(name for name, _ in columns)
    named = zip(names, columns, strict=True)
    return rows.select(*(column.alias(name) for name, (_, column) in named))


def write_file(rows: DataFrame, path: str) -> int:
    """Write rows to a file, and return how many there are. Another file there is replaced.

    The file is there once it is whole. Memory does not grow with the rows.

    If interrupted: a file whose name begins with a dot may stay beside it.
    """
    target = Path(path)
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    with tempfile.TemporaryDirectory(prefix="ashore-rows-") as directory:
        rows.write.mode("overwrite").parquet(directory)
        files = [pq.ParquetFile(each) for each in sorted(Path(directory).glob("part-*.parquet"))]
        try:
            count = _join(files, partial, is_arrow=target.suffix == ARROW)
            partial.replace(target)
        finally:
            partial.unlink(missing_ok=True)
    return count


def _join(files: list[pq.ParquetFile], path: Path, *, is_arrow: bool) -> int:
    schema = files[0].schema_arrow.remove_metadata()
    count = 0
    with (
        pa.ipc.new_file(str(path), schema)
        if is_arrow
        else pq.ParquetWriter(str(path), schema, compression="zstd")
    ) as writer:
        for batch in _batches(files, schema):
            writer.write_batch(batch)
            count += batch.num_rows
    return count


def _batches(files: list[pq.ParquetFile], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for file in files:
        for batch in file.iter_batches():
            yield batch.cast(schema)


_REFUSED = re.compile(r"\[STDS_\w+")  # how all that its reader of state refuses is marked
_NAMED_MAX = 4  # of files of which one is damaged
_PARTITION = re.compile(r"\bpart(?:ition)?Id=(\d+)")
_TABLE = re.compile(r"\b(\d{6,})\.sst\b")
_WHOLE = {".snapshot", ".zip"}
_CHANGES = {".delta", ".changelog"}
_TABLES = {".sst"}


def explain_damage(
    error: Exception, table: StateTable, states: Sequence[StateBatch]
) -> CheckpointUnfit:
    """Return why the rows of a table could not be read, with the file where Spark names it.

    A file is named as it is in the checkpoint, not in the copy that was read. Where Spark only says
    that some file is damaged, those that it may be are named.

    `states`: that were read; files are searched in their copies.
    """
    text = text_of(error)
    if _REFUSED.search(text):
        return CheckpointUnfit(
            f"{states[0].place}: Spark does not read the rows of operator {table.operator}, "
            f"{table.name}: {_without_copies(outermost_cause(error), states)}",
            hint="choose another operator or store, with --operator and --store",
            why="not_read",
            detail=text[:DETAIL_LENGTH_MAX],
        )
    found = next((each for state in states for each in _find_files(text, table, state)), None)
    what = found or f"one of {_list_files(text, table, states[0])}"
    return CheckpointUnfit(
        f"{what} cannot be read: {_without_copies(innermost_cause(text), states)}",
        hint="choose another batch, or restore the file",
        why="damaged",
        detail=text[:DETAIL_LENGTH_MAX],
    )


def _find_files(text: str, table: StateTable, state: StateBatch) -> Iterator[str]:
    """Yield the files that an error names: by path, or a table of RocksDB by its number."""
    root = _root(state)
    for below in re.findall(rf"{re.escape(str(root))}/([^\s,;:()\[\]'\"]+\.\w+)", text):
        path = root / below
        # A snapshot that it cannot read Spark only logs, and looks for older files instead.
        whole = [path] if path.exists() else _files(path.parent, _WHOLE)
        yield from (_place(each, state) for each in whole)
    numbers = set(_TABLE.findall(text))
    for path in sorted(root.glob(f"state/{table.operator}/**/SSTs/*.sst")):
        if path.name.partition("-")[0] in numbers:
            yield _place(path, state)


def _list_files(text: str, table: StateTable, state: StateBatch) -> str:
    """Return what a restore reads of the partition that failed; of all, where that is not said."""
    operator = _root(state) / "state" / str(table.operator)
    partition = _PARTITION.search(text)
    directory = operator / partition[1] if partition else operator
    found = [_place(each, state) for each in _files(directory, _WHOLE | _CHANGES | _TABLES)]
    more = f" and {len(found) - _NAMED_MAX} more" if len(found) > _NAMED_MAX else ""
    return ", ".join(found[:_NAMED_MAX]) + more


def _files(directory: Path, ends: set[str]) -> list[Path]:
    return sorted(each for each in directory.rglob("[0-9]*") if each.suffix in ends)


def _place(path: Path, state: StateBatch) -> str:
    return f"{state.place}/{path.relative_to(_root(state))}"


def _root(state: StateBatch) -> Path:
    return Path(state.checkpoint.uri.removeprefix("file://"))


def _without_copies(text: str, states: Sequence[StateBatch]) -> str:
    """Return a text with places in the checkpoint instead of in its copies."""
    for state in states:
        text = text.replace(f"file:{_root(state)}", state.place)
    return text
