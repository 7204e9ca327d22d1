"""JSON records to tables by the native module.

What it is: the second decoder for values that hold one JSON object each, ten times as fast.
What it promises: every verdict, value and reason is that of `JsonDecoder`. The module takes a value
only where `JsonDecoder` takes it; of what it cannot judge, `JsonDecoder` has the last word.
What it must not know: topics, offsets, what happens to bad records.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ashore.base.native import PACKAGE, why_not_native
from ashore.errors import NotInstalled, check
from ashore.formats.ddl import Schema
from ashore.formats.decode import BadRows, Decoded, Values, rows_without
from ashore.formats.json import UNKNOWN_NAMES_MAX, JsonDecoder


def require_native() -> None:
    """Raise NotInstalled where a job needs the native module and it cannot be used."""
    if reason := why_not_native():
        raise NotInstalled(
            f"`reader: native` needs the native module: {reason}",
            hint=f"install it wherever tasks run: pip install {PACKAGE}; or write `reader: auto`, "
            "which works without it",
        )


class NativeJsonDecoder:
    """Decodes values that hold one JSON object each. Unknown fields are counted, not estimated.

    Raises ValueError for a schema that JsonDecoder refuses, NotInstalled.
    """

    def __init__(self, schema: Schema, engine: str | None = None) -> None:
        """See JsonDecoder. `engine`: `scalar` for the loops of any processor; None: the best."""
        require_native()
        import ashore_native  # noqa: PLC0415 - it may not be there

        self._python = JsonDecoder(schema)
        self._native = ashore_native.JsonDecoder(self._python.schema, engine)

    @property
    def schema(self) -> pa.Schema:
        """The schema of every table that `decode` returns."""
        return self._python.schema

    def decode(self, values: Values) -> Decoded:
        """Return the rows and the bad rows of a batch. Never raises because of what values hold."""
        found = self._native.decode(values)
        batches = [pa.record_batch(block) for block in found.blocks]
        table = pa.Table.from_batches(batches, self.schema)
        names = tuple(found.unknown_names)
        if found.bad is None:
            check(table.num_rows == len(values), "a value was lost while decoding JSON")
            return Decoded(table, None, unknown_records=found.unknown_records, unknown_names=names)
        bad, asked = _split(pa.record_batch(found.bad))
        native = Decoded(table, None, bad, found.unknown_records, names)
        if len(asked):
            native = self._ask(values, native, asked)
        check(native.table.num_rows + len(native.bad) == len(values), "a value was lost")
        good = rows_without(len(values), native.bad.indices)
        return Decoded(native.table, good, native.bad, native.unknown_records, native.unknown_names)

    def _ask(self, values: Values, native: Decoded, asked: np.ndarray) -> Decoded:
        """Return what JsonDecoder makes of some values, put among the others."""
        indices = pa.array(asked)
        told = self._python.decode(values.take(indices))
        bad = BadRows(asked[told.bad.indices], told.bad.reasons)
        table = native.table
        if told.table.num_rows:
            # Of the native rows neither is one.
            before = rows_without(len(values), np.concatenate([native.bad.indices, asked]))
            after = indices if told.good is None else indices.take(told.good)
            rows = pa.concat_arrays([before, after])
            table = pa.concat_tables([table, told.table]).take(pc.sort_indices(rows))
        names = sorted({*native.unknown_names, *told.unknown_names})[:UNKNOWN_NAMES_MAX]
        return Decoded(
            table,
            None,
            BadRows.merge([native.bad, bad]),
            native.unknown_records + told.unknown_records,
            tuple(names),
        )


def _split(found: pa.RecordBatch) -> tuple[BadRows, np.ndarray]:
    """Return the rows that are bad, and the indices of those that JsonDecoder is to be asked of."""
    indices, reasons = found.column("index").to_numpy(), found.column("reason")
    if not reasons.null_count:
        return BadRows(indices, reasons), np.array([], np.int64)
    is_known = reasons.is_valid()
    known = BadRows(indices[is_known.to_numpy(zero_copy_only=False)], reasons.filter(is_known))
    return known, found.column("index").filter(reasons.is_null()).to_numpy()
