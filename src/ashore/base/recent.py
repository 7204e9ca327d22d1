"""The values that were put last, by key: never more than a number of them; the oldest goes first.

What it promises: many threads may use it, and may compute the same value at the same time.
"""

from collections import OrderedDict
from collections.abc import Hashable
from threading import Lock
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Recent(Generic[K, V]):
    """Up to `most` values. One that is put again keeps its age."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[K, V] = OrderedDict()
        self._lock = Lock()

    def get(self, key: K) -> V | None:
        """Return the value of a key, or None."""
        with self._lock:
            return self._values.get(key)

    def put(self, key: K, value: V) -> V:
        """Keep a value, and return it."""
        with self._lock:
            self._values[key] = value
            while len(self._values) > self._most:
                self._values.popitem(last=False)
        return value

    def clear(self) -> None:
        """Keep nothing."""
        with self._lock:
            self._values.clear()
