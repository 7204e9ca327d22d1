"""ORC files, zstd.

What it is: the encoder for ORC.
What it promises: Spark and Hive read the files: an instant is ORC's `timestamp with local time
zone`, and a TIMESTAMP_NTZ is refused, because Spark would not read it back. Arrow's writer takes no
metadata for the footer: what is given at close is dropped.
"""

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.orc as po

from ashore.topics.decode.encode import Output, Sink

STRIPE_BYTES = 8 << 20  # buffered by Arrow's writer for each open file
RATIO_GUESS = 0.25


class OrcEncoder:
    """Writes one ORC file. Raises ValueError for a schema with a TIMESTAMP_NTZ."""

    def __init__(self, output: Output, schema: pa.Schema) -> None:
        for field in schema:
            if _has_wall_time(field.type):
                raise ValueError(f"{field.name}: Spark cannot read TIMESTAMP_NTZ from ORC")
        self._schema = schema
        self._sink = Sink(output)
        self._writer = po.ORCWriter(
            pa.PythonFile(self._sink, mode="w"), compression="zstd", stripe_size=STRIPE_BYTES
        )
        self._taken_bytes = 0
        self._rows = 0
        self._is_closed = False

    @property
    def bytes_written(self) -> int:
        """An estimate: stripes under way are guessed. Exact after `close`."""
        if self._is_closed:
            return self._sink.size_bytes
        return max(self._sink.size_bytes, int(self._taken_bytes * RATIO_GUESS))

    @property
    def rows(self) -> int:
        """The rows handed to `write` so far."""
        return self._rows

    def write(self, table: pa.Table) -> None:
        """Append rows; they are compressed in memory until a stripe is full."""
        self._writer.write(_writable(table))
        self._sink.check()
        self._taken_bytes += table.nbytes
        self._rows += table.num_rows

    @property
    def held_bytes(self) -> int:
        """0: `flush` frees nothing."""
        return 0

    def flush(self) -> None:
        """Do nothing: rows are encoded as they come."""

    def close(self, metadata: Mapping[str, str]) -> None:  # noqa: ARG002 - see the module
        """Write the last stripe and the footer."""
        if not self._rows:
            self._writer.write(self._schema.empty_table())  # else the file has no schema
        self._writer.close()
        self._is_closed = True
        self._sink.check()

    def abandon(self) -> None:
        """Free everything without writing another byte."""
        self._sink.cut()
        self._writer.close()


def _writable(table: pa.Table) -> pa.Table:
    """Return the table with copies of its structs, of which Arrow may write other rows.

    It looks the rows of a sliced struct that has nulls up in the parts without the slice's start,
    and below a struct without nulls it writes the parts of one that is null as if they were there.
    """
    for index, column in enumerate(table.columns):
        if _has_struct(column.type) and column.num_chunks:
            chunks = [_copy(pa.concat_arrays([chunk])) for chunk in column.chunks]
            name = table.column_names[index]
            table = table.set_column(index, name, pa.chunked_array(chunks))
    return table


def _copy(column: pa.Array) -> pa.Array:
    """Return a column in which every part of a struct that is null is null as well.

    Requires: it is no slice, at any depth.
    """
    kind = column.type
    if not _has_struct(kind):
        return column
    mask = column.is_null() if column.null_count else None
    if pa.types.is_struct(kind):
        fields = [field.with_nullable(True) for field in kind]
        parts = [_copy(part) for part in column.flatten()]
        return pa.StructArray.from_arrays(parts, fields=fields, mask=mask)
    if pa.types.is_map(kind):
        keys, items = _copy(column.keys), _copy(column.items)
        whole = pa.map_(keys.type, items.type)
        return pa.MapArray.from_arrays(column.offsets, keys, items, type=whole, mask=mask)
    return pa.ListArray.from_arrays(column.offsets, _copy(column.values), mask=mask)


def _has_struct(data_type: pa.DataType) -> bool:
    if pa.types.is_struct(data_type):
        return True
    if pa.types.is_map(data_type):
        return _has_struct(data_type.item_type) or _has_struct(data_type.key_type)
    return any(_has_struct(data_type.field(i).type) for i in range(data_type.num_fields))


def _has_wall_time(data_type: pa.DataType) -> bool:
    if pa.types.is_timestamp(data_type):
        return data_type.tz is None
    return any(_has_wall_time(data_type.field(i).type) for i in range(data_type.num_fields))
