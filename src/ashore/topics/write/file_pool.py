"""The data files that a task has open.

What it is: one file a target, closed when it is full, when there are too many, and at the end. Its
rows stay in memory, and nothing is opened in the storage, while all of them are small enough:
so few rows for each of many targets become one file a target.
What it promises: never more than `open_max` files open in the storage and `closing_max` being
closed; files come out in the order in which they were begun; `finish` returns once all of them are
closed and their directories synced, in one call.
"""

import contextlib
from collections import OrderedDict, deque
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from ashore.base.unique import Entropy, unique
from ashore.errors import AshoreError, PathMissing
from ashore.log import names
from ashore.log.files import DataFile, Target
from ashore.storage.base import Storage
from ashore.topics.write.batch import Order
from ashore.topics.write.data_file import OpenFile, TargetRows


@dataclass(frozen=True, slots=True)
class PoolLimits:
    """What bounds the memory and the handles of a task."""

    open_max: int = 32  # in the storage
    closing_max: int = 16  # closing waits for HDFS, so several wait at once
    held_bytes_max: int = 64 << 20  # of all files together that the storage was not given yet
    files_max: int = 1_024  # that are not closed: each has some memory of its own


DEFAULT_LIMITS = PoolLimits()

TargetFiles = tuple[tuple[Target, ...], tuple[DataFile, ...]]


class FilePool:
    """Used by one thread; the closing of files runs on threads of its own."""

    def __init__(
        self,
        order: Order,
        task: int,
        storage: Storage,
        entropy: Entropy = unique,
        limits: PoolLimits = DEFAULT_LIMITS,
    ) -> None:
        self._order = order
        self._task = task
        self._storage = storage
        self._entropy = entropy
        self._limits = limits
        self._targets: dict[Target, int] = {}
        self._begun: list[OpenFile] = []
        self._paths: list[str] = []  # of those
        self._open: OrderedDict[int, OpenFile] = OrderedDict()  # least recently used first
        self._buffered: dict[int, int] = {}  # bytes, of each open file
        self._held_bytes = 0  # of all of them
        self._stored: OrderedDict[int, None] = OrderedDict()  # as `_open`: those in the storage
        self._closing: deque[Future[None]] = deque()
        self._closers = ThreadPoolExecutor(limits.closing_max, thread_name_prefix="close")

    @property
    def files(self) -> int:
        """How many files were begun."""
        return len(self._begun)

    def write_all(self, sorted_rows: Iterable[TargetRows]) -> TargetFiles:
        """Write rows and finish; release every file where that fails.

        Raises StorageError, or what making the rows raises.
        """
        try:
            for rows in sorted_rows:
                self.write(rows)
            return self.finish()
        except BaseException:
            self.abandon()
            raise

    def write(self, rows: TargetRows) -> None:
        """Append rows to the file of their target, beginning one where none is open.

        Raises StorageError, also for a file whose closing has failed meanwhile.
        """
        index = self._targets.setdefault(rows.target, len(self._targets))
        file = self._open.pop(index, None) or self._begin(index, rows)
        self._open[index] = file
        file.append(rows)
        self._note(index, file)
        if file.size_bytes >= rows.roll_bytes:
            self._close(index)
        self._bound_memory()
        self._bound_open()

    def finish(self) -> TargetFiles:
        """Close all files, sync their directories, and return what was written."""
        while self._open:
            self._close(next(iter(self._open)))
        self._wait_for_closing(0)
        self._closers.shutdown()
        directories = sorted({self._directory(target) for target in self._targets})
        if directories:
            self._storage.sync(directories)
        return tuple(self._targets), tuple(file.to_data_file() for file in self._begun)

    def abandon(self) -> None:
        """Release every file, after a failure, and delete what is staged. Never fails.

        No result of this attempt is returned, so no entry will ever name these files, and their
        names are used once: a delete that is applied late harms nothing. On a full disk each try
        would else leave files until the janitor comes. Where the storage does not delete one, the
        others are the janitor's. Waits for closings under way: the deadline of the storage bounds
        them.
        """
        self._closers.shutdown(cancel_futures=True)
        for file in self._begun:
            file.abandon()
        with contextlib.suppress(AshoreError):
            for file, path in zip(self._begun, self._paths, strict=True):
                if file.is_begun:
                    self._delete(path)

    def _delete(self, path: str) -> None:
        with contextlib.suppress(PathMissing):
            self._storage.delete(path)

    def _note(self, index: int, file: OpenFile) -> None:
        """Note what a file holds, and whether there is one in the storage."""
        held_bytes = file.held_bytes
        self._held_bytes += held_bytes - self._buffered.get(index, 0)
        self._buffered[index] = held_bytes
        if file.is_begun:
            self._stored[index] = None
            self._stored.move_to_end(index)

    def _bound_memory(self) -> None:
        """Hand over what the fullest files hold, until half of what all may hold is free."""
        if self._held_bytes <= self._limits.held_bytes_max:
            return
        for index in sorted(self._buffered, key=self._buffered.__getitem__, reverse=True):
            self._open[index].flush()
            self._note(index, self._open[index])
            self._bound_open()
            if self._held_bytes <= self._limits.held_bytes_max / 2:
                return

    def _bound_open(self) -> None:
        """Close the files of the storage that were least recently used, until few are open."""
        while len(self._stored) > self._limits.open_max:
            self._close(next(iter(self._stored)))

    def _begin(self, index: int, first: TargetRows) -> OpenFile:
        while len(self._open) >= self._limits.files_max:
            self._close(next(iter(self._open)))
        unique = self._entropy()
        file = names.pending_name(self._order.batch, unique)
        path = names.join(self._directory(first.target), file)
        opened = OpenFile(
            self._order,
            first,
            partial(self._storage.open_write, path),
            task=self._task,
            target=index,
            unique=unique,
        )
        self._begun.append(opened)
        self._paths.append(path)
        return opened

    def _close(self, index: int) -> None:
        file = self._open.pop(index)
        self._held_bytes -= self._buffered.pop(index)
        self._stored.pop(index, None)
        # Encoding takes memory and the task's one core, so it is not done side by side.
        file.end()
        self._wait_for_closing(self._limits.closing_max - 1)
        self._closing.append(self._closers.submit(file.close))

    def _wait_for_closing(self, left: int) -> None:
        """Wait until at most `left` files are being closed. Raises what the closing raised."""
        while self._closing and (len(self._closing) > left or self._closing[0].done()):
            self._closing.popleft().result()

    def _directory(self, target: Target) -> str:
        return names.staging_directory(target.table, self._order.name, self._order.epoch)
