"""Folds of logs that are looked at again and again, each time read on from where they were.

What it is: `KnownFolds`, which `OpenJob` asks where it has one.
What it promises: `read` returns what `read_log` would: a fold is used again only where its last
entry is still that of the log. What is kept is bounded, whatever the sizes of jobs.
What it must not know: who looks.
"""

import threading
from collections import OrderedDict

from ashore.landing.log_reader import read_log
from ashore.protocol.fold import EMPTY, Fold
from ashore.protocol.names import SliceName
from ashore.storage.base import Storage

ITEMS_MAX = 100_000  # of all folds that are kept: shards, partitions and the like


class KnownFolds:
    """Reads logs on. May be used by many threads."""

    def __init__(self, items_max: int = ITEMS_MAX) -> None:
        self._items_max = items_max
        self._lock = threading.Lock()
        self._folds: OrderedDict[tuple[str, SliceName], Fold] = OrderedDict()
        self._items = 0

    def read(self, storage: Storage, name: SliceName) -> Fold:
        """Return the fold of a log as it is now. Raises as `read_log`."""
        key = storage.describe(), name
        with self._lock:
            known = self._folds.get(key, EMPTY)
        fold = read_log(storage, name, known)
        if fold is not known:
            self._keep(key, fold)
        return fold

    def _keep(self, key: tuple[str, SliceName], fold: Fold) -> None:
        with self._lock:
            before = self._folds.pop(key, None)
            self._items += items_of(fold) - (items_of(before) if before is not None else 0)
            self._folds[key] = fold
            while self._items > self._items_max:
                _, oldest = self._folds.popitem(last=False)
                self._items -= items_of(oldest)


def items_of(fold: Fold) -> int:
    """Return how large a fold is, in things that it has."""
    state = len(fold.shards) + len(fold.partitions) + len(fold.tables)
    return 1 + state + len(fold.deferred) + len(fold.left_out)
