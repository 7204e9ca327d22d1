"""Parquet files: zstd of level 3, dictionaries where they pay, row groups bounded in bytes.

What it is: the encoder for Parquet.
What it promises: Spark, Hive and Trino read the files: instants are INT64 microseconds adjusted to
UTC, lists and maps have the standard three levels. Fewer rows than a row group are buffered.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ashore.topics.decode.encode import Output, Sink
from ashore.topics.decode.wire import map_entries

GROUP_BYTES = 64 << 20  # of Arrow memory; the writer may need as much again while it encodes
SMALL_PIECE_BYTES = 1 << 20  # on average: many pieces that are smaller are slow to encode
JOINED_PIECES = 4
ARRAY_BYTES = 512  # what an array takes beside its values
PAGE_BYTES = 2 << 20  # a page is compressed alone, and zstd of level 3 looks 2 MB back
SAMPLE_ROWS = 16_384
# Of the sample. A row group has many times its rows, and hardly more of the values that repeat.
DISTINCT_RATIO_MAX = 0.6
# As many of its rows decide for the sample where nearly all of their values repeat, or hardly any
# do, as counting all takes several times as long. They stand anywhere in it: values that repeat
# by turns, or side by side, would not show among those that stand first, or apart.
FEW_ROWS = 2_048
CLEAR_RATIOS = (0.15, 0.97)
# A value this large fits in no dictionary and no statistics of a file: Arrow leaves them out, but
# holds the smallest and the largest value of a column three times while it encodes them.
LARGE_VALUE_BYTES = 1 << 20
RATIO_GUESS = 0.25  # file bytes per Arrow byte, until a row group has been measured


class ParquetEncoder:
    """Writes one Parquet file."""

    def __init__(self, output: Output, schema: pa.Schema, sorted_by: Sequence[str] = ()) -> None:
        """Open nothing yet.

        `sorted_by`: columns by which all rows of the file come sorted, ascending, nulls last. The
        footer has them as its sorting columns.
        """
        self._schema = schema
        self._sorted_by = sorted_by
        self._sink = Sink(output)
        self._writer: pq.ParquetWriter | None = None
        self._buffered: list[pa.Table] = []
        self._joined = 0  # of those, the first ones: they are not looked at again
        self._buffered_bytes = 0
        self._encoded_bytes = 0
        self._rows = 0

    @property
    def bytes_written(self) -> int:
        """An estimate of the file's size if it were closed now; exact after `close`."""
        known = self._sink.size_bytes and self._encoded_bytes
        ratio = self._sink.size_bytes / self._encoded_bytes if known else RATIO_GUESS
        return self._sink.size_bytes + int(self._buffered_bytes * ratio)

    @property
    def rows(self) -> int:
        """The rows handed to `write` so far."""
        return self._rows

    def write(self, table: pa.Table) -> None:
        """Append rows; a row group is written whenever enough of them are buffered."""
        self._buffered.append(table)
        self._buffered_bytes += table.nbytes
        self._rows += table.num_rows
        if self._buffered_bytes >= GROUP_BYTES:
            self.flush()
        elif len(self._buffered) - self._joined >= JOINED_PIECES:
            self._join_pieces()

    @property
    def held_bytes(self) -> int:
        """Memory of the rows that no row group holds yet, with that of their arrays."""
        return self._buffered_bytes + len(self._buffered) * len(self._schema) * ARRAY_BYTES

    def flush(self) -> None:
        """Write a row group of the buffered rows."""
        self._write_group()
        self._sink.check()

    def close(self, metadata: Mapping[str, str]) -> None:
        """Write the last row group and the footer with `metadata`."""
        self._write_group()
        writer = self._opened(self._schema.empty_table())
        writer.add_key_value_metadata(dict(metadata))
        writer.close()
        self._sink.check()

    def abandon(self) -> None:
        """Free everything without writing another byte."""
        self._sink.cut()
        self._buffered.clear()
        if self._writer is not None:
            self._writer.close()

    def _join_pieces(self) -> None:
        """Make one piece of the last ones: a few rows take less memory than the arrays they are in.

        So a file for each of many partitions can wait for more rows.
        """
        pieces = self._buffered[self._joined :]
        size_bytes = sum(each.nbytes for each in pieces)
        if size_bytes < SMALL_PIECE_BYTES:
            self._buffered[self._joined :] = [_combine(pieces, size_bytes)]
        self._joined = len(self._buffered)

    def _write_group(self) -> None:
        if not self._buffered:
            return
        table = _combine(self._buffered, self._buffered_bytes)
        groups = max(1, self._buffered_bytes // GROUP_BYTES)
        if table.num_rows:
            writer = self._opened(table)
            writer.write_table(table, row_group_size=-(-table.num_rows // groups))
        self._encoded_bytes += self._buffered_bytes
        self._buffered_bytes = self._joined = 0

    def _opened(self, first: pa.Table) -> pq.ParquetWriter:
        if self._writer is None:
            self._writer = pq.ParquetWriter(
                pa.PythonFile(self._sink, mode="w"),
                self._schema,
                compression="zstd",
                compression_level=3,  # the default of zstd itself, of Spark and of Flink
                data_page_size=PAGE_BYTES,
                use_dictionary=choose_dictionary_columns(first),
                write_statistics=_choose_statistics(first),
                sorting_columns=pq.SortingColumn.from_ordering(
                    self._schema, [(name, "ascending") for name in self._sorted_by]
                ),
                coerce_timestamps="us",
                # Only Arrow reads its own schema; all of it follows from the Parquet one.
                store_schema=False,
            )
        return self._writer


def _combine(pieces: list[pa.Table], size_bytes: int) -> pa.Table:
    """Return one table; in one piece, where its pieces are small on average. Empties `pieces`.

    A column at a time, so that only one of them is in memory twice.
    """
    is_small = size_bytes < SMALL_PIECE_BYTES * len(pieces)
    whole = pa.concat_tables(pieces)
    pieces.clear()
    if not is_small:
        return whole
    schema, columns = whole.schema, whole.columns
    del whole
    for index, column in enumerate(columns):
        columns[index] = column.combine_chunks()
        del column
    return pa.Table.from_arrays(columns, schema=schema)


def choose_dictionary_columns(table: pa.Table) -> list[str]:
    """Return the paths of leaf columns with few distinct values, by a sample of the first rows.

    A dictionary of mostly distinct values costs time, and space where it overflows half-way.
    """
    sample = table.slice(0, SAMPLE_ROWS)
    paths: list[str] = []
    for field, column in zip(sample.schema, sample.columns, strict=True):
        whole = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
        for path, leaf in _leaves(field.name, whole):
            is_counted = not (pa.types.is_boolean(leaf.type) or _has_large(leaf))
            if is_counted and _repeats(leaf):
                paths.append(path)
    return paths


def _choose_statistics(table: pa.Table) -> bool | list[str]:
    """Return the paths of leaf columns that get statistics; True: all."""
    if table.nbytes < LARGE_VALUE_BYTES:
        return True
    leaves = [
        (path, any(_has_large(part) for part in parts))
        for field, column in zip(table.schema, table.columns, strict=True)
        for path, parts in _leaves_of_chunks(field.name, column).items()
    ]
    small = [path for path, is_large in leaves if not is_large]
    return True if len(small) == len(leaves) else small


def _leaves_of_chunks(name: str, column: pa.ChunkedArray) -> dict[str, list[pa.Array]]:
    found: dict[str, list[pa.Array]] = {}
    for chunk in column.chunks or [pa.array([], column.type)]:
        for path, leaf in _leaves(name, chunk):
            found.setdefault(path, []).append(leaf)
    return found


def _has_large(leaf: pa.Array) -> bool:
    """Return whether a leaf column has a value of LARGE_VALUE_BYTES or more."""
    if leaf.nbytes < LARGE_VALUE_BYTES or not (
        pa.types.is_string(leaf.type) or pa.types.is_binary(leaf.type)
    ):
        return False
    longest = pc.max(pc.binary_length(leaf)).as_py()
    return longest is not None and longest >= LARGE_VALUE_BYTES


def _repeats(leaf: pa.Array) -> bool:
    low, high = CLEAR_RATIOS
    ratio = (
        None if len(leaf) <= 2 * FEW_ROWS else _distinct_ratio(leaf.take(_choose_few(len(leaf))))
    )
    if ratio is None or low < ratio < high:
        ratio = _distinct_ratio(leaf)
    return ratio is not None and ratio <= DISTINCT_RATIO_MAX


@lru_cache(maxsize=16)
def _choose_few(rows: int) -> pa.Array:
    """Return which rows are looked at first, by their number: the same each time."""
    return pa.array(np.sort(np.random.default_rng(rows).choice(rows, FEW_ROWS, replace=False)))


def _distinct_ratio(leaf: pa.Array) -> float | None:
    """Return how many of the values differ from each other; None: there are no values."""
    values = len(leaf) - leaf.null_count
    return pc.count_distinct(leaf, mode="only_valid").as_py() / values if values else None


def _leaves(path: str, array: pa.Array) -> Iterator[tuple[str, pa.Array]]:
    """Yield the primitive columns of a nested one, by the names that Parquet gives them."""
    if pa.types.is_struct(array.type):
        for field, part in zip(array.type, array.flatten(), strict=True):
            yield from _leaves(f"{path}.{field.name}", part)
    elif pa.types.is_map(array.type):
        keys, items = map_entries(array).flatten().flatten()
        yield from _leaves(f"{path}.key_value.key", keys)
        yield from _leaves(f"{path}.key_value.value", items)
    elif pa.types.is_list(array.type):
        yield from _leaves(f"{path}.list.element", array.flatten())
    else:
        yield path, array
