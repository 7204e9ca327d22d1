"""The seam between raw records and tables.

What it is: what a decoder is given (a batch of binary values) and what it answers.
What it promises: every value of the batch is either one row of the table or one bad row, never
both, never neither; rows keep the order of the values.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias, overload

import numpy as np
import pyarrow as pa

from ashore.errors import check

Values: TypeAlias = pa.BinaryArray | pa.LargeBinaryArray


class BadRow(NamedTuple):
    """A value that is no row of the table, and why. `index` counts from 0 within the batch."""

    index: int  # type: ignore[assignment]  # a bad row is never searched for a value
    reason: str


class BadRows(Sequence[BadRow]):
    """Bad rows as columns, as there may be many.

    Arguments:
        indices: of the values, int64.
        reasons: one for each (`ashore.topics.decode.reasons`).

    """

    __slots__ = ("indices", "reasons")

    def __init__(self, indices: np.ndarray, reasons: pa.StringArray) -> None:
        check(len(indices) == len(reasons), "a bad row without a reason")
        self.indices = indices
        self.reasons = reasons

    @classmethod
    def of(cls, rows: Iterable[BadRow]) -> "BadRows":
        """Return rows that were met one by one."""
        listed = list(rows)
        indices = np.array([row.index for row in listed], np.int64)
        return cls(indices, pa.array([row.reason for row in listed], pa.string()))

    @classmethod
    def because(cls, indices: np.ndarray, reason: str) -> "BadRows":
        """Return rows that are bad for one reason."""
        return cls(indices, pa.repeat(reason, len(indices)))

    @classmethod
    def merge(cls, parts: Sequence["BadRows"]) -> "BadRows":
        """Return the rows of all parts, ascending; no two are of one value."""
        parts = [part for part in parts if len(part)]
        if len(parts) == 1:
            (merged,) = parts
        elif parts:
            indices = np.concatenate([part.indices for part in parts])
            merged = cls(indices, pa.concat_arrays([part.reasons for part in parts]))
        else:
            return NO_BAD_ROWS
        if (np.diff(merged.indices) > 0).all():
            return merged
        order = np.argsort(merged.indices, kind="stable")
        return cls(merged.indices[order], merged.reasons.take(pa.array(order)))

    def __len__(self) -> int:
        return len(self.indices)

    def __iter__(self) -> Iterator[BadRow]:
        return map(BadRow, self.indices.tolist(), self.reasons.to_pylist())

    @overload
    def __getitem__(self, at: int) -> BadRow: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[BadRow]: ...
    def __getitem__(self, at: int | slice) -> BadRow | Sequence[BadRow]:
        if isinstance(at, slice):
            return tuple(self)[at]
        return BadRow(int(self.indices[at]), self.reasons[at].as_py())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"BadRows({list(self)!r})"


# Not of a list: Arrow loads pandas to look at one, and each importer would wait for it.
NO_BAD_ROWS = BadRows(np.array([], np.int64), pa.nulls(0, pa.string()))


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
        filtered: how many values are neither, as the table's filter has refused them.

    """

    table: pa.Table
    good: pa.Int64Array | None
    bad: BadRows = NO_BAD_ROWS
    unknown_records: int = 0
    unknown_names: tuple[str, ...] = ()
    filtered: int = 0


class Decoder(Protocol):
    """Turns batches of values into tables of one schema."""

    @property
    def schema(self) -> pa.Schema:
        """The schema of every table that `decode` returns."""
        ...

    def decode(self, values: Values) -> Decoded:
        """Return the rows and the bad rows of a batch. Never raises because of what values hold."""
        ...


def rows_without(count: int, bad: np.ndarray) -> pa.Int64Array | None:
    """Return 0 to `count` without the indices of bad rows, or None when there is no bad row."""
    if not len(bad):
        return None
    is_good = np.ones(count, np.bool_)
    is_good[bad] = False
    rows = np.flatnonzero(is_good)
    check(len(rows) + len(bad) == count, "a value is counted as bad twice")
    return pa.array(rows, pa.int64())
