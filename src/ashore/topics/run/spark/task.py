"""What one Spark task does: records in, files out, one row back.

What it promises: the only row that a task yields is its result, so that counts of failed and
speculative attempts vanish with them. An error that another attempt would meet again, or must not
repeat (a failed sync), comes back as a row, not as a failed task.
"""

import gc
import pickle
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import NamedTuple, TypeVar

import pyarrow as pa
from pyspark import TaskContext

from ashore.errors import (
    AshoreError,
    CallsHang,
    InvariantBroken,
    Stopped,
    StorageError,
    SyncFailed,
    TooManyFiles,
)
from ashore.log.positions import ShardRange, StreamShard
from ashore.storage.open import LakeAddress
from ashore.tables.ddl import parse_ddl
from ashore.topics.decode.arrow_types import to_arrow
from ashore.topics.loop.splits import Split
from ashore.topics.read.reading import KafkaAddress, ReadReport
from ashore.topics.run.spark.reader import numbers_of
from ashore.topics.run.spark.source.record_batches import RowMaker, read_split
from ashore.topics.run.spark.source.record_schema import RowShape
from ashore.topics.write.batch import BatchOrder, LettersOrder, RowsOrder, TaskResult
from ashore.topics.write.rows import check_rows, write_letters, write_rows
from ashore.topics.write.write_task import write_probes, write_task

T = TypeVar("T")

RESULT_DDL = "is_error BOOLEAN, content BINARY"
READING = "_ashore_reading"  # the column of `read_reported`
FINAL_ERRORS = (Stopped, InvariantBroken, SyncFailed, TooManyFiles)  # another attempt is of no use
_SCHEMA = pa.schema([("is_error", pa.bool_()), ("content", pa.binary())])


class Report(NamedTuple):
    """The row of a task: its result, or the error that it ended with."""

    is_error: bool
    content: bytes


class _Reading(NamedTuple):
    """What a task has read, and how that went."""

    ranges: list[ShardRange]
    report: ReadReport


def land(order: BatchOrder, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write the records of `read_reported` and yield the task's result. Runs on an executor.

    If interrupted: in-progress files remain; no entry names them.
    """

    def write(task: int) -> TaskResult:
        readings: list[_Reading] = []
        result = write_task(order, order.lake.open(), task, _take_readings(batches, readings))
        ranges = [each for reading in readings for each in reading.ranges]
        counts = sum((reading.report.counts for reading in readings), Counter())
        by_id = {each for reading in readings for each in reading.report.by_id}
        return result.having_read(ranges, counts, by_id)

    yield _row(_report(write))


def reported_ddl(shape: RowShape) -> str:
    """Return the columns of `read_reported`."""
    return f"{shape.ddl}, {READING} BINARY"


def read_reported(
    order: BatchOrder,
    kafka: KafkaAddress,
    splits: Sequence[Split],
    shape: RowShape,
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Yield the records of the splits whose numbers a task is given, and how reading them went.

    The last row of a task has nothing but READING: ranges and a report, or the error that another
    attempt would meet again. Runs on an executor.
    """
    schema = to_arrow(parse_ddl(shape.ddl))
    maker = RowMaker(shape, schema, kafka.reader)
    report = ReadReport()
    ranges: list[ShardRange] = []
    outcome: _Reading | AshoreError = _Reading(ranges, report)
    try:
        for number in numbers_of(batches):
            ranges += splits[number]
            mine = read_split(kafka, splits[number], maker, topic_ids=order.ids, report=report)
            for rows in mine:
                yield rows.append_column(READING, pa.nulls(rows.num_rows, pa.binary()))
    except FINAL_ERRORS as error:
        outcome = error
    last = [pa.nulls(1, field.type) for field in schema]
    yield pa.RecordBatch.from_arrays(
        [*last, pa.array([pickle.dumps(outcome)])], [*schema.names, READING]
    )


def _take_readings(
    batches: Iterator[pa.RecordBatch], readings: list[_Reading]
) -> Iterator[pa.RecordBatch]:
    """Yield records without READING; add what it says to `readings`, or raise the error in it."""
    for batch in batches:
        found = batch.column(READING)
        records = batch.drop_columns([READING])
        if found.null_count == batch.num_rows:
            yield records
            continue
        for content in found.drop_null().to_pylist():
            outcome = pickle.loads(content)  # noqa: S301 - written by our own task a moment ago
            if isinstance(outcome, AshoreError):
                raise outcome
            readings.append(outcome)
        yield records.filter(found.is_null())


def land_splits(
    order: BatchOrder,
    kafka: KafkaAddress,
    splits: Sequence[tuple[ShardRange, ...]],
    numbers: Iterable[int],
) -> Iterator[Report]:
    """Land the splits whose numbers a task is given: it reads them itself. Runs on an executor.

    If interrupted: in-progress files remain; no entry names them.
    """
    mine = [splits[number] for number in numbers]
    ranges = [each for split in mine for each in split]

    def write(task: int) -> TaskResult:
        report = ReadReport()
        records = read_splits(kafka, mine, order, report)
        result = write_task(order, order.lake.open(), task, records)
        return result.having_read(ranges, report.counts, report.by_id)

    yield _report(write)


def of_number(
    work: Callable[[Iterable[int]], Iterator[T]], number: int, nothing: Iterable[object]
) -> Iterator[T]:
    """Do `work` for one task of `NumberedJobs`, which is given its number alone."""
    for _ in nothing:  # else PySpark does not keep the worker
        pass
    return work((number,))


def land_splits_as_rows(
    land: Callable[[Iterable[int]], Iterator[Report]], numbers: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Do as `land_splits`, for a frame of numbers: beside what Spark selects, in one action."""
    yield from map(_row, land(numbers_of(numbers)))


def land_rows(order: RowsOrder, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write the rows of one task of a query and yield its result. Runs on an executor.

    If interrupted: in-progress files remain; no entry names them.
    """
    yield _row(_report(lambda task: write_rows(order, order.lake.open(), task, batches)))


def try_rows(order: RowsOrder, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Do all that `land_rows` does, but writing. Runs on an executor."""

    def check(task: int) -> TaskResult:
        check_rows(order, batches)
        return TaskResult(task, (), (), (), ())

    yield _row(_report(check))


def land_letters(
    order: LettersOrder, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Write records that a query leaves aside and yield the task's result. Runs on an executor.

    If interrupted: in-progress files remain; no entry names them.
    """
    yield _row(_report(lambda task: write_letters(order, order.lake.open(), task, batches)))


def drop_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Compute the rows of one task of a query and drop them. Runs on an executor."""
    for _batch in batches:
        pass
    yield from ()


def _report(write: Callable[[int], TaskResult]) -> Report:
    """Return the row that reports what `write` did, or which error it ended with."""
    context = TaskContext.get()
    task = context.partitionId() if context else 0
    gc.disable()  # it would look at every message again and again, and find nothing
    try:
        result = write(task)
        _freeze_modules("written")
    except FINAL_ERRORS as error:
        return Report(True, pickle.dumps(error))
    else:
        return Report(False, result.to_bytes())
    finally:
        gc.enable()


@cache
def _freeze_modules(_when: str) -> None:
    """Have the collector pass over what this process has loaded so far; once for each moment.

    PySpark collects after each task, and looking at all modules took 30 ms, in which the worker
    has no ear for the next one.
    """
    gc.freeze()


def read_splits(
    kafka: KafkaAddress,
    splits: Iterable[tuple[ShardRange, ...]],
    order: BatchOrder,
    report: ReadReport,
) -> Iterator[pa.RecordBatch]:
    """Yield the records of splits, to their ends, as `KafkaAddress.read`. Runs on an executor.

    `report`: where the report of the reader is added.
    Raises OffsetsGone if retention overtakes the reading, and SourceError.
    """
    for split in splits:
        ranges = {StreamShard(each.key.stream, each.key.shard): each.offsets for each in split}
        yield from kafka.read(ranges, order.with_headers, order.ids, report)


def read_row(is_error: bool, content: bytes) -> TaskResult:
    """Return the result in a row, or raise the error in it."""
    if not is_error:
        return TaskResult.from_bytes(content)
    error = pickle.loads(content)  # noqa: S301 - written by our own task a moment ago
    raise error if isinstance(error, AshoreError) else InvariantBroken(repr(error))


def land_probes(
    lake: LakeAddress, files: Mapping[str, bytes], _numbers: Iterable[int]
) -> Iterator[str]:
    """Write files as tasks do; yield an empty string, or what went wrong.

    Runs as `land_splits` does, so that the worker that it starts is there for the first batch.
    Raises CallsHang: PySpark replaces a worker whose task raises, and keeps any other.
    """
    _freeze_modules("start")
    yield _try_to_write(lake, files)


def do_nothing(_numbers: Iterable[int]) -> Iterator[str]:
    """Start the worker that runs this, and no more."""
    _freeze_modules("start")
    yield from ()


def _try_to_write(lake: LakeAddress, files: Mapping[str, bytes]) -> str:
    try:
        write_probes(lake.open(), files)
    except CallsHang:
        raise
    except StorageError as error:
        return error.message
    return ""


def _row(report: Report) -> pa.RecordBatch:
    content = pa.array([report.content], pa.binary())
    return pa.record_batch([pa.array([report.is_error]), content], _SCHEMA)
