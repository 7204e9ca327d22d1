"""Several Parquet files of a partition written as one, with the same rows, as they were or sorted.

What it promises: a file is read only if its bytes are those of the log. What was written is read
back from the storage and compared with the old files, row by row and value by value, before it is
returned. In memory are one old file, a row group, and at the end the new file; of rows that are
sorted also a run of about RUN_BYTES.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import takewhile

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ashore.errors import FileConflict, check
from ashore.log import names
from ashore.log.files import DataFile
from ashore.log.plan_compact import FileGroup, ListedFile
from ashore.storage.base import Storage
from ashore.topics.write.batch import Order
from ashore.topics.write.data_files import FilePool, TargetRows, highest, lowest

RUN_BYTES = 512 << 20  # of rows that are sorted at once; more of them are several runs
_ROWS = 65_536  # read at once
_NO_LIMIT = 1 << 62


def rewrite_group(order: Order, storage: Storage, task: int, group: FileGroup) -> DataFile:
    """Write the rows of a group as one staged file, and return it without its spans.

    Sorted rows have the smallest values first and nulls last; equal ones stay in their order.
    Columns that the files do not have, and nested ones, are not sorted by. The file's footer names
    the columns by which it is sorted as a whole.

    Raises FileConflict where an old file is not what the log says; StorageError.
    If interrupted: an in-progress file remains; no entry names it.
    """
    pool = FilePool(order, task, storage)
    rows = (
        TargetRows(group.target, _NO_LIMIT, table, (), None, None, sorted_by)
        for table, sorted_by in _sort(_read_old(storage, group), group.sort_by)
    )
    _, files = pool.write_all(rows)
    check(len(files) == 1, f"{len(files)} files were written for one")
    (file,) = files
    staged = names.join(
        names.staging_directory(group.target.table, order.name, order.epoch),
        names.pending_name(order.batch, file.unique),
    )
    data = storage.read(staged)
    is_whole = hashlib.blake2b(data, digest_size=8).hexdigest() == file.checksum
    check(is_whole and file.rows == group.rows, f"{staged} is not what was written")
    old = (table for table, _ in _sort(_read_old(storage, group), group.sort_by))
    _require_same(staged, old, _read_rows(data))
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


def _read_old(storage: Storage, group: FileGroup) -> Iterator[pa.Table]:
    return (rows for each in group.files for rows in _read_rows(_read_listed(storage, each)))


def _sort(
    tables: Iterable[pa.Table], sort_by: Sequence[str]
) -> Iterator[tuple[pa.Table, tuple[str, ...]]]:
    """Yield rows sorted, in runs; as they are where there is nothing to sort by.

    With each, the columns by which the rows of all tables together are sorted: none of several
    runs.
    """
    run, size_bytes, is_whole = list[pa.Table](), 0, True
    for table in tables:
        if not sort_by:
            yield table, ()
            continue
        if size_bytes >= RUN_BYTES:
            yield from ((each, ()) for each in _sort_run(run, sort_by))
            run, size_bytes, is_whole = [], 0, False
        run.append(table)
        size_bytes += table.nbytes
    if run:
        sorted_by = _sorted_by(run[0].schema, sort_by) if is_whole else ()
        yield from ((each, sorted_by) for each in _sort_run(run, sort_by))


def _sorted_by(schema: pa.Schema, sort_by: Sequence[str]) -> tuple[str, ...]:
    """Return the columns whose order is the one of Iceberg and Parquet too, up to the first other.

    Arrow takes -0.0 and 0.0 for equal, and every NaN for the largest value.
    """
    keys = _list_keys(schema, sort_by)
    exact = takewhile(lambda name: not pa.types.is_floating(schema.field(name).type), keys)
    return tuple(exact)


def _list_keys(schema: pa.Schema, sort_by: Sequence[str]) -> list[str]:
    plain = {field.name for field in schema if not pa.types.is_nested(field.type)}
    return [name for name in sort_by if name in plain]


def _sort_run(run: Sequence[pa.Table], sort_by: Sequence[str]) -> Iterator[pa.Table]:
    rows = pa.concat_tables(run)
    keys = [(name, "ascending") for name in _list_keys(rows.schema, sort_by)]
    if not keys:
        yield from run
        return
    places = pc.sort_indices(rows, sort_keys=keys)  # stable
    check(len(places) == len(pc.unique(places)) == len(rows), "rows came or went while sorted")
    for start in range(0, len(rows), _ROWS):
        yield rows.take(places.slice(start, _ROWS))


def _require_same(staged: str, old: Iterator[pa.Table], new: Iterator[pa.Table]) -> None:
    """Raise InvariantBroken unless a staged file has the rows of a group, in their order."""
    is_same = all(left.equals(right) for left, right in _pair(_bits(old), _bits(new)))
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
