"""The data files that a task has open.

What it is: one open file a target, closed when it is full, when too many are open, and at the end.
What it promises: never more than `open_max` files open and `closing_max` being closed; files come
out in the order in which they were begun; `finish` returns once all of them are closed and their
directories synced, in one call.
What it must not know: topics, decoding, why a row goes where.
"""

from collections import OrderedDict, deque
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from ashore.base.unique import Entropy
from ashore.landing.batch import Order
from ashore.landing.writer.data_file import FileOrigin, OpenFile, Piece
from ashore.protocol import names
from ashore.protocol.files import DataFile, Target
from ashore.storage.base import Storage


@dataclass(frozen=True, slots=True)
class PoolLimits:
    """What bounds the memory and the handles of a task."""

    open_max: int = 32
    closing_max: int = 16  # closing waits for HDFS, so several wait at once
    held_bytes_max: int = 64 << 20  # rows of all open files together that are not encoded yet


DEFAULT_LIMITS = PoolLimits()


class FilePool:
    """Used by one thread; the closing of files runs on threads of its own."""

    def __init__(
        self, order: Order, task: int, storage: Storage, entropy: Entropy, limits: PoolLimits
    ) -> None:
        self._order = order
        self._task = task
        self._storage = storage
        self._entropy = entropy
        self._limits = limits
        self._targets: dict[Target, int] = {}
        self._begun: list[OpenFile] = []
        self._open: OrderedDict[int, OpenFile] = OrderedDict()  # least recently used first
        self._closing: deque[Future[None]] = deque()
        self._closers = ThreadPoolExecutor(limits.closing_max, thread_name_prefix="close")

    def write_all(self, pieces: Iterable[Piece]) -> tuple[tuple[Target, ...], tuple[DataFile, ...]]:
        """Write pieces and finish; let go of every file where that fails.

        Raises StorageError, or what making the pieces raises.
        """
        try:
            for piece in pieces:
                self.write(piece)
            return self.finish()
        except BaseException:
            self.abandon()
            raise

    def write(self, piece: Piece) -> None:
        """Append rows to the file of their target, beginning one where none is open.

        Raises StorageError, also for a file whose closing has failed meanwhile.
        """
        index = self._targets.setdefault(piece.target, len(self._targets))
        file = self._open.pop(index, None) or self._begin(index, piece)
        self._open[index] = file
        file.append(piece)
        if file.size_bytes >= piece.roll_bytes:
            self._close(self._open.pop(index))
        self._bound_memory()

    def finish(self) -> tuple[tuple[Target, ...], tuple[DataFile, ...]]:
        """Close all files, sync their directories, and return what was written."""
        while self._open:
            self._close(self._open.popitem(last=False)[1])
        self._wait_for_closing(0)
        self._closers.shutdown()
        directories = sorted({self._directory(target) for target in self._targets})
        if directories:
            self._storage.sync(directories)
        return tuple(self._targets), tuple(file.to_data_file() for file in self._begun)

    def abandon(self) -> None:
        """Let go of every file, after a failure. Never fails.

        Waits for closings under way: the deadline of the storage bounds them.
        """
        self._closers.shutdown(cancel_futures=True)
        for file in self._begun:
            file.abandon()

    def _bound_memory(self) -> None:
        """Encode the rows of the fullest files, until half of what all may hold is free."""
        held = {index: file.held_bytes for index, file in self._open.items()}
        total = sum(held.values())
        if total <= self._limits.held_bytes_max:
            return
        for index in sorted(held, key=held.__getitem__, reverse=True):
            self._open[index].flush()
            total -= held[index]
            if total <= self._limits.held_bytes_max / 2:
                return

    def _begin(self, index: int, piece: Piece) -> OpenFile:
        while len(self._open) >= self._limits.open_max:
            self._close(self._open.popitem(last=False)[1])
        unique = self._entropy()
        file = names.pending_name(self._order.batch, unique)
        path = names.join(self._directory(piece.target), file)
        origin = FileOrigin(self._order, self._task, index, unique)
        opened = OpenFile(origin, self._storage.open_write(path), piece)
        self._begun.append(opened)
        return opened

    def _close(self, file: OpenFile) -> None:
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
