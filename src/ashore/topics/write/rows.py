"""One task of a streaming query's batch: result rows in, closed and synced files out.

What it is: what `task` is for fetched records, for rows that a query has made.
What it promises: each row is in exactly one file, in the bucket of its own event time, however old;
a row without one is in the bucket of the batch's `now`. `write_rows` returns once every file is
closed and every staging directory synced.
"""

from collections import Counter
from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from ashore.errors import BadRecord
from ashore.log.files import Role, Target
from ashore.storage.base import Storage
from ashore.tables.ddl import parse_ddl, to_ddl
from ashore.tables.names import partition_path, partition_values
from ashore.topics.decode.arrow_types import to_arrow
from ashore.topics.decode.times import TimeInKey, null_unwritable
from ashore.topics.route.buckets import Bucketer, split_rows
from ashore.topics.route.event_time import read_event_times
from ashore.topics.route.late import Lateness, place
from ashore.topics.write.batch import RowsOrder, TaskResult, sort_counters
from ashore.topics.write.data_files import FilePool, TargetRows

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
                left, count = null_unwritable(column.combine_chunks(), self._output.format)
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
            self._output.format,
        )
        least, most = times["min"].as_py(), times["max"].as_py()
        return TargetRows(target, self._output.roll_bytes, rows, (), least, most)
