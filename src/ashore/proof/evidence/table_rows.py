"""Chosen rows of data files, Parquet, ORC and JSON lines, as plain values.

What it promises: only row groups and stripes with such rows are read; JSON lines are skipped over.
Memory is bounded by one of them.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc as po
import pyarrow.parquet as pq

from ashore.errors import AshoreError
from ashore.proof.evidence.offsets import StoredFile, Unreadable, read_pieces
from ashore.proof.evidence.plain_rows import Row, decode_row, plain_value
from ashore.storage.base import Storage
from ashore.tables.ddl import Schema

Blocks = Sequence[tuple[int, int]]


def read_rows(
    storage: Storage, place: tuple[str, int], extension: str, schema: Schema, blocks: Blocks
) -> Iterator[Row]:
    """Yield the rows of `blocks`, in order.

    Arguments:
        storage: where the file is.
        place: its path, and its size in bytes.
        extension: parquet, orc or jsonl.
        schema: of the file: the table's columns without those that only its path has.
        blocks: `[start, end)` of rows, ascending and apart.

    Requires: of ORC the bytes are what a writer wrote; others may end the process (see `apart`).
    Raises Unreadable, StorageError.

    """
    try:
        yield from _read(storage, place, extension, schema, blocks)
    except (AshoreError, Unreadable):
        raise
    except Exception as error:  # damaged bytes make parsers raise whatever there is
        raise Unreadable(next(iter(str(error).splitlines()), repr(error))) from error


def _read(
    storage: Storage, place: tuple[str, int], extension: str, schema: Schema, blocks: Blocks
) -> Iterator[Row]:
    file = StoredFile(storage, *place)
    match extension:
        case "parquet":
            yield from _rows_of(_read_parquet(file, schema.names, blocks), schema)
        case "orc":
            yield from _rows_of(_read_orc(file, schema.names, blocks), schema)
        case "jsonl":
            for line in _pick(_read_lines(storage, place[0]), blocks):
                yield decode_row(line, "json", schema)
        case _:
            raise Unreadable(f"{extension} is not a format that can be read back")


def _read_parquet(file: StoredFile, names: Sequence[str], blocks: Blocks) -> Iterator[pa.Table]:
    parquet = pq.ParquetFile(pa.PythonFile(file, mode="r"))
    first = 0
    for group in range(parquet.num_row_groups):
        last = first + parquet.metadata.row_group(group).num_rows
        parts = _within(blocks, first, last)
        if parts:
            table = parquet.read_row_group(group, list(names), use_threads=False)
            for start, end in parts:
                yield table.slice(start, end - start)
        first = last


def _read_orc(file: StoredFile, names: Sequence[str], blocks: Blocks) -> Iterator[pa.Table]:
    orc = po.ORCFile(pa.PythonFile(file, mode="r"))
    first = 0
    for stripe in range(orc.nstripes):
        # Nothing else says how many rows a stripe has.
        last = first + orc.read_stripe(stripe, columns=[names[-1]]).num_rows
        parts = _within(blocks, first, last)
        if parts:
            batch = orc.read_stripe(stripe, columns=list(names))
            for start, end in parts:
                yield pa.Table.from_batches([batch.slice(start, end - start)])
        first = last


def _within(blocks: Blocks, first: int, last: int) -> list[tuple[int, int]]:
    """Return the parts of blocks in rows `[first, last)`, counted from `first`."""
    cut = ((max(start, first), min(end, last)) for start, end in blocks)
    return [(start - first, end - first) for start, end in cut if start < end]


def _rows_of(tables: Iterator[pa.Table], schema: Schema) -> Iterator[Row]:
    for table in tables:
        columns = [
            [plain_value(value, field.type) for value in _values(table.column(field.name))]
            for field in schema.fields
        ]
        for values in zip(*columns, strict=True):
            yield dict(zip(schema.names, values, strict=True))


def _values(column: pa.ChunkedArray) -> list[Any]:
    """Return a column's values: times as microseconds, since not all of them are a datetime."""
    if pa.types.is_timestamp(column.type):
        micros = pa.timestamp("us", column.type.tz)
        column = pc.cast(column.cast(micros), pa.int64())
    values: list[Any] = column.to_pylist()
    return values


def _read_lines(storage: Storage, path: str) -> Iterator[bytes]:
    rest = b""
    for piece in read_pieces(storage, path):
        *lines, rest = (rest + piece).split(b"\n")
        yield from lines
    if rest:
        yield rest


def _pick(lines: Iterator[bytes], blocks: Blocks) -> Iterator[bytes]:
    left = iter(blocks)
    start, end = next(left, (0, 0))
    for number, line in enumerate(lines):
        if number >= end:
            start, end = next(left, (0, 0))
            if not end:
                return
        if number >= start:
            yield line
