"""Fetched records as the rows of the source `ashore`.

What it is: `read_split`, the rows of the offsets that a task reads; `RowMaker`, from a batch of
records to batches of Arrow with the columns of a shape.
What it promises: one row for each record, in order: with its values, or with the reason why it has
none. Memory is bounded: what is decoded at once has few rows where rows are wide.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType

import numpy as np
import pyarrow as pa

from ashore.errors import check
from ashore.log.positions import StreamShard
from ashore.tables.ddl import Schema
from ashore.tables.masks import CONTENTS
from ashore.topics.decode.arrow_types import to_arrow
from ashore.topics.decode.decode import Decoded
from ashore.topics.decode.registry import make_decoder
from ashore.topics.loop.splits import Split
from ashore.topics.read.reading import KafkaAddress, ReadReport
from ashore.topics.run.spark.source.record_schema import (
    DECODED,
    HEADERS,
    REASON,
    RowShape,
)

ROW_BYTES = 16 << 20  # that the columns of fixed width of a batch may have
ROWS_MIN = 1_024


def read_split(
    kafka: KafkaAddress,
    split: Split,
    maker: "RowMaker",
    *,
    topic_ids: Mapping[str, str] = MappingProxyType({}),
    report: ReadReport | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the records of a split as rows. Runs on an executor.

    `topic_ids`: as planned, where they are known. Raises as `KafkaAddress.read`.
    """
    ranges = {StreamShard(each.key.stream, each.key.shard): each.offsets for each in split}
    topics = {each.stream for each in ranges}
    with_headers = topics if maker.has_headers else set()
    ids = {topic: topic_ids[topic] for topic in topics if topic in topic_ids}
    for records in kafka.read(ranges, with_headers, ids, report):
        yield from maker.make(records)


class RowMaker:
    """Makes rows of records. `schema`: the columns of the shape, as Spark expects them.

    Raises ValueError where the decoder does not take the shape's schema, NotInstalled.
    """

    def __init__(self, shape: RowShape, schema: pa.Schema, reader: str) -> None:
        self._shape = shape
        self._schema = schema
        self._decoder = make_decoder(shape.decode, shape.schema, reader, shape.mask)
        self._rows_max = max(ROWS_MIN, ROW_BYTES // max(1, _fixed_bytes(shape.schema)))

    @property
    def has_headers(self) -> bool:
        """Whether rows have the headers of their records."""
        return HEADERS in self._shape.columns

    def make(self, records: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield the rows of records, which have the columns of FETCHED."""
        for start in range(0, records.num_rows, self._rows_max):
            yield self._make(records.slice(start, self._rows_max))

    def _make(self, records: pa.RecordBatch) -> pa.RecordBatch:
        decoded = self._decoder.decode(records.column("value"))
        columns = [self._column(field, records, decoded) for field in self._schema]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _column(self, field: pa.Field, records: pa.RecordBatch, decoded: Decoded) -> pa.Array:
        count, name = records.num_rows, field.name
        if name == DECODED:
            return _structs(field.type, decoded, count)
        if name == REASON:
            return _reasons(decoded, count)
        if self._shape.mask and name in CONTENTS:
            return pa.nulls(count, field.type)
        if name == "value" and not self._shape.keeps_values:
            return _only_invalid(records.column(name), decoded)
        found = records.column(name)
        return found if found.type == field.type else found.cast(field.type)


def _structs(kind: pa.StructType, decoded: Decoded, count: int) -> pa.StructArray:
    """Return the values as structs, null where a record has none."""
    places = None if decoded.good is None else _places(decoded.good.to_numpy(), count)
    children = [_child(decoded.table, field, places) for field in kind]
    mask = None if places is None else places.is_null()
    check(all(len(each) == count for each in children), "a row of a record was lost")
    return pa.StructArray.from_arrays(children, fields=list(kind), mask=mask)


def _places(rows: "np.typing.NDArray[np.int64]", count: int) -> pa.Int64Array:
    """Return for each of `count` rows its place in `rows`, null where it is not there."""
    places = np.full(count, -1, np.int64)
    places[rows] = np.arange(len(rows))
    return pa.array(places, mask=places < 0)


def _child(table: pa.Table, field: pa.Field, places: pa.Int64Array | None) -> pa.Array:
    column = table.column(field.name).combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.nulls(0, column.type)
    if places is not None:
        column = column.take(places)
    return column if column.type == field.type else column.cast(field.type)


def _reasons(decoded: Decoded, count: int) -> pa.StringArray:
    if not len(decoded.bad):
        return pa.nulls(count, pa.string())
    return decoded.bad.reasons.take(_places(decoded.bad.indices, count))


def _only_invalid(values: pa.BinaryArray, decoded: Decoded) -> pa.BinaryArray:
    if not len(decoded.bad):
        return pa.nulls(len(values), pa.binary())
    rows = decoded.bad.indices
    return values.take(rows).take(_places(rows, len(values)))


def _fixed_bytes(schema: Schema) -> int:
    """Return the bytes that each row has in columns of fixed width, whatever its values are."""
    return sum(map(_width, to_arrow(schema).types))


def _width(kind: pa.DataType) -> int:
    if pa.types.is_struct(kind):
        return sum(_width(each.type) for each in kind)
    try:
        return kind.bit_width // 8 or 1
    except ValueError:
        return 4  # the offset of a value of any length
