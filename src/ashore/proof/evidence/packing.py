"""`Packed`: lists of values in little memory, read one after the other, again and again.

What it promises: iterating gives equal values in the order in which they were added. A file of an
entry with a hundred takes about 50 bytes, instead of 650.
"""

import pickle
import zlib
from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")

_LEVEL = 1  # of compression: what is left are random names and checksums


class Packed(Generic[T]):
    """Values, list by list. Iterating unpacks one list at a time."""

    def __init__(self) -> None:
        self._lists: list[bytes] = []
        self._count = 0

    def add(self, values: Sequence[T]) -> None:
        """Add the values of a list at the end."""
        if values:
            self._lists.append(zlib.compress(pickle.dumps(list(values), 5), _LEVEL))
            self._count += len(values)

    def copy(self) -> "Packed[T]":
        """Return the same values; what is added here later is not there."""
        made = Packed[T]()
        made._lists, made._count = list(self._lists), self._count
        return made

    @property
    def list_count(self) -> int:
        """How many lists were added."""
        return len(self._lists)

    def clear(self) -> None:
        """Forget all values."""
        self._lists.clear()
        self._count = 0

    def lists(self) -> Iterator[list[T]]:
        """Yield the values list by list."""
        for packed in self._lists:
            yield pickle.loads(zlib.decompress(packed))  # noqa: S301 - packed by `add`, above

    def __iter__(self) -> Iterator[T]:
        """Yield all values."""
        for values in self.lists():
            yield from values

    def __len__(self) -> int:
        """Return how many values there are."""
        return self._count

    def __contains__(self, value: object) -> bool:
        """Return whether a value is there: looks at all of them."""
        return any(each == value for each in self)
