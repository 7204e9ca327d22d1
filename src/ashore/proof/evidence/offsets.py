"""Reading back from data files: how many rows, from which offsets, and chosen rows as values.

What it is: the provenance columns of Parquet, ORC and JSON lines, a shard at a time.
What it promises: only the footer and the provenance columns are read (of JSON lines, which have
neither, everything). Memory is bounded by one file's offsets.
"""

import hashlib
import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
import pyarrow.orc as po
import pyarrow.parquet as pq

from ashore.errors import AshoreError
from ashore.log.files import Role
from ashore.log.positions import StreamShard
from ashore.proof.evidence.plain_rows import Row, decode_row, plain_value
from ashore.proof.evidence.runs import Runs, runs_of
from ashore.tables.ddl import Schema

_MAIN_COLUMNS = ("kafka_topic", "kafka_partition", "kafka_offset")
_DEAD_COLUMNS = ("topic", "partition", "offset")
_GENERATIONS: dict[tuple[str, ...], str] = {
    _MAIN_COLUMNS: "kafka_generation",
    _DEAD_COLUMNS: "generation",
}  # if any
_JSON_BLOCK_BYTES = 16 << 20
_PIECE_BYTES = 8 << 20


class Unreadable(Exception):
    """A file's bytes are not what its format says."""


@dataclass(frozen=True, slots=True, eq=False)
class FileShard:
    """What a file holds of one topic partition."""

    stream: str
    shard: str
    rows: int
    offsets: Runs
    repeated: Runs  # offsets that come more than once
    generations: tuple[int, ...] = ()  # that its rows name, each once; none: they do not

    @property
    def partition(self) -> StreamShard:
        """The topic partition."""
        return StreamShard(self.stream, self.shard)

    def is_of_other(self, generation: int) -> bool:
        """Return whether some row names another generation of the topic."""
        return any(each != generation for each in self.generations)


@dataclass(frozen=True, slots=True, eq=False)
class FileOffsets:
    """What a file holds."""

    rows: int
    shards: tuple[FileShard, ...] | None  # None: the file has no provenance


class Readable(Protocol):
    """What is needed of a storage."""

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        """See Storage."""
        ...


class StoredFile(io.RawIOBase):
    """A file of a storage as a seekable file object. Used by one thread."""

    def __init__(self, storage: Readable, path: str, size_bytes: int) -> None:
        super().__init__()
        self._storage = storage
        self._path = path
        self._size_bytes = size_bytes
        self._position = 0

    def readable(self) -> bool:
        """See io."""
        return True

    def seekable(self) -> bool:
        """See io."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """See io."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size_bytes}
        self._position = base[whence] + offset
        return self._position

    def read(self, size: int = -1) -> bytes:
        """See io."""
        left = max(0, self._size_bytes - self._position)
        length = left if size is None or size < 0 else min(size, left)
        data = self._storage.read(self._path, self._position, length) if length else b""
        self._position += len(data)
        return data


def read_file(storage: Readable, path: str, size_bytes: int, kind: tuple[str, Role]) -> FileOffsets:
    """Return the rows and offsets of a file. `kind` is its extension and its table's role.

    Requires: of ORC the bytes are what a writer wrote; others may end the process (`apart`).
    Raises Unreadable, or StorageError.
    """
    extension, role = kind
    columns = _DEAD_COLUMNS if role is Role.DEAD else _MAIN_COLUMNS
    file = StoredFile(storage, path, size_bytes)
    with _as_unreadable():
        match extension:
            case "parquet":
                rows, table = _read_parquet(file, columns)
            case "orc":
                rows, table = _read_orc(file, columns)
            case "jsonl":
                rows, table = _read_json(storage, file, path, columns)
            case _:
                raise Unreadable(f"{extension} is not a format that can be read back")
        return FileOffsets(rows, None if table is None else _split(table))


@contextmanager
def _as_unreadable() -> Iterator[None]:
    try:
        yield
    except (AshoreError, Unreadable):
        raise
    except Exception as error:  # damaged bytes make parsers raise whatever there is
        raise Unreadable(next(iter(str(error).splitlines()), type(error).__name__)) from error


def _read_parquet(file: StoredFile, columns: tuple[str, ...]) -> tuple[int, pa.Table | None]:
    footer = pq.read_metadata(pa.PythonFile(file, mode="r"))
    if not set(columns) <= set(footer.schema.names):
        return int(footer.num_rows), None
    parquet = pq.ParquetFile(
        pa.PythonFile(file, mode="r"), metadata=footer, read_dictionary=[columns[0]]
    )
    columns_read = _with_generation(columns, footer.schema.names)
    return int(footer.num_rows), parquet.read(columns_read, use_threads=False)


def _with_generation(columns: tuple[str, ...], names: Sequence[str]) -> list[str]:
    generation = _GENERATIONS[columns]
    return [*columns, generation] if generation in names else list(columns)


def _read_orc(file: StoredFile, columns: tuple[str, ...]) -> tuple[int, pa.Table | None]:
    orc = po.ORCFile(pa.PythonFile(file, mode="r"))
    if not set(columns) <= set(orc.schema.names):
        return int(orc.nrows), None
    return int(orc.nrows), orc.read(_with_generation(columns, orc.schema.names))


def _read_json(
    storage: Readable, file: StoredFile, path: str, columns: tuple[str, ...]
) -> tuple[int, pa.Table | None]:
    rows = _count_objects(storage, path)
    if not rows:
        return 0, None
    names = (*columns, _GENERATIONS[columns])
    types = (pa.string(), pa.int32(), pa.int64(), pa.int32())
    table = pj.read_json(
        pa.PythonFile(file, mode="r"),
        pj.ReadOptions(use_threads=False, block_size=_JSON_BLOCK_BYTES),
        pj.ParseOptions(
            explicit_schema=pa.schema(list(zip(names, types, strict=True))),
            unexpected_field_behavior="ignore",
        ),
    )
    return rows, None if table.column(columns[2]).null_count == rows else table


def _count_objects(storage: Readable, path: str) -> int:
    """Return the lines of a file. Raises Unreadable unless each begins an object.

    Arrow's parser ends the process where a block that it cuts begins with `null`.
    """
    lines = objects = 0
    before = b"\n"
    for piece in read_pieces(storage, path):
        lines += piece.count(b"\n")
        objects += (before + piece).count(b"\n{")
        before = piece[-1:]
    if lines != objects or before != b"\n":
        raise Unreadable("a line is not a JSON object")
    return lines


def read_pieces(storage: Readable, path: str) -> Iterator[bytes]:
    """Yield the content of a file, in order, a piece at a time. Raises StorageError."""
    position = 0
    while piece := storage.read(path, position, _PIECE_BYTES):
        position += len(piece)
        yield piece


def checksum_of(storage: Readable, path: str) -> tuple[str, int]:
    """Return the checksum of a file as the log has it, and its size. Raises StorageError."""
    digest, size_bytes = hashlib.blake2b(digest_size=8), 0
    for piece in read_pieces(storage, path):
        digest.update(piece)
        size_bytes += len(piece)
    return digest.hexdigest(), size_bytes


def _split(table: pa.Table) -> tuple[FileShard, ...]:
    if not table.num_rows:
        return ()
    if any(column.null_count for column in table.columns[:3]):
        raise Unreadable("rows have no topic, partition or offset")
    topics = table.column(0).combine_chunks()
    if not pa.types.is_dictionary(topics.type):
        topics = topics.dictionary_encode()
    names = topics.dictionary.to_pylist()
    indices = topics.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    partitions = table.column(1).to_numpy().astype(np.int64)
    offsets = table.column(2).to_numpy().astype(np.int64, copy=False)
    codes = (indices << 32) | partitions
    generations = table.column(3).to_numpy() if table.num_columns > 3 else offsets[:0]
    if (codes[0] == codes).all():
        bounds = [0, len(codes)]
    else:
        order = np.argsort(codes, kind="stable")  # nearly sorted: files hold runs of shards
        codes, offsets = codes[order], offsets[order]
        generations = generations[order] if len(generations) else generations
        bounds = [0, *(np.flatnonzero(np.diff(codes)) + 1).tolist(), len(codes)]
    found = []
    for start, end in pairwise(bounds):
        code = int(codes[start])
        runs, repeated = runs_of(offsets[start:end])
        shard = str(code & 0xFFFFFFFF)
        named = _distinct(generations[start:end])
        found.append(FileShard(names[code >> 32], shard, end - start, runs, repeated, named))
    return tuple(found)


def _distinct(generations: np.ndarray) -> tuple[int, ...]:
    """Return the generations that rows name; a row without one, of an older file, names none."""
    known = generations[~np.isnan(generations)] if generations.dtype.kind == "f" else generations
    return tuple(int(each) for each in np.unique(known))


Blocks = Sequence[tuple[int, int]]


def read_file_rows(
    storage: Readable, place: tuple[str, int], extension: str, schema: Schema, blocks: Blocks
) -> Iterator[Row]:
    """Yield the rows of `blocks`, in order.

    Arguments:
        storage: where the file is.
        place: its path, and its size in bytes.
        extension: parquet, orc or jsonl.
        schema: of the file: the table's columns without those that only its path has.
        blocks: `[start, end)` of rows, ascending and apart.

    Requires: of ORC the bytes are what a writer wrote; others may end the process.
    Raises Unreadable, StorageError.

    """
    file = StoredFile(storage, *place)
    with _as_unreadable():
        match extension:
            case "parquet":
                yield from _rows_of(_slice_parquet(file, schema.names, blocks), schema)
            case "orc":
                yield from _rows_of(_slice_orc(file, schema.names, blocks), schema)
            case "jsonl":
                for line in _pick(_read_lines(storage, place[0]), blocks):
                    yield decode_row(line, "json", schema)
            case _:
                raise Unreadable(f"{extension} is not a format that can be read back")


def _slice_parquet(file: StoredFile, names: Sequence[str], blocks: Blocks) -> Iterator[pa.Table]:
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


def _slice_orc(file: StoredFile, names: Sequence[str], blocks: Blocks) -> Iterator[pa.Table]:
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


def _read_lines(storage: Readable, path: str) -> Iterator[bytes]:
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
