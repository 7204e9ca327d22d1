"""Several Parquet files of a partition written as one, with the same rows in the same order.

What it promises: a file is read only if its bytes are those of the log. What was written is read
back from the storage and compared with the old files, row by row and value by value, before it is
returned. In memory are one old file, a row group, and at the end the new file.
"""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq

from ashore.errors import FileConflict, check
from ashore.log import names
from ashore.log.files import DataFile
from ashore.log.plan_compact import FileGroup, ListedFile
from ashore.storage.base import Storage
from ashore.topics.write.batch import Order
from ashore.topics.write.data_files import FilePool, TargetRows, highest, lowest

_ROWS = 65_536  # read at once
_NO_LIMIT = 1 << 62


def rewrite_group(order: Order, storage: Storage, task: int, group: FileGroup) -> DataFile:
    """Write the rows of a group as one staged file, and return it without its spans.

    Raises FileConflict where an old file is not what the log says; StorageError.
    If interrupted: an in-progress file remains; no entry names it.
    """
    pool = FilePool(order, task, storage)
    rows = (
        TargetRows(group.target, _NO_LIMIT, table, (), None, None)
        for each in group.files
        for table in _read_rows(_read_listed(storage, each))
    )
    _, files = pool.write_all(rows)
    check(len(files) == 1, f"{len(files)} files were written for one")
    (file,) = files
    staged = names.join(
        names.staging_directory(group.target.table, order.name, order.epoch),
        names.pending_name(order.batch, file.unique),
    )
    _require_same(storage, staged, group, file)
    times = [each.file for each in group.files]
    return replace(
        file,
        event_min_ms=lowest(*(each.event_min_ms for each in times)),
        event_max_ms=highest(*(each.event_max_ms for each in times)),
    )


def _read_listed(storage: Storage, listed: ListedFile) -> bytes:
    data = storage.read(listed.path)
    if hashlib.blake2b(data, digest_size=8).hexdigest() != listed.file.checksum:
        raise FileConflict(
            f"{listed.path} is not the file that the log lists: its checksum differs",
            hint="nothing was replaced; ashore verify shows what else differs",
            paths=[listed.path],
        )
    return data


def _read_rows(data: bytes) -> Iterator[pa.Table]:
    parquet = pq.ParquetFile(pa.BufferReader(data))
    schema = parquet.schema_arrow.remove_metadata()  # ids of fields stay
    for batch in parquet.iter_batches(_ROWS, use_threads=False):
        if batch.num_rows:
            yield pa.Table.from_batches([batch]).replace_schema_metadata(None).cast(schema)


def _require_same(storage: Storage, staged: str, group: FileGroup, file: DataFile) -> None:
    """Raise InvariantBroken unless a staged file has the rows of a group, in their order."""
    data = storage.read(staged)
    is_whole = hashlib.blake2b(data, digest_size=8).hexdigest() == file.checksum
    check(is_whole and file.rows == group.rows, f"{staged} is not what was written")
    old = (rows for each in group.files for rows in _read_rows(_read_listed(storage, each)))
    is_same = all(left.equals(right) for left, right in _pair(_bits(old), _bits(_read_rows(data))))
    check(is_same, f"{staged} has other values than the files that it would replace")


def _pair(
    left: Iterator[pa.Table], right: Iterator[pa.Table]
) -> Iterator[tuple[pa.Table, pa.Table]]:
    """Yield equally many rows of both, to the end of the shorter one."""
    one, other = next(left, None), next(right, None)
    while one is not None and other is not None:
        rows = min(one.num_rows, other.num_rows)
        yield one.slice(0, rows), other.slice(0, rows)
        one = one.slice(rows) if rows < one.num_rows else next(left, None)
        other = other.slice(rows) if rows < other.num_rows else next(right, None)


def _bits(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield tables whose floating-point numbers are integers of the same bits: NaN equals NaN."""
    for table in tables:
        columns = [
            pa.chunked_array([chunk.view(_as_bits(chunk.type)) for chunk in column.chunks])
            for column in table.columns
        ]
        yield pa.table(columns, names=table.column_names)


def _as_bits(data_type: pa.DataType) -> pa.DataType:
    if pa.types.is_floating(data_type):
        return {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[data_type.bit_width]
    if pa.types.is_struct(data_type):
        return pa.struct([each.with_type(_as_bits(each.type)) for each in data_type])
    if pa.types.is_map(data_type):
        key, item = data_type.key_field, data_type.item_field
        return pa.map_(key.with_type(_as_bits(key.type)), item.with_type(_as_bits(item.type)))
    if pa.types.is_list(data_type):
        element = data_type.value_field
        return pa.list_(element.with_type(_as_bits(element.type)))
    return data_type
