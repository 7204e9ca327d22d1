"""Topics as views that SQL reads.

What it is: a view for each table that has topics: decoded columns, event time and watermark, and
the columns that say where a record came from.
What it promises: the same decoding as where `select` or `where` land a topic. A record that cannot
be decoded is in no view: it is counted, or stops the query, as the table's `on_invalid` says.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import StringType, StructType, TimestampNTZType, TimestampType

from ashore import __version__
from ashore.base.time_format import TimeFormat, parse_time_format
from ashore.errors import BatchFailed, JobFileInvalid
from ashore.jobs.file.tables import HEADERS_COLUMN, PROVENANCE_COLUMNS
from ashore.log.fold import Fold
from ashore.log.names import SliceName, query_source
from ashore.log.positions import ShardRange, StreamShard
from ashore.log.query import Letter
from ashore.plans.build import BELIEVED
from ashore.plans.graph import PlanGraph, ViewRule, columns_read
from ashore.plans.text import normalise_sql
from ashore.queries.spark.internals.event_times import TimeMark
from ashore.tables.ddl import parse_ddl, type_ddl
from ashore.tables.masks import format_mask
from ashore.topics.decode.arrow_types import to_arrow
from ashore.topics.loop.sinks import FAR_FUTURE, LATE, NEAR_1970, UNDECODABLE, UNTIMED
from ashore.topics.loop.splits import split_evenly
from ashore.topics.read.reading import KafkaAddress
from ashore.topics.route.placement import (
    EVENT_MS_MAX,
    EVENT_MS_MIN,
    NEAR_1970_MS,
    PER_SECOND,
    find_path,
)
from ashore.topics.run.spark.causes import text_of
from ashore.topics.run.spark.daemon import lacks_ashore
from ashore.topics.run.spark.reader import (
    RECORD,
    is_decoded_in_spark,
    raw_shape,
    read_rows,
    record_columns,
    row_shape,
    select_decoded,
    with_decoded,
)
from ashore.topics.run.spark.source.record_schema import DECODED, HEADERS, RowShape
from ashore.topics.run.spark.source.registration import register_source
from ashore.topics.run.spark.source.source_options import (
    FORMAT,
    Epochs,
    write_epochs,
    write_options,
)
from ashore.topics.write.batch import LandingSpec

_MICROS_PER_SECOND = 1_000_000

EVENT_TIME = "event_time"
BAD = "undecodable"  # the metric of a view: records that are in none
# The metric of a view: what is late, too far ahead, without time, near 1970; newest.
TIMES = "times"
TIME_COUNTERS = (LATE, FAR_FUTURE, UNTIMED, NEAR_1970)  # its first numbers
NOT_READ = "is not read from its topic: Ashore took it for a column that the query does not use"
NOT_OPENED = "is not opened: Ashore took it for a view that the query does not read"
BAD_RECORD = "a record cannot be decoded: "
_MICROS = {"s": 1_000_000, "ms": 1_000, "us": 1, "ns": 0.001}


@dataclass(frozen=True, slots=True)
class View:
    """What SQL reads under one name."""

    name: str
    topics: tuple[str, ...]
    spec: LandingSpec
    has_watermark: bool
    columns: tuple[str, ...] | None = None  # that a query reads, of those decoded; None: all

    def narrow(self, graph: PlanGraph) -> "View":
        """Return the view without the columns that a query does not read. `graph`: of the query.

        Expressions of `select` and `where` read columns that no graph knows, so that such a view
        stays as it is.
        """
        spec = self.spec
        read = columns_read(graph, self.topics)
        if read is None or spec.is_selected or is_decoded_in_spark(spec):
            return self
        names = parse_ddl(spec.decode_schema).names
        columns = tuple(each for each in names if each in read)
        # Spark has no struct of nothing.
        return replace(self, columns=columns or (names[0],)) if len(columns) < len(names) else self

    def describe(self) -> list[object]:
        """Return what its rows depend on, for the digest of a query."""
        spec = self.spec
        watermark_ms = spec.late.after_ms if self.has_watermark else None
        decoding: list[object] = [spec.decode, spec.decode_schema, list(spec.select), spec.where]
        if spec.mask:  # none before there were any
            decoding.append([list(each) for each in spec.mask])
        output = spec.output
        written = [output.event_format] if output.event_format else []  # none before there were any
        times = [output.event_column, output.event_unit, watermark_ms, *written]
        return [self.name, list(self.topics), decoding, times, spec.on_invalid]

    def rule(self) -> ViewRule:
        """Return how its rows are made, as far as no plan shows it."""
        spec = self.spec
        select = tuple(normalise_sql(each) for each in spec.select)
        mask = format_mask(spec.mask)
        return ViewRule(self.topics, spec.decode, select, normalise_sql(spec.where or ""), mask)


FirstOffsets = Mapping[str, Mapping[str, int]]  # topic, topic partition: where reading begins


@dataclass(frozen=True, slots=True)
class StreamReading:
    """How a view is read as a stream.

    Arguments:
        firsts: where reading begins, by the log: a policy is resolved once only.
        epochs: the leader epochs at the log's next offsets: no checkpoint knows of a `skip`.
        offsets_max: of a batch; None: all that are there.
        interval_ms: between batches.

    """

    firsts: FirstOffsets
    epochs: Epochs
    offsets_max: int | None
    interval_ms: int


@dataclass(frozen=True, slots=True)
class PartReading:
    """How a part of one batch is read, beside the stream."""

    ranges: tuple[ShardRange, ...]  # its offsets
    left_out: tuple[Letter, ...]  # records of them that are left out
    now_ms: int  # the time of the batch
    mark: TimeMark  # the watermark that its records are late by

    @property
    def now(self) -> Column:
        """The time of the batch."""
        return F.timestamp_millis(F.lit(self.now_ms))

    def load(self, session: SparkSession, kafka: KafkaAddress, view: View) -> DataFrame:
        """Return the records, in the columns that the view asks for."""
        mine = [each for each in self.ranges if each.key.stream in view.topics]
        return leave_out(open_ranges(session, kafka, view, mine), self.left_out)


def open_stream(
    session: SparkSession,
    kafka: KafkaAddress,
    view: View,
    reading: StreamReading,
) -> DataFrame:
    """Return the records of a view as a stream, with `decoded`. Nothing is read yet."""
    options = {
        **write_options(kafka),
        **_stream_shape(view).write_options(),
        **_step_options(view),
        "minPartitions": str(session.sparkContext.defaultParallelism),
        "subscribe": ",".join(view.topics),
        "startingOffsets": json.dumps(reading.firsts),
        "leaderEpochs": write_epochs(reading.epochs),
        "triggerInterval": f"{reading.interval_ms}ms",
    }
    if reading.offsets_max is not None:
        options["maxOffsetsPerTrigger"] = str(reading.offsets_max)
    register_source(session)
    try:
        records = session.readStream.format(FORMAT).options(**options).load()
    except PySparkException as error:
        if not lacks_ashore(text_of(error)):
            raise
        raise BatchFailed(
            f"Spark cannot open the topics of {view.name}: its Python has no Ashore {__version__}:"
            f" {session.sparkContext.pythonExec}",
            hint="name a Python that Ashore is installed in: PYSPARK_PYTHON",
        ) from error
    return with_decoded(records, view.spec)


def open_unread(session: SparkSession, view: View) -> DataFrame:
    """Return the columns of `open_stream` for a view that a query does not read.

    To open a stream costs a process of Python, half a second of CPU time. A query that reads it all
    the same stops: no rows would be silently wrong.
    """
    columns = StructType.fromDDL(_stream_shape(view).ddl).fields
    refused = F.raise_error(F.lit(f"{view.name} {NOT_OPENED}")).cast("boolean")
    nulls = [F.lit(None).cast(each.dataType).alias(each.name) for each in columns]
    return with_decoded(session.range(1).where(refused).select(*nulls), view.spec)


def _stream_shape(view: View) -> RowShape:
    shape = row_shape(view.spec, *record_columns(view.spec), keeps_values=False)
    return replace(shape, fields=view.columns)


def _step_options(view: View) -> dict[str, str]:
    """Return the options by which a view's partitions are read in step; none where they cannot be.

    That is where `select` or Spark makes the event time: planning knows only decoded columns.
    """
    spec = view.spec
    event = spec.output.event
    if not view.has_watermark or (event and (spec.select or is_decoded_in_spark(spec))):
        return {}
    times = {"eventTime": "timestamp"}
    if event is not None:
        times = {"eventTime": f"{DECODED}.{event.path}", "eventTimeUnit": event.unit}
        times |= {"eventTimeFormat": event.format} if event.format else {}
    late = {"lateAfter": f"{spec.late.after_ms}ms", "futureMax": f"{spec.late.future_max_ms}ms"}
    return {**times, **late}


def open_ranges(
    session: SparkSession, kafka: KafkaAddress, view: View, ranges: Sequence[ShardRange]
) -> DataFrame:
    """Return the records of ranges as a view has them, read once, with all of their bytes."""
    shape = row_shape(view.spec, *record_columns(view.spec))
    return with_decoded(_read(session, kafka, ranges, shape), view.spec)


def open_raw_ranges(
    session: SparkSession, kafka: KafkaAddress, ranges: Sequence[ShardRange], *, headers: bool
) -> DataFrame:
    """Return the records of ranges in the columns of RECORD, not decoded."""
    return _read(session, kafka, ranges, raw_shape(*RECORD, *[HEADERS] * headers))


def _read(
    session: SparkSession, kafka: KafkaAddress, ranges: Sequence[ShardRange], shape: RowShape
) -> DataFrame:
    splits = split_evenly(tuple(ranges), session.sparkContext.defaultParallelism)
    return read_rows(session, kafka, splits, shape)


def leave_out(records: DataFrame, left_out: tuple[Letter, ...]) -> DataFrame:
    """Return records without some of them."""
    shards: dict[tuple[str, str], list[int]] = defaultdict(list)
    for each in left_out:
        shards[each.key.stream, each.key.shard].append(each.offset)
    for (topic, shard), offsets in shards.items():
        is_of_it = (F.col("topic") == topic) & (F.col("partition") == int(shard))
        records = records.where(~(is_of_it & F.col("offset").isin(offsets)))
    return records


def make_view(view: View, records: DataFrame, mark: TimeMark, now: Column | None = None) -> None:
    """Make a view of records, with the columns that it asks for, in their session.

    `now`: the time of the batch, where it is not the one that Spark gives it.

    Raises AnalysisException, JobFileInvalid.
    """
    rows = select_decoded(records, view.spec)
    is_bad = F.col("decoded").isNull()
    rows = rows.observe(f"{BAD}:{view.name}", F.count_if(is_bad).alias("records"))
    if view.spec.on_invalid == "fail":
        place = F.concat_ws("/", F.col("topic"), F.col("partition"), F.col("offset"))
        refused = F.raise_error(F.concat(F.lit(BAD_RECORD), place))
        rows = rows.where(F.when(is_bad, refused.cast("boolean")).otherwise(F.col("keep")))
    else:
        rows = rows.where(~is_bad & F.col("keep"))
    columns = _decoded_columns(view)
    if view.spec.provenance:
        pairs = zip(RECORD, PROVENANCE_COLUMNS, strict=False)
        columns += [F.col(own).alias(shown) for own, shown in pairs]
    if view.spec.headers:
        columns.append(F.col(HEADERS).alias(HEADERS_COLUMN))
    time = F.col("timestamp").alias("_ashore_timestamp")
    rows, name = _with_event_time(rows.select(*columns, time), view)
    if view.has_watermark:
        most = _most(view, F.current_timestamp() if now is None else now)
        rows = _believed(rows, view, name, most, mark)
        # Spark holds a row late that is not after the watermark.
        rows = rows.withWatermark(name, f"{view.spec.late.after_ms} milliseconds")
    rows.drop("_ashore_timestamp").createOrReplaceTempView(view.name)


def _decoded_columns(view: View) -> list[Column]:
    """Return the columns of a view; those that are not read stop a query that would read them."""
    if view.columns is None:
        return [F.col(f"{DECODED}.*")]
    return [
        F.col(DECODED).getField(each.name).alias(each.name)
        if each.name in view.columns
        else F.raise_error(F.lit(f"{view.name}.{each.name} {NOT_READ}"))
        .cast(type_ddl(each.type))
        .alias(each.name)
        for each in parse_ddl(view.spec.decode_schema).fields
    ]


def read_far_future(
    session: SparkSession, kafka: KafkaAddress, view: View, reading: PartReading
) -> DataFrame:
    """Return the records that the view leaves out as too far ahead, in the columns it asks for."""
    return choose_far_future(reading.load(session, kafka, view), view, reading.now)


def choose_far_future(records: DataFrame, view: View, now: Column) -> DataFrame:
    """Return those of records that a view leaves out as too far ahead. `now`: of their batch."""
    rows = select_decoded(records, view.spec)
    rows = rows.where(F.col("decoded").isNotNull() & F.col("keep"))
    aside = F.struct(*record_columns(view.spec)).alias("_ashore_record")
    time = F.col("timestamp").alias("_ashore_timestamp")
    rows, name = _with_event_time(rows.select("decoded.*", aside, time), view)
    is_future = F.col(name) > _most(view, now)
    return rows.where(is_future).select("_ashore_record.*")


def name_event_time(rows: DataFrame, view: View) -> str:
    """Return the name of the column of a view that is its event time."""
    return _time_column(rows, view) or EVENT_TIME


def _time_column(rows: DataFrame, view: View) -> str | None:
    """Return the `event_time` column of a view where it is a timestamp as it is."""
    column = view.spec.output.event_column
    return column if column and dict(rows.dtypes).get(column) == "timestamp" else None


def _with_event_time(rows: DataFrame, view: View) -> tuple[DataFrame, str]:
    """Add the event time, where it is none of the columns; return its name too."""
    own = _time_column(rows, view)
    if own is not None:
        return rows, own
    if EVENT_TIME in rows.columns:
        raise JobFileInvalid(
            f"table {view.spec.table} has a column {EVENT_TIME}, which SQL adds by itself",
            hint="make it the event_time column, as TIMESTAMP, or rename it: "
            f"{view.spec.output.event_column}",
        )
    return rows.withColumn(EVENT_TIME, _event_time(rows, view.spec)), EVENT_TIME


def _most(view: View, now: Column) -> Column:
    """Return the highest event time that is believed. `now`: of the batch, also run again."""
    return F.timestamp_millis(F.unix_millis(now) + F.lit(view.spec.late.future_max_ms))


def _believed(rows: DataFrame, view: View, name: str, most: Column, mark: TimeMark) -> DataFrame:
    """Leave out what is too far ahead: one record would move the watermark for good."""
    time = F.col(name)
    is_future = F.coalesce(time > most, F.lit(False))
    counted = (
        F.count_if(time <= mark.column).alias("late"),
        F.count_if(is_future).alias("far_future"),
        F.count_if(time.isNull()).alias("untimed"),
        F.count_if(_near_1970(time)).alias("near_1970"),
        F.max(F.unix_millis(F.when(~is_future, time))).alias("newest_ms"),
    )
    rows = rows.observe(f"{TIMES}:{view.name}", *counted)
    # A struct of this name is known in plans: where it is compared, nothing of the SQL is.
    return rows.where(F.struct(time.alias(BELIEVED)) <= F.struct(most.alias(BELIEVED)))


def sum_counts(
    views: Iterable[View], count: Callable[[list[str], int], list[tuple[int, ...]]]
) -> dict[str, int]:
    """Return what was wrong with records that a query has read, by counter.

    `count`: returns the first numbers of metrics, as `count_observed` does.
    """
    known = list(views)
    bad = count([f"{BAD}:{view.name}" for view in known], 1)
    names = [f"{TIMES}:{view.name}" for view in known if view.has_watermark]
    times = count(names, len(TIME_COUNTERS)) if names else []
    sums = {name: sum(row[place] for row in times) for place, name in enumerate(TIME_COUNTERS)}
    return {UNDECODABLE: sum(row[0] for row in bad), **sums}


def _near_1970(time: Column) -> Column:
    first, end = (F.timestamp_millis(F.lit(each)) for each in NEAR_1970_MS)
    return (time >= first) & (time < end)


def _event_time(rows: DataFrame, spec: LandingSpec) -> Column:
    """Return the event time of rows as a timestamp: null for what is none, as where it lands."""
    output = spec.output
    if output.event_column is None:
        return F.col("_ashore_timestamp")
    path = find_path(to_arrow(parse_ddl(output.schema)), output.event_column)
    column = F.col(".".join(f"`{each.replace('`', '``')}`" for each in path))
    kind = rows.select(column).schema.fields[0].dataType
    if isinstance(kind, StringType):
        return _within_calendar(read_times(column, parse_time_format(output.event_format)))
    if isinstance(kind, TimestampType):
        return column
    if isinstance(kind, TimestampNTZType):
        return column.cast(TimestampType())  # in the session's zone: UTC, as where it lands
    return _to_time(spec, column)


def _within_calendar(time: Column) -> Column:
    millis = F.unix_millis(time)
    return F.when((millis >= EVENT_MS_MIN) & (millis <= EVENT_MS_MAX), time)


def _to_time(spec: LandingSpec, column: Column) -> Column:
    """Return a column of numbers as times: null for what no calendar holds, as where it lands.

    (A product that overflows would stop the query for good, and the year 292277 its watermark.)
    """
    per_ms = PER_SECOND[spec.output.event_unit] / 1000
    first, end = F.lit(EVENT_MS_MIN * per_ms), F.lit((EVENT_MS_MAX + 1) * per_ms)
    micros = F.floor(column * F.lit(_MICROS[spec.output.event_unit])).cast("bigint")
    return F.when((column >= first) & (column < end), F.timestamp_micros(micros))


def plan_reading(
    view: View, name: SliceName, fold: Fold, offsets_max: int | None, interval_ms: int
) -> StreamReading:
    """Return how a view is read by the query of a log."""
    firsts: dict[str, dict[str, int]] = {topic: {} for topic in view.topics}
    epochs: dict[StreamShard, dict[int, int]] = defaultdict(dict)
    for key, state in fold.current().items():
        if key.source == query_source(name) and key.stream in firsts:
            firsts[key.stream][key.shard] = state.first
            if state.leader_epoch is not None:
                epochs[StreamShard(key.stream, key.shard)][state.next] = state.leader_epoch
    return StreamReading(firsts, epochs, offsets_max, interval_ms)


def read_times(texts: Column, form: TimeFormat) -> Column:
    """Return the times of a column of texts as timestamps: null where a text is none.

    The same texts are times as by `text_millis` of `routing`, and the same times; digits down to
    microseconds are kept, as a timestamp holds them.
    """

    def digits(part: str) -> Column:
        return F.regexp_extract(texts, form.unnamed, form.group_of(part))

    def number(part: str, default: int) -> Column:
        if not form.group_of(part):
            return F.lit(default)
        return F.when(digits(part) == "", F.lit(default)).otherwise(digits(part).try_cast("int"))

    date = (number("year", 1970), number("month", 1), number("day", 1))
    second = number("second", 0).cast("decimal(16,6)")
    clock = (number("hour", 0), number("minute", 0), second)
    time = F.try_make_timestamp(*date, *clock, F.lit("UTC"))
    micros = F.unix_micros(time)
    if form.group_of("fraction"):
        fraction = F.substring(F.rpad(digits("fraction"), 6, "0"), 1, 6)
        micros += F.when(digits("fraction") == "", F.lit(0)).otherwise(fraction.try_cast("int"))
    if form.group_of("sign"):
        zone_s = (number("zh", 0) * 60 + number("zm", 0)) * 60
        ahead = F.when(digits("sign") == "-", -zone_s).otherwise(zone_s)
        micros -= ahead.cast("bigint") * _MICROS_PER_SECOND
    return F.when(texts.rlike(form.unnamed), F.timestamp_micros(micros))
