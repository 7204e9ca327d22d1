"""Topics as rows of Spark.

What it is: `read_rows`, the records of given offsets, which the tasks read and decode as they do
for tables; and what Spark makes of them, by `select` and `where`.
What it promises: every record is read by one task. None passes through the JVM before it is
decoded. Nothing is read here: the frames are lazy.
"""

import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from ashore.tables.ddl import json_supports, parse_ddl
from ashore.topics.decode.arrow_types import to_arrow
from ashore.topics.loop.splits import Split
from ashore.topics.read.reading import KafkaAddress
from ashore.topics.run.spark.source.record_batches import RowMaker, read_split
from ashore.topics.run.spark.source.record_schema import DECODED, HEADERS, RowShape
from ashore.topics.write.batch import LandingSpec

RECORD = ("topic", "partition", "offset", "timestamp", "key", "value")
RECORD_DDL = (
    "topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, key BINARY, value BINARY"
)
CORRUPT = "_ashore_corrupt"
JSON_OPTIONS = {
    "mode": "PERMISSIVE",
    "columnNameOfCorruptRecord": CORRUPT,
    # Jackson's own limit is 20 million characters: what a record may have is `limits.record`.
    "maxStringLen": f"{2**31 - 1}",
}


def record_columns(spec: LandingSpec) -> tuple[str, ...]:
    """Return the columns of records that a table asks for: those of RECORD, and their headers."""
    return (*RECORD, HEADERS) if spec.headers else RECORD


def row_shape(spec: LandingSpec, *columns: str, keeps_values: bool = True) -> RowShape:
    """Return the rows in which the tasks hand over records of a table.

    `columns`: of them, beside `decoded`, which `with_decoded` adds where the tasks cannot.
    `keeps_values`: whether all rows have their bytes; else only those of invalid records need them.
    """
    if is_decoded_in_spark(spec):
        return raw_shape(*columns)
    schema = parse_ddl(spec.decode_schema)
    return RowShape(spec.decode, schema, None, (*columns, DECODED), keeps_values, spec.mask)


def raw_shape(*columns: str) -> RowShape:
    """Return rows that have some columns of records as they are: nothing is decoded."""
    return RowShape("bytes", parse_ddl("value BINARY"), None, columns, keeps_values=True)


def read_rows(
    spark: SparkSession, kafka: KafkaAddress, splits: Sequence[Split], shape: RowShape
) -> DataFrame:
    """Return the records of splits, which are read once; of none, Spark does not know it."""
    read = functools.partial(_read_numbered, kafka, splits or [()], shape)
    return number_tasks(spark, len(splits) or 1).mapInArrow(read, shape.ddl)


def number_tasks(spark: SparkSession, count: int) -> DataFrame:
    """Return the numbers from 0 on, each in a task of its own."""
    return spark.range(0, count, 1, count)


def numbers_of(batches: Iterator[pa.RecordBatch]) -> Iterator[int]:
    """Yield the numbers that a task is given."""
    for batch in batches:
        yield from batch.column(0).to_pylist()


def _read_numbered(
    kafka: KafkaAddress,
    splits: Sequence[Split],
    shape: RowShape,
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    maker = RowMaker(shape, to_arrow(parse_ddl(shape.ddl)), kafka.reader)
    for number in numbers_of(batches):
        yield from read_split(kafka, splits[number], maker)


def with_decoded(records: DataFrame, spec: LandingSpec) -> DataFrame:
    """Return records of `row_shape` with `decoded`: null where a value is invalid."""
    if not is_decoded_in_spark(spec):
        return records
    columns = records.columns
    parsed = F.col("_ashore_parsed")
    is_good = parsed.isNotNull() & parsed.getField(CORRUPT).isNull()
    decoded = F.when(is_good, parsed.dropFields(CORRUPT)).alias(DECODED)
    return records.select("*", _parse_json(spec).alias("_ashore_parsed")).select(*columns, decoded)


def is_decoded_in_spark(spec: LandingSpec) -> bool:
    """Whether JSON has no such maps: only Spark takes the texts of keys for other types."""
    return spec.decode == "json" and bool(json_supports(parse_ddl(spec.decode_schema)))


def _parse_json(spec: LandingSpec) -> Column:
    schema = f"{spec.decode_schema}, {CORRUPT} STRING"
    return F.from_json(F.col("value").cast("string"), schema, JSON_OPTIONS)


def select_decoded(frame: DataFrame, spec: LandingSpec, *also: str) -> DataFrame:
    """Apply `select` and `where` to the struct `decoded` of a frame, and add `keep`.

    `also`: names of columns beside those of the record, which stay as they are.
    The record's own columns are set aside under other names meanwhile: a schema may well have a
    column `offset` or `key`, and that is what `select` and `where` mean by it.
    """
    if not spec.is_selected:
        return frame.withColumn("keep", F.lit(True))
    record = [name for name in (*RECORD, HEADERS, *also) if name in frame.columns]
    aside = [F.col(name).alias(f"_ashore_{name}") for name in record]
    frame = frame.select(*aside, F.col(DECODED).alias("_ashore_decoded"))
    decoded = F.col("_ashore_decoded")
    frame = frame.select("*", "_ashore_decoded.*")
    columns = frame.columns[len(record) + 1 :]
    selected = [F.expr(each) for each in spec.select] or [F.col(f"`{name}`") for name in columns]
    keep = F.coalesce(F.expr(spec.where), F.lit(False)) if spec.where else F.lit(True)
    return frame.select(
        *[F.col(f"_ashore_{name}").alias(name) for name in record],
        F.when(decoded.isNotNull(), F.struct(*selected)).alias(DECODED),
        (decoded.isNull() | keep).alias("keep"),
    )


class ExpressionRefusedError(Exception):
    """Spark does not run an expression. `key`: which, as `("select", 1)` or `("where",)`."""

    def __init__(self, key: tuple[str | int, ...], error: PySparkException) -> None:
        super().__init__(str(error))
        self.key = key
        self.error = error


@contextmanager
def _tried(*key: str | int) -> Iterator[None]:
    try:
        yield
    except PySparkException as error:
        raise ExpressionRefusedError(key, error) from error


def output_schema(spark: SparkSession, spec: LandingSpec) -> str:
    """Return the DDL of the columns that `select` makes, `where` tried out as well.

    Raises ExpressionRefusedError: an expression of one record stands where a condition may, so
    that Spark refuses aggregates, windows and what makes several rows of one.
    """
    empty = spark.createDataFrame([], spec.decode_schema)
    if spec.where:
        with _tried("where"):
            empty.where(spec.where)
    if not spec.select:
        return spec.output.schema
    for index, each in enumerate(spec.select):
        with _tried("select", index):
            empty.where(F.struct(F.expr(each)).isNotNull())
    return ", ".join(
        f"`{field.name}` {field.dataType.simpleString()}"
        for field in empty.selectExpr(*spec.select).schema.fields
    )
