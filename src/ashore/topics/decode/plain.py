"""Values that are not taken apart: text and bytes.

What it is: the decoders that give one column, the value itself.
What it promises: an empty value is an empty text or no bytes, and good; a value that is not there
(a tombstone) is bad, as in JSON; a text is UTF-8.
"""

import numpy as np
import pyarrow as pa

from ashore.tables.ddl import Atom, Schema
from ashore.topics.decode.arrow_types import to_arrow
from ashore.topics.decode.decode import NO_BAD_ROWS, BadRows, Decoded, Values, rows_without
from ashore.topics.decode.reasons import EMPTY, NOT_UTF8


class TextDecoder:
    """Decodes values into one STRING column."""

    def __init__(self, schema: Schema) -> None:
        self.schema = _one_column(schema, "text", Atom.STRING)

    def decode(self, values: Values) -> Decoded:
        """Return the texts, and as bad what is not UTF-8 or not there."""
        bad = _absent(values)
        try:
            texts = values.cast(pa.large_string())
        except pa.ArrowInvalid:
            rows = [
                row
                for row, value in enumerate(values.to_pylist())
                if value is not None and not _is_utf8(value)
            ]
            bad = BadRows.merge([bad, BadRows.because(np.array(rows, np.int64), NOT_UTF8)])
        good = rows_without(len(values), bad.indices)
        if good is not None:
            texts = values.take(good).cast(pa.large_string())
        return Decoded(_table(texts, self.schema), good, bad)


class BytesDecoder:
    """Decodes values into one BINARY column: they stay as they are."""

    def __init__(self, schema: Schema) -> None:
        self.schema = _one_column(schema, "bytes", Atom.BINARY)

    def decode(self, values: Values) -> Decoded:
        """Return the values that are there."""
        bad = _absent(values)
        good = rows_without(len(values), bad.indices)
        kept = values if good is None else values.take(good)
        return Decoded(_table(kept, self.schema), good, bad)


def _one_column(schema: Schema, name: str, atom: Atom) -> pa.Schema:
    if len(schema.fields) != 1 or schema.fields[0].type is not atom:
        raise ValueError(f"decode: {name} needs a schema of one {atom.value} column")
    return to_arrow(schema)


def _absent(values: Values) -> BadRows:
    if not values.null_count:
        return NO_BAD_ROWS
    rows = np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False))
    return BadRows.because(rows, EMPTY)


def _table(column: pa.Array, schema: pa.Schema) -> pa.Table:
    # Cut where 32-bit offsets would overflow: a batch may hold more than 2 GB.
    return pa.Table.from_batches([], schema) if not len(column) else _cast(column, schema)


def _cast(column: pa.Array, schema: pa.Schema) -> pa.Table:
    half = len(column) // 2
    if half and column.nbytes > 1 << 30:
        return pa.concat_tables([_cast(column[:half], schema), _cast(column[half:], schema)])
    return pa.Table.from_arrays([column.cast(schema.field(0).type)], schema=schema)


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True
