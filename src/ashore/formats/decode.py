"""The seam between raw records and tables.

What it is: what a decoder is given (a batch of binary values) and what it answers.
What it promises: every value of the batch is either one row of the table or one bad row, never
both, never neither; rows keep the order of the values.
What it must not know: topics, offsets, dead-letter tables: rows are numbered within the batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from ashore.errors import check

Values: TypeAlias = pa.BinaryArray | pa.LargeBinaryArray


class BadRow(NamedTuple):
    """A value that is no row of the table, and why. `index` counts from 0 within the batch.

    A tuple, as there may be many: making a frozen dataclass costs four times as much.
    """

    index: int  # type: ignore[assignment]  # nobody looks for a value in a bad row
    reason: str


@dataclass(frozen=True, slots=True)
class Decoded:
    """A batch after decoding.

    Arguments:
        table: the good rows, with exactly the schema of the decoder.
        good: the index of the value that each row came from, ascending; None when all are good.
        bad: the other values, ascending by index.
        unknown_records: an estimate, from a sample, of how many good records have a top-level
            field that the schema does not name; exact for batches as small as the sample, and
            wherever the native decoder runs.
        unknown_names: such names as were met, sorted.

    """

    table: pa.Table
    good: pa.Int64Array | None
    bad: tuple[BadRow, ...] = ()
    unknown_records: int = 0
    unknown_names: tuple[str, ...] = ()


class Decoder(Protocol):
    """Turns batches of values into tables of one schema."""

    @property
    def schema(self) -> pa.Schema:
        """The schema of every table that `decode` returns."""
        ...

    def decode(self, values: Values) -> Decoded:
        """Return the rows and the bad rows of a batch. Never raises because of what values hold."""
        ...


def rows_without(count: int, bad: Sequence[BadRow]) -> pa.Int64Array | None:
    """Return 0 to `count` without the bad rows, or None when there is no bad row."""
    if not bad:
        return None
    is_good = bytearray(b"\x01") * count
    for row in bad:
        is_good[row.index] = 0
    flags = pa.Array.from_buffers(pa.uint8(), count, [None, pa.py_buffer(is_good)])
    rows = pc.indices_nonzero(flags.cast(pa.bool_())).cast(pa.int64())
    check(len(rows) + len(bad) == count, "a value is counted as bad twice")
    return rows
