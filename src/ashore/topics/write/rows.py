"""One task of a streaming query's batch: its rows, or its dead letters, to closed and synced files.

What it is: what `write_task` is for fetched records: `write_rows` for rows that a query has made,
`write_letters` for records that it leaves aside, with their reasons.
What it promises: each row is in exactly one file, in the bucket of its own event time, however old;
a row without one is in the bucket of the batch's `now`. Each dead letter is in one file. Both
return once every file is closed and every staging directory synced.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ashore.errors import BadRecord, CountsDisagree
from ashore.log.entries import ShardRead
from ashore.log.files import Role, Target
from ashore.log.positions import OffsetRange, ShardKey
from ashore.log.tables import dead_ddl
from ashore.storage.base import Storage
from ashore.tables.ddl import parse_ddl, to_ddl
from ashore.tables.names import partition_path, partition_values
from ashore.topics.decode.arrow_types import to_arrow
from ashore.topics.decode.decode import BadRows
from ashore.topics.decode.times import TimeInKey, null_unwritable, with_writable_times
from ashore.topics.route.placement import Bucketer, Lateness, place, read_event_times, split_rows
from ashore.topics.write.batch import LettersOrder, RowsOrder, TaskResult, add_reads, sort_counters
from ashore.topics.write.data_files import FilePool, OffsetRun, RowSpan, TargetRows
from ashore.topics.write.runs import TopicRun, split_shards
from ashore.topics.write.sorting import build_dead_rows, dead_target

REASON = "reason"  # of a dead letter: the column beside those of FETCHED
NO_LIMIT_MS = 1 << 60


def write_rows(
    order: RowsOrder, storage: Storage, task: int, batches: Iterable[pa.RecordBatch]
) -> TaskResult:
    """Write the rows of one task and return what the log needs to know.

    Raises StorageError, BadRecord, or what reading `batches` raises.
    If interrupted: in-progress files remain; no entry names them.
    """
    pool = FilePool(order, task, storage)
    sorter = _RowSorter(order)
    sorted_rows = (rows for batch in batches for rows in sorter.sort(batch))
    targets, files = pool.write_all(sorted_rows)
    return TaskResult(task, (), targets, files, sort_counters(sorter.counters))


def check_rows(order: RowsOrder, batches: Iterable[pa.RecordBatch]) -> None:
    """Compute rows and discard them. Raises what `write_rows` raises for what is in them."""
    sorter = _RowSorter(order)
    for batch in batches:
        for _rows in sorter.sort(batch):
            pass


def write_letters(
    order: LettersOrder, storage: Storage, task: int, batches: Iterable[pa.RecordBatch]
) -> TaskResult:
    """Write records, in the columns of FETCHED with `reason`; return what the log needs to know.

    Where the dead letters have headers, so have the records.

    Raises StorageError, CountsDisagree, or what reading `batches` raises.
    If interrupted: in-progress files remain; no entry names them.
    """
    pool = FilePool(order, task, storage)
    writer = _LetterWriter(order)
    runs = (run for batch in batches for run in split_shards(batch))
    targets, files = pool.write_all(writer.take(run) for run in runs)
    return TaskResult(task, writer.reads(), targets, files, ())


class _RowSorter:
    """Rows to the partitions of one table."""

    def __init__(self, order: RowsOrder) -> None:
        self._output = order.output
        self._event = order.output.event
        schema = parse_ddl(self._output.schema)
        self._arrow = to_arrow(schema)
        self._ddl = to_ddl(schema)
        self._bucketer = Bucketer(self._output.partition_by, self._output.timezone, self._arrow)
        self._lateness = Lateness("keep", 0, NO_LIMIT_MS, order.time.now_ms, None)
        self.counters: Counter[str] = Counter()

    def sort(self, batch: pa.RecordBatch) -> Iterable[TargetRows]:
        """Yield the rows of a batch, cut by their partitions. Raises BadRecord."""
        if not batch.num_rows:
            return
        table = self._without_unwritable(pa.Table.from_batches([batch]).cast(self._arrow))
        event_ms = self._read_event_times(table)
        placement = place(event_ms, self._lateness)
        if self._event is not None:
            self.counters["no_event_time"] += placement.untimed
        buckets = self._bucketer.assign(table, placement.bucket_ms)
        if buckets.unnameable:
            raise BadRecord(
                f"{self._output.table}: a partition value is too long for the name of a directory",
                hint="shorten the value in the SELECT, or partition by another column",
            )
        kept = table.select(self._bucketer.file_schema.names)
        for bucket, rows in split_rows(buckets):
            yield self._to_target(
                buckets.values[bucket],
                kept if rows is None else kept.take(rows),
                event_ms if rows is None else event_ms.take(rows),
            )

    def _without_unwritable(self, table: pa.Table) -> pa.Table:
        columns = []
        for name, column in zip(table.column_names, table.columns, strict=True):
            try:
                left, count = null_unwritable(column.combine_chunks(), self._output.extension)
            except TimeInKey as error:
                raise BadRecord(
                    f"{self._output.table}: a key of the map {name} is {error}",
                    hint="cast it to a string in the SELECT, or remove such keys",
                ) from None
            columns.append(left)
            self.counters["times_out_of_range"] += count
        return pa.Table.from_arrays(columns, schema=table.schema)

    def _read_event_times(self, table: pa.Table) -> pa.Int64Array:
        if self._event is None:
            return pa.nulls(table.num_rows, pa.int64())
        return read_event_times(self._event, table)

    def _to_target(
        self, values: tuple[str, ...], rows: pa.Table, event_ms: pa.Int64Array
    ) -> TargetRows:
        columns, times = self._bucketer.partition_by, pc.min_max(event_ms)
        target = Target(
            self._output.table,
            Role.MAIN,
            partition_path(columns, values),
            partition_values(columns, values),
            self._ddl,
            self._output.extension,
        )
        least, most = times["min"].as_py(), times["max"].as_py()
        return TargetRows(target, self._output.roll_bytes, rows, (), least, most)


class _LetterWriter:
    """Makes rows of records, and counts them."""

    def __init__(self, order: LettersOrder) -> None:
        self._output = order.output
        self._ddl = dead_ddl(headers=order.output.headers_aside)
        self._target = dead_target(order.output, order.time.now_ms, self._ddl)
        self._keys = {(key.stream, key.shard): key for key in order.shards}
        self._reads: dict[ShardKey, ShardRead] = {}
        self._offset_runs = 0

    def take(self, run: TopicRun) -> TargetRows:
        key = self._find_key(run)
        (first, last), count = run.offsets[0], run.records.num_rows
        read = ShardRead(
            key=key,
            offsets=OffsetRange(first, last + 1),
            table=self._output.table,
            fetched=count,
            landed=0,
            dead=count,
            filtered=0,
            dropped=0,
            size_bytes=run.sizes_bytes()[0],
            event_max_ms=None,
        )
        before = self._reads.get(key)
        self._reads[key] = read if before is None else _with_more(before, read)
        bad = BadRows(np.arange(count), run.records.column(REASON))
        records = with_writable_times(run.records, self._output.extension)
        rows = build_dead_rows(records, bad, self._ddl)
        offset_run = OffsetRun(self._offset_runs, list(self._reads).index(key), key)
        self._offset_runs += 1
        spans = (RowSpan(offset_run, first, last + 1, count),)
        return TargetRows(self._target, self._output.roll_bytes, rows, spans, None, None)

    def reads(self) -> tuple[ShardRead, ...]:
        return tuple(self._reads.values())

    def _find_key(self, run: TopicRun) -> ShardKey:
        (partition,) = run.partitions
        key = self._keys.get((run.topic, str(partition)))
        if key is None:
            raise CountsDisagree(
                f"a dead letter of {run.topic}/{partition} is of a record that the batch has not "
                "read",
                hint="nothing was prepared; please report this",
            )
        return key


def _with_more(before: ShardRead, read: ShardRead) -> ShardRead:
    start = min(before.offsets.start, read.offsets.start)
    end = max(before.offsets.end, read.offsets.end)
    return replace(add_reads(before, read), offsets=OffsetRange(start, end))
