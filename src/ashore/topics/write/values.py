"""Decoded values to rows.

What it is: one answer for the two ways: a decoder of ours, or columns that Spark has added.
What it promises: every record of a run is a row, or bad, or filtered: exactly one of them.
"""

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ashore.tables.ddl import parse_ddl
from ashore.topics.decode.arrow_types import to_arrow
from ashore.topics.decode.decode import NO_BAD_ROWS, BadRows, Decoder
from ashore.topics.decode.times import UNWRITABLE, find_unwritable
from ashore.topics.decode.wire import find_missing
from ashore.topics.write.batch import CRASHES
from ashore.topics.write.runs import DECODED, KEEP

NOT_DECODED = "Spark could not decode the value"
NO_VALUE = "no value"
NULL_IN_NOT_NULL = "null or no value in a NOT NULL column"


@dataclass(frozen=True, slots=True)
class Rows:
    """What a run holds.

    Arguments:
        table: the rows, in the order of their records.
        records: for each row the index of its record, ascending; None: every record is a row.
        bad: the records that are no row, in no order.
        filtered: how many records the table's filter has refused.
        unknown_fields: about how many rows have fields that the schema does not name.

    """

    table: pa.Table
    records: pa.Int64Array | None
    bad: BadRows
    filtered: int = 0
    unknown_fields: int = 0

    def without_unwritable(self, extension: str) -> "Rows":
        """Return these rows but those with a time that a file of this format cannot hold."""
        refused = find_unwritable(self.table, extension)
        if refused is None or not refused.true_count:
            return self
        records = self.records
        if records is None:
            records = pa.array(range(self.table.num_rows), pa.int64())
        bad = BadRows.because(records.filter(refused).to_numpy(), UNWRITABLE)
        kept = pc.invert(refused)
        return replace(
            self,
            table=self.table.filter(kept),
            records=records.filter(kept),
            bad=BadRows.merge([self.bad, bad]),
        )


class RowReader(Protocol):
    """Turns the records of a run into rows of one schema."""

    def read(self, records: pa.RecordBatch) -> Rows:
        """Return the rows of a run. Never raises because of what values hold."""
        ...


class DecodingReader:
    """Reads rows with a decoder of `ashore.topics.decode`."""

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder

    def read(self, records: pa.RecordBatch) -> Rows:
        """See RowReader."""
        decoded = self._decoder.decode(records.column("value"))
        return Rows(
            decoded.table, decoded.good, decoded.bad, unknown_fields=decoded.unknown_records
        )


class NoReader:
    """Reads nothing: every record is bad, as decoding it ends the process."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    def read(self, records: pa.RecordBatch) -> Rows:
        """See RowReader."""
        bad = BadRows.because(np.arange(records.num_rows), CRASHES)
        return Rows(self._schema.empty_table(), pa.array([], pa.int64()), bad)


class SparkReader:
    """Takes rows that Spark has decoded and filtered."""

    def __init__(self, ddl: str) -> None:
        self._ddl = parse_ddl(ddl)
        self._schema = to_arrow(self._ddl)

    def read(self, records: pa.RecordBatch) -> Rows:
        """See RowReader. A value that could not be decoded is bad, whatever the filter says."""
        decoded = records.column(DECODED)
        is_kept = pc.and_(pc.fill_null(records.column(KEEP), False), decoded.is_valid())
        rows = pc.indices_nonzero(is_kept).cast(pa.int64())
        bad = _undecoded(records, decoded)
        filtered = records.num_rows - len(rows) - len(bad)
        table = pa.Table.from_struct_array(decoded.take(rows)).select(self._schema.names)
        missing = find_missing(table, self._ddl)
        if missing is not None and missing.true_count:
            null = BadRows.because(rows.filter(missing).to_numpy(), NULL_IN_NOT_NULL)
            bad = BadRows.merge([bad, null])
            is_whole = pc.invert(missing)
            table, rows = table.filter(is_whole), rows.filter(is_whole)
        return Rows(table.cast(self._schema), rows, bad, filtered)


def _undecoded(records: pa.RecordBatch, decoded: pa.Array) -> BadRows:
    if not decoded.null_count:
        return NO_BAD_ROWS
    rows = np.flatnonzero(decoded.is_null().to_numpy(zero_copy_only=False))
    is_there = records.column("value").is_valid().to_numpy(zero_copy_only=False)[rows]
    why = {NO_VALUE: rows[~is_there], NOT_DECODED: rows[is_there]}
    return BadRows.merge([BadRows.because(each, reason) for reason, each in why.items()])
