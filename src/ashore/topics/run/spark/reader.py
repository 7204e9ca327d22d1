"""The reader seam: the offset ranges of a plan, cut for the tasks of a batch.

What it is: splits of ranges, each read by a task itself; and Spark's own Kafka source for topics
that Spark decodes (`select`, `where`), with exactly the offsets to read and how to cut them.
What it promises: every record of the plan is read by one task. `read_committed`, `failOnDataLoss`
and the offsets are ours. Large ranges are cut into the plan's pieces, small ranges share tasks.
Of a record that exceeds the limits only its size is looked at: it is not parsed, and not handed on.
Nothing is read here: the frames are lazy.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from ashore.log.plan_batch import BatchPlan
from ashore.log.positions import ShardRange
from ashore.log.tables import HEADERS_TYPE
from ashore.topics.loop.splits import count_tasks
from ashore.topics.read.reading import KafkaAddress
from ashore.topics.write.batch import LandingSpec

RECORD = ("topic", "partition", "offset", "timestamp", "key", "value")
RECORD_DDL = (
    "topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, key BINARY, value BINARY"
)
TOO_LARGE = "_ashore_too_large"  # whether a record exceeds the limits; then it has no content
HEADERS = "headers"  # the column after those of RECORD, where a table asks for it
DECODED = "decoded"  # the struct of a record's values, null where it is invalid
CORRUPT = "_ashore_corrupt"
JSON_OPTIONS = {
    "mode": "PERMISSIVE",
    "columnNameOfCorruptRecord": CORRUPT,
    # Jackson's own limit is 20 million characters: what a record may have is `limits.record`.
    "maxStringLen": f"{2**31 - 1}",
}
# After each fetch Spark asks for a partition's ends, and the answer comes behind a fetch that waits
# for records to come: half a second a partition, where a batch reads up to the end, as it does.
NO_WAIT = {"fetch.max.wait.ms": "10"}


def record_columns(spec: LandingSpec) -> tuple[str, ...]:
    """Return the columns of records that a table asks for: those of RECORD, and their headers."""
    return (*RECORD, HEADERS) if spec.headers else RECORD


def record_ddl(spec: LandingSpec) -> str:
    """Return the columns of `record_columns` as DDL."""
    return f"{RECORD_DDL}, {HEADERS} {HEADERS_TYPE}" if spec.headers else RECORD_DDL


def headers_option(*, headers: bool) -> dict[str, str]:
    """Return the option of Spark's source that says whether it reads headers."""
    return {"includeHeaders": str(headers).lower()}


def read_in_spark(
    spark: SparkSession, kafka: KafkaAddress, plan: BatchPlan, tables: Mapping[str, LandingSpec]
) -> list[DataFrame]:
    """Return frames with every record of the topics that Spark decodes, each once.

    They have `decoded`, `keep` and TOO_LARGE besides the columns of FETCHED.
    """
    frames, most = [], kafka.limits.record_bytes
    for stream in sorted({each.key.stream for each in plan.ranges}):
        if not tables[stream].is_decoded_by_spark:
            continue
        spec = tables[stream]
        large = [each for each in plan.large if each.key.stream == stream]
        small = [each for each in plan.small if each.key.stream == stream]
        if large:
            piece = plan.piece_records
            frame = read_ranges(spark, kafka, large, headers=spec.headers, piece=piece)
            frames.append(decode_records(mark_large(frame, most), spec, TOO_LARGE))
        if small:
            frame = read_ranges(spark, kafka, small, headers=spec.headers).coalesce(
                count_tasks(small, plan)
            )
            frames.append(decode_records(mark_large(frame, most), spec, TOO_LARGE))
    return frames


def mark_large(frame: DataFrame, most_bytes: int) -> DataFrame:
    """Add TOO_LARGE to records, and take key, value and headers from those that are."""
    sizes = [F.coalesce(F.length(name), F.lit(0)).cast("bigint") for name in ("key", "value")]
    if HEADERS in frame.columns:
        each = "length(h.key) + coalesce(length(h.value), 0)"
        sizes.append(F.expr(f"coalesce(aggregate({HEADERS}, 0L, (a, h) -> a + {each}), 0L)"))
    is_large = sum(sizes[1:], sizes[0]) > most_bytes
    content = [name for name in ("key", "value", HEADERS) if name in frame.columns]
    marked = frame.withColumn(TOO_LARGE, is_large)
    return marked.withColumns({name: F.expr(f"if({TOO_LARGE}, NULL, {name})") for name in content})


def read_ranges(
    spark: SparkSession,
    kafka: KafkaAddress,
    ranges: Sequence[ShardRange],
    *,
    headers: bool,
    piece: int | None = None,
) -> DataFrame:
    """Return the records of ranges, in the columns of RECORD. `piece`: offsets of a task."""
    shards: dict[str, list[int]] = defaultdict(list)
    starts: dict[str, dict[str, int]] = defaultdict(dict)
    ends: dict[str, dict[str, int]] = defaultdict(dict)
    for each in ranges:
        stream, shard = each.key.stream, each.key.shard
        shards[stream].append(int(shard))
        starts[stream][shard] = each.offsets.start
        ends[stream][shard] = each.offsets.end
    reader = spark.read.format("kafka").options(
        **{f"kafka.{name}": value for name, value in {**NO_WAIT, **kafka.options}.items()},
        **{"kafka.bootstrap.servers": kafka.bootstrap_servers},
        **{"kafka.isolation.level": "read_committed"},
        **headers_option(headers=headers),
        failOnDataLoss="true",
        assign=json.dumps(shards),
        startingOffsets=json.dumps(starts),
        endingOffsets=json.dumps(ends),
    )
    if piece is not None:
        reader = reader.option("maxRecordsPerPartition", str(piece))
    return reader.load().select(*RECORD, *[HEADERS] * headers)


def decode_records(frame: DataFrame, spec: LandingSpec, *also: str) -> DataFrame:
    """Decode a frame with the columns of `record_columns` by Spark; see `select_decoded`."""
    return select_decoded(decode_in_spark(frame, spec), spec, *also)


def decode_in_spark(frame: DataFrame, spec: LandingSpec) -> DataFrame:
    """Add `decoded`, the struct that Spark's own decoder makes of `value`; null: it is corrupt."""
    columns = frame.columns
    parsed = F.col("_ashore_parsed")
    is_good = parsed.isNotNull() & parsed.getField(CORRUPT).isNull()
    decoded = F.when(is_good, parsed.dropFields(CORRUPT)).alias(DECODED)
    return frame.select("*", _parse(spec).alias("_ashore_parsed")).select(*columns, decoded)


def select_decoded(frame: DataFrame, spec: LandingSpec, *also: str) -> DataFrame:
    """Apply `select` and `where` to the struct `decoded` of a frame, and add `keep`.

    `also`: names of columns beside those of the record, which stay as they are.
    The record's own columns are set aside under other names meanwhile: a schema may well have a
    column `offset` or `key`, and that is what `select` and `where` mean by it.
    """
    if not spec.is_decoded_by_spark:
        return frame.withColumn("keep", F.lit(True))
    record = [name for name in (*RECORD, HEADERS) if name in frame.columns]
    aside = [F.col(name).alias(f"_ashore_{name}") for name in record]
    frame = frame.select(*aside, *also, F.col(DECODED).alias("_ashore_parsed"))
    parsed = F.col("_ashore_parsed")
    frame = frame.select("*", "_ashore_parsed.*")
    columns = frame.columns[len(record) + len(also) + 1 :]
    selected = [F.expr(each) for each in spec.select] or [F.col(f"`{name}`") for name in columns]
    keep = F.coalesce(F.expr(spec.where), F.lit(False)) if spec.where else F.lit(True)
    return frame.select(
        *[F.col(f"_ashore_{name}").alias(name) for name in record],
        F.when(parsed.isNotNull(), F.struct(*selected)).alias(DECODED),
        (parsed.isNull() | keep).alias("keep"),
        *also,
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


def _parse(spec: LandingSpec) -> Column:
    if spec.decode == "json":
        schema = f"{spec.decode_schema}, {CORRUPT} STRING"
        return F.from_json(F.col("value").cast("string"), schema, JSON_OPTIONS)
    column = spec.decode_schema.split()[0]
    value = F.col("value").cast("string") if spec.decode == "text" else F.col("value")
    corrupt = F.lit(None).cast("string").alias(CORRUPT)
    return F.when(F.col("value").isNotNull(), F.struct(value.alias(column), corrupt))
