"""A delete that was applied long before is delivered again, when something else stands there.

What it is: `LateDeletes`, a storage whose deletes are kept and come again on `deliver`.
What it promises: a delete is applied when it is made, whatever it finds, and again at each
`deliver`: as a call that was given up and repeated, and then arrived after all. (What that of a
directory does, each call struck late, is in `tests/crash`.) All who share one `DeleteCalls` share
the calls, also those of processes that have ended.

Here the network is played within the process, so that nothing else is needed. On a real HDFS calls
are delayed by a proxy: see `sites/delayed_deletes.py`.
"""

import threading
from collections.abc import Callable
from contextlib import suppress

from ashore.errors import PathMissing
from ashore.storage.base import Storage
from ashore_lab.testing import WrappedStorage

KIND = "late delete"


class DeleteCalls:
    """The deletes that were made on one lake, in their order."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: list[Callable[[], int]] = []

    def __len__(self) -> int:
        with self._lock:
            return len(self._calls)

    def add(self, _path: str, call: Callable[[], int]) -> None:
        """Keep a call that is about to be made. It returns how many files it has removed."""
        with self._lock:
            self._calls.append(call)

    def deliver(self) -> int:
        """Apply every call again; return how many files they have removed."""
        with self._lock:
            calls = list(self._calls)
        return sum(call() for call in calls)


class LateDeletes(WrappedStorage):
    """A Storage whose deletes come again. One for each process."""

    def __init__(self, inner: Storage, calls: DeleteCalls) -> None:
        super().__init__(inner)
        self.calls = calls

    def delete(self, path: str) -> None:
        """See Storage. That of a directory does not come again: it takes an empty one only."""
        found = self._inner.stat(path)
        if found is None or not found.is_directory:
            self.calls.add(path, lambda: _delete(self._inner, path))
        self._inner.delete(path)

    def delete_directory(self, directory: str) -> None:
        """Remove all files below a directory, as one call. Nothing there: nothing happens."""
        self.calls.add(directory, lambda: _delete_below(self._inner, directory))
        _delete_below(self._inner, directory)


def _delete_below(storage: Storage, directory: str) -> int:
    removed = 0
    for found in storage.list(directory):
        remove = _delete_below if found.is_directory else _delete
        removed += remove(storage, found.path)
    return removed


def _delete(storage: Storage, path: str) -> int:
    with suppress(PathMissing):
        storage.delete(path)
        return 1
    return 0
