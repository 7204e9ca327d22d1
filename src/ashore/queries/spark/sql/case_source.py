"""Records of a test case as what a streaming query reads.

What it is: `write_batches`, files with the rows of the source `ashore`, one for each batch;
`open_records`, a stream that reads one file per batch, in their order; `open_ranges`, offsets of
them beside the stream.
What it promises: a query reads batch after batch, as from Kafka: also views that a batch has no
records for continue with the next one.
"""

import json
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from ashore.base.time_format import ISO
from ashore.errors import JobFileInvalid
from ashore.jobs.file.cases import GivenBatch, GivenRecord
from ashore.log.positions import OffsetRange, ShardKey, ShardRange
from ashore.log.tables import HEADERS_TYPE
from ashore.queries.spark.sql.views import View
from ashore.tables.ddl import parse_ddl
from ashore.topics.decode.arrow_types import to_arrow
from ashore.topics.route.event_columns import EventColumn
from ashore.topics.route.placement import PER_SECOND, find_path
from ashore.topics.run.spark.reader import RECORD, RECORD_DDL, row_shape, with_decoded
from ashore.topics.run.spark.source.record_batches import RowMaker
from ashore.topics.run.spark.source.record_schema import HEADERS, REASON, RowShape
from ashore.topics.write.batch import LandingSpec

SOURCE = "given"  # the source of such records, where Kafka has a name
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SCHEMA = to_arrow(parse_ddl(f"{RECORD_DDL}, {HEADERS} {HEADERS_TYPE}"))
_COLUMNS = (*RECORD, HEADERS, REASON)


def write_batches(directory: Path, view: View, batches: Sequence[GivenBatch]) -> None:
    """Write a file for each batch: the records in it of the topics of a view."""
    directory.mkdir(parents=True)
    shape = _shape_of(view)
    schema = to_arrow(parse_ddl(shape.ddl))
    maker = RowMaker(shape, schema, view.spec.reader)
    offsets: dict[tuple[str, int], int] = defaultdict(int)
    at_ms = 0
    for number, batch in enumerate(batches):
        rows = []
        for record in batch.records:
            at_ms = at_ms if record.at is None else record.at
            if batch.topic in view.topics:
                place = (batch.topic, record.partition)
                rows.append(_row(batch.topic, offsets[place], at_ms, record, view.spec))
                offsets[place] += 1
        path = directory / f"{number:06}.parquet"
        records = pa.RecordBatch.from_pylist(rows, _SCHEMA)
        pq.write_table(pa.Table.from_batches(maker.make(records), schema), path)
        os.utime(path, (1_000_000 + number, 1_000_000 + number))  # files are read in this order


def open_records(session: SparkSession, directory: Path, view: View) -> DataFrame:
    """Return the records of a view as a stream. Nothing is read yet."""
    ddl = _shape_of(view).ddl
    reader = session.readStream.schema(ddl).option("maxFilesPerTrigger", "1")
    return with_decoded(reader.parquet(str(directory)), view.spec)


def open_ranges(
    session: SparkSession, directory: Path, view: View, ranges: Iterable[ShardRange]
) -> DataFrame:
    """Return the records of a view in some offsets, beside the stream. Nothing is read yet."""
    is_read = F.col("offset") < 0  # Spark must not know that there is nothing to read
    for each in ranges:
        is_of_it = (F.col("topic") == each.key.stream) & (F.col("partition") == int(each.key.shard))
        start, end = each.offsets.start, each.offsets.end
        is_read |= is_of_it & (F.col("offset") >= start) & (F.col("offset") < end)
    ddl = _shape_of(view).ddl
    records = session.read.schema(ddl).parquet(str(directory)).where(is_read)
    return with_decoded(records, view.spec)


def _shape_of(view: View) -> RowShape:
    return row_shape(view.spec, *_COLUMNS)


def list_ranges(batches: Sequence[GivenBatch]) -> list[tuple[ShardRange, ...]]:
    """Return the offsets of each batch."""
    ends: dict[ShardKey, int] = defaultdict(int)
    found = []
    for batch in batches:
        counts = Counter(record.partition for record in batch.records)
        ranges = []
        for partition, count in sorted(counts.items()):
            key = ShardKey(SOURCE, batch.topic, 1, str(partition))
            ranges.append(ShardRange(key, OffsetRange(ends[key], ends[key] + count)))
            ends[key] += count
        found.append(tuple(ranges))
    return found


def _row(
    topic: str, offset: int, at_ms: int, record: GivenRecord, spec: LandingSpec
) -> dict[str, object]:
    return {
        "topic": topic,
        "partition": record.partition,
        "offset": offset,
        "timestamp": _EPOCH + timedelta(milliseconds=at_ms),
        "key": None if record.key is None else record.key.encode(),
        "value": _value(record, spec, at_ms),
        HEADERS: [
            {"key": key, "value": None if value is None else value.encode()}
            for key, value in record.headers.items()
        ]
        or None,
    }


def _value(record: GivenRecord, spec: LandingSpec, at_ms: int) -> bytes | None:
    value, event = record.value, spec.output.event
    if value is None or isinstance(value, str):
        return None if value is None else value.encode()
    if isinstance(value, dict) and event is not None and record.at is not None:
        path = find_path(to_arrow(parse_ddl(spec.decode_schema)), event.path)
        if not path:
            raise _cannot_write(spec, event, "a column that `select` computes")
        if not _has(value, path):
            value = _with(value, path, _time(spec, event, path, at_ms))
    return json.dumps(value, ensure_ascii=False).encode()


def _has(value: object, path: Sequence[str]) -> bool:
    for name in path:
        if not isinstance(value, dict) or name not in value:
            return False
        value = value[name]
    return True


def _with(value: dict[str, object], path: Sequence[str], time: object) -> dict[str, object]:
    """Return a value with a time at a path, other fields as they are."""
    first, *below = path
    if below:
        inner = value.get(first)
        time = _with(inner if isinstance(inner, dict) else {}, below, time)
    return {**value, first: time}


def _time(spec: LandingSpec, event: EventColumn, path: Sequence[str], at_ms: int) -> object:
    """Return a time as the records of a topic write it. Raises JobFileInvalid."""
    kind: pa.DataType = to_arrow(parse_ddl(spec.decode_schema)).field(path[0]).type
    for name in path[1:]:
        kind = kind.field(name).type
    if pa.types.is_string(kind) and event.format != ISO:
        raise _cannot_write(spec, event, f"a string in the format {event.format}")
    if pa.types.is_string(kind) or pa.types.is_timestamp(kind):
        time = _EPOCH + timedelta(milliseconds=at_ms)
        has_zone = pa.types.is_string(kind) or kind.tz is not None
        return (time if has_zone else time.replace(tzinfo=None)).isoformat()
    return at_ms * PER_SECOND[event.unit] // 1000


def _cannot_write(spec: LandingSpec, event: EventColumn, what: str) -> JobFileInvalid:
    return JobFileInvalid(
        f"`at` cannot be written to {event.path} of table {spec.table}: it is {what}",
        hint="write the time into the `value` of the record",
    )
