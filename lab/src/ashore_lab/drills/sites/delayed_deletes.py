"""Deletes that the network holds, on a real HDFS, and that arrive when something else stands there.

What it is: `DelayedDeletes`, the `DeleteCalls` of clients of two NameNodes behind a proxy.
What it promises: each call is made, as one call to the active NameNode, while a proxy lets nothing
through; it is given up, another NameNode becomes active, and the delete is made again there. When
the first NameNode is active and reached again, it makes the first call. Bytes that are repeated
would not do: a NameNode knows a repeated call by its id, and answers without doing it again.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from ashore.base.clock import SystemClock
from ashore.errors import ServiceError
from ashore.storage.base import Storage
from ashore_lab.drills.faults.late_delete import DeleteCalls
from ashore_lab.services.hdfs import Hdfs

CLOCK = SystemClock()
GIVEN_UP_S = 0.3
ARRIVES_S = 600.0
CALLS_MAX = 256


class DelayedDeletes(DeleteCalls):
    """The deletes below one root. Used by one thread at a time."""

    def __init__(self, hdfs: Hdfs, root: str, storage: Storage) -> None:
        super().__init__()
        self._hdfs = hdfs
        self._root = root
        self._storage = storage
        self._first = 0
        self._delayed: list[tuple[str, Future[None]]] = []
        self._made = 0
        self._pool = ThreadPoolExecutor(CALLS_MAX, thread_name_prefix="delayed-delete")

    def __len__(self) -> int:
        return self._made

    def add(self, path: str, _call: Callable[[], int]) -> None:
        """See DeleteCalls. Raises ServiceError."""
        is_new = not self._delayed
        if is_new:
            active = self._hdfs.active()
            if active is None:
                raise ServiceError("no NameNode is active", hint="was the last outage mended?")
            self._first = active
            self._hdfs.black_hole(active)
        call = self._pool.submit(
            self._hdfs.delete_tree, self._first, f"{self._root}/{path}", deadline_s=ARRIVES_S
        )
        self._delayed.append((path, call))
        self._made += 1
        if is_new:
            CLOCK.sleep(GIVEN_UP_S)
            self._hdfs.switch(1 - self._first)
            self._storage.stat(path)  # to look is harmless: so it learns who is active now

    def deliver(self) -> int:
        """See DeleteCalls: what is delayed arrives, once. Raises ServiceError."""
        delayed, self._delayed = self._delayed, []
        if not delayed:
            return 0
        before = self._count([path for path, _ in delayed])
        self._hdfs.switch(self._first)
        self._hdfs.restore(self._first)
        for _, call in delayed:
            call.result()
        return before - self._count([path for path, _ in delayed])

    def _count(self, paths: list[str]) -> int:
        return sum(_count_files(self._storage, path) for path in paths)


def _count_files(storage: Storage, path: str) -> int:
    found = storage.stat(path)
    if found is None or not found.is_directory:
        return int(found is not None)
    return sum(_count_files(storage, each.path) for each in storage.list(path))
