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
from ashore.topics.decode.decode import BadRow, BadRows, Decoder
from ashore.topics.decode.explain import Explainer
from ashore.topics.decode.reasons import CRASH, EMPTY, NOT_DECODED, NULL, UNWRITABLE_TIME
from ashore.topics.decode.times import find_unwritable
from ashore.topics.decode.wire import find_missing
from ashore.topics.write.runs import DECODED, KEEP
from ashore.topics.write.specs import LandingSpec


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
        bad = BadRows.because(records.filter(refused).to_numpy(), UNWRITABLE_TIME)
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
        bad = BadRows.because(np.arange(records.num_rows), CRASH)
        return Rows(self._schema.empty_table(), pa.array([], pa.int64()), bad)


class SparkReader:
    """Takes rows that Spark has decoded and filtered.

    The reason of a value that Spark could not decode is its first fault for `decode: json`.
    """

    def __init__(self, spec: LandingSpec) -> None:
        self._ddl = parse_ddl(spec.output.schema)
        self._schema = to_arrow(self._ddl)
        is_json = spec.decode == "json" and spec.decode_schema
        self._explainer = Explainer(parse_ddl(spec.decode_schema)) if is_json else None

    def read(self, records: pa.RecordBatch) -> Rows:
        """See RowReader. A value that could not be decoded is bad, whatever the filter says."""
        decoded = records.column(DECODED)
        is_kept = pc.and_(pc.fill_null(records.column(KEEP), False), decoded.is_valid())
        rows = pc.indices_nonzero(is_kept).cast(pa.int64())
        bad = self._undecoded(records, decoded)
        filtered = records.num_rows - len(rows) - len(bad)
        table = pa.Table.from_struct_array(decoded.take(rows)).select(self._schema.names)
        missing = find_missing(table, self._ddl)
        if missing is not None and missing.true_count:
            null = BadRows.because(rows.filter(missing).to_numpy(), NULL)
            bad = BadRows.merge([bad, null])
            is_whole = pc.invert(missing)
            table, rows = table.filter(is_whole), rows.filter(is_whole)
        return Rows(table.cast(self._schema), rows, bad, filtered)

    def _undecoded(self, records: pa.RecordBatch, decoded: pa.Array) -> BadRows:
        rows = pc.indices_nonzero(decoded.is_null())
        values = records.column("value").take(rows).to_pylist()
        return BadRows.of(map(BadRow, rows.to_pylist(), map(self._explain, values)))

    def _explain(self, value: bytes | None) -> str:
        found = self._explainer.explain_value(value) if self._explainer else None
        return found or (EMPTY if value is None else NOT_DECODED)
