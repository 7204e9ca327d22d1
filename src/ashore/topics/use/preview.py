"""What the newest records of a job's topics would be as rows, before anything is landed.

What it is: `preview_job`: the writer that a job has, over a lake in memory.
What it promises: nothing is written anywhere. Rows, places and reasons are those of the writer
itself; what cannot be shown is named with why.
"""

import io
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.parquet as pq

from ashore.base.clock import Clock
from ashore.errors import AshoreError
from ashore.jobs.file import Job, ResolvedTable, match_topics, select_topics
from ashore.log.files import BatchPlace, Role
from ashore.log.names import SliceName
from ashore.log.positions import BatchTime, OffsetRange, ShardKey, ShardRange, StreamShard
from ashore.storage.memory import MemoryStorage
from ashore.storage.open import LakeAddress
from ashore.topics.decode.reasons import describe
from ashore.topics.loop.job import landing_spec
from ashore.topics.read.kafka import stream_missing
from ashore.topics.read.record_columns import fetched_batch
from ashore.topics.read.source import Source
from ashore.topics.write.batch import BatchOrder, TaskResult
from ashore.topics.write.write_task import write_task

TOPICS_MAX, RECORDS = 5, 100
NAME = SliceName("preview", "main")
BY_SPARK = "`select` and `where` are computed by Spark: these rows are as before them"


@dataclass(frozen=True, slots=True)
class PreviewRow:
    """A row where it would land: texts, one per column of its table."""

    table: str
    role: str
    partition: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TopicPreview:
    """What the newest records of a topic would be."""

    topic: str
    table: str
    columns: tuple[str, ...]
    rows: tuple[PreviewRow, ...]  # of the table, and of its late table
    dead: tuple[tuple[str, str, str], ...]  # topic partition and offset, the reason, the value
    fetched: int  # how many records were looked at
    notes: tuple[str, ...]  # what is to be known besides


def preview_job(job: Job, source: Source, clock: Clock) -> tuple[TopicPreview, ...]:
    """Return what the newest records of the job's first topics would be.

    Raises SourceError, StreamMissing, JobFileInvalid.
    """
    topics = select_topics(job, source.list_streams())[:TOPICS_MAX]
    resolved = match_topics(job, topics)
    return tuple(_preview(topic, resolved[topic], source, clock) for topic in topics)


def _preview(topic: str, resolved: ResolvedTable, source: Source, clock: Clock) -> TopicPreview:
    found = source.describe_streams([topic])
    if topic not in found:
        raise stream_missing(topic, source.list_streams())
    ranges, batches = _read(topic, found[topic].shards, source)
    fetched = sum(each.num_rows for each in batches)
    spec = landing_spec(resolved)
    notes = [BY_SPARK] if spec.select or spec.where else []
    output = replace(spec.output, format="parquet")
    plain = replace(spec, output=output, select=(), where=None)
    time = BatchTime(clock.now_ms())
    order = BatchOrder(LakeAddress("memory:///"), NAME, 1, 0, time, ranges, ((topic, plain),))
    storage = MemoryStorage(clock)
    try:
        result = write_task(order, storage, 0, batches)
    except AshoreError as error:
        notes.append(f"{error.message}. {error.hint}")
        return TopicPreview(topic, output.table, (), (), (), fetched, tuple(notes))
    columns, rows, dead = _show(storage, result)
    return TopicPreview(topic, output.table, columns, rows, dead, fetched, tuple(notes))


def _read(
    topic: str, shards: Sequence[str], source: Source
) -> tuple[tuple[ShardRange, ...], list[pa.RecordBatch]]:
    """Return the newest records of each topic partition, some of each."""
    each_max = max(1, RECORDS // max(1, len(shards)))
    places = [StreamShard(topic, shard) for shard in shards]
    offsets = source.read_offsets(places)
    ranges, batches = list[ShardRange](), list[pa.RecordBatch]()
    for place in places:
        there = offsets[place]
        newest = OffsetRange(max(there.earliest, there.end - each_max), there.end)
        if newest.size and sum(each.num_rows for each in batches) < RECORDS:
            records = list(source.read_plain(place, newest))
            ranges.append(ShardRange(ShardKey("kafka", topic, 1, place.shard), newest))
            batches += [fetched_batch(place, records)] if records else []
    return tuple(ranges), batches


_Shown = tuple[tuple[str, ...], tuple[PreviewRow, ...], tuple[tuple[str, str, str], ...]]


def _show(storage: MemoryStorage, result: TaskResult) -> _Shown:
    columns: tuple[str, ...] = ()
    rows: list[PreviewRow] = []
    dead: list[tuple[str, str, str]] = []
    for file in result.files:
        target = result.targets[file.target]
        path = BatchPlace(NAME, 1, 0).place(file, target).pending
        table = pq.read_table(io.BytesIO(storage.read(path)))
        if target.role is Role.DEAD:
            dead += [_dead_of(each) for each in table.to_pylist()]
            continue
        columns = tuple(table.column_names)
        texts = [[_text(value) for value in column.to_pylist()] for column in table.columns]
        rows += [
            PreviewRow(target.table, target.role.value, target.partition, values)
            for values in zip(*texts, strict=True)
        ]
    return columns, tuple(rows[:RECORDS]), tuple(dead[:RECORDS])


def _dead_of(row: dict[str, object]) -> tuple[str, str, str]:
    place = f"{row['topic']}/{row['partition']} at {row['offset']}"
    return place, describe(str(row["reason"])), _text(row["value"])


def _text(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")[:400]
    return str(value)[:400]
