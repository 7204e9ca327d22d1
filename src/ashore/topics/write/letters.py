"""Dead letters: records that are no row of their table, kept as they came.

What it is: the table `<table>__dead`, its partitions and its rows; and the task that writes records
which a query leaves aside, with their reasons.
What it promises: a dead row holds the bytes of the record and says where it was, with its headers
where the table keeps them; a value or key that was not there stays null. When `write_letters`
returns, each record is in one file, every file is closed and every staging directory synced.
"""

import functools
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pyarrow as pa

from ashore.errors import CountsDisagree
from ashore.log.entries import ShardRead
from ashore.log.files import Role, Target
from ashore.log.positions import OffsetRange, ShardKey
from ashore.log.tables import DEAD_PARTITION_BY, DEAD_SUFFIX, dead_ddl
from ashore.storage.base import Storage
from ashore.tables.ddl import parse_ddl
from ashore.tables.names import partition_path, partition_values
from ashore.topics.decode.arrow_types import to_arrow
from ashore.topics.decode.decode import BadRows
from ashore.topics.decode.times import with_writable_times
from ashore.topics.route.buckets import Bucketer
from ashore.topics.write.batch import LettersOrder, OutputSpec, TaskResult, add_reads
from ashore.topics.write.data_files import FilePool, OffsetRun, RowSpan, TargetRows
from ashore.topics.write.runs import TopicRun, split_shards

REASON = "reason"  # the column beside those of FETCHED


@functools.cache  # there are four
def _dead_schema(ddl: str) -> pa.Schema:
    return to_arrow(parse_ddl(ddl))


DEAD_SCHEMA = _dead_schema(dead_ddl(headers=False))


def dead_target(output: OutputSpec, now_ms: int, ddl: str) -> Target:
    """Return the partition of bad records: they have no event time, so the batch's counts.

    `ddl`: the columns, as `dead_ddl` gives them.
    """
    bucketer = Bucketer(DEAD_PARTITION_BY, output.timezone, DEAD_SCHEMA)
    values = bucketer.assign_one(now_ms)
    return Target(
        output.table + DEAD_SUFFIX,
        Role.DEAD,
        partition_path(bucketer.partition_by, values),
        partition_values(bucketer.partition_by, values),
        ddl,
        output.format,
    )


def build_dead_rows(records: pa.RecordBatch, bad: BadRows, ddl: str) -> pa.Table:
    """Return the dead rows of some records that are bad, in their order. `ddl`: their columns."""
    schema = _dead_schema(ddl)
    rows = records.take(pa.array(bad.indices))
    columns = {name: rows.column(name) for name in rows.schema.names}
    columns["reason"] = bad.reasons
    return pa.table([columns[name] for name in schema.names], schema=schema)


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
        records = with_writable_times(run.records, self._output.format)
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
