"""JSON records to tables by the native module.

What it is: the second decoder for values that hold one JSON object each, ten times as fast.
What it promises: every verdict, value and reason is that of `JsonDecoder`. The module takes a value
only where `JsonDecoder` takes it; of what it cannot judge, `JsonDecoder` has the last word.
"""

import pyarrow as pa
import pyarrow.compute as pc

from ashore.base.native import PACKAGE, why_not_native
from ashore.errors import NotInstalled, check
from ashore.tables.ddl import Schema
from ashore.topics.decode.decode import BadRows, Decoded, Values
from ashore.topics.decode.json import UNKNOWN_NAMES_MAX, JsonDecoder


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
        self.schema = self._python.schema
        self._native = ashore_native.JsonDecoder(self.schema, engine)

    def decode(self, values: Values) -> Decoded:
        """Return the rows and the bad rows of a batch. Never raises because of what values hold."""
        found = self._native.decode(values)
        batches = [pa.record_batch(block) for block in found.blocks]
        table = pa.Table.from_batches(batches, self.schema)
        names = tuple(found.unknown_names)
        if found.verdicts is None:
            check(table.num_rows == len(values), "a value was lost while decoding JSON")
            return Decoded(table, None, unknown_records=found.unknown_records, unknown_names=names)
        good, bad, reasons, rest = found.verdicts
        rows = pa.array(good)
        check(table.num_rows == len(rows), "a row is of no value")
        known = BadRows(pa.array(bad).to_numpy(), pa.array(reasons))
        decoded = Decoded(table, rows, known, found.unknown_records, names)
        if rest is not None:
            decoded = self._ask(values, decoded, rows, pa.array(rest))
        is_whole = decoded.table.num_rows + len(decoded.bad) == len(values)
        check(is_whole, "a value was lost while decoding JSON")
        return decoded

    def _ask(
        self, values: Values, native: Decoded, good: pa.Int64Array, rest: pa.Int64Array
    ) -> Decoded:
        """Return what JsonDecoder makes of some values, put among the others; `good` of these."""
        judged = self._python.decode(values.take(rest))
        table = native.table
        if judged.table.num_rows:
            more = rest if judged.good is None else rest.take(judged.good)
            rows = pa.concat_arrays([good, more])
            order = pc.sort_indices(rows)
            table = pa.concat_tables([table, judged.table]).take(order)
            good = rows.take(order)
        bad = BadRows.merge(
            [native.bad, BadRows(rest.to_numpy()[judged.bad.indices], judged.bad.reasons)]
        )
        names = sorted({*native.unknown_names, *judged.unknown_names})[:UNKNOWN_NAMES_MAX]
        return Decoded(
            table,
            good if len(bad) else None,
            bad,
            native.unknown_records + judged.unknown_records,
            tuple(names),
        )
