"""A disk that is full for a while: ENOSPC, as a local disk or a quota gives it.

What it is: `DiskFull`, and `FullStorage`, which obeys it by the drill's clock.
What it promises: while the disk is full nothing new fits; half of what was to be written may be
there. Moves, reads and deletes work: they need no room.
"""

import errno
import os
from dataclasses import dataclass

from ashore.base.clock import Clock
from ashore.errors import StorageError
from ashore.storage.base import FileWriter, GuardedWriter, Storage
from ashore_lab.testing import WrappedStorage

NO_SPACE = os.strerror(errno.ENOSPC)


@dataclass(frozen=True, slots=True)
class DiskFull:
    """`room_bytes` fit; then the disk is full for `seconds`. Room is made once."""

    room_bytes: int
    seconds: float
    is_for_files: bool = False  # only data files take room: one of them is the first without

    def __str__(self) -> str:
        what = " of data files" if self.is_for_files else ""
        return f"disk full after {self.room_bytes:,} bytes{what}, for {self.seconds:g} s"


class FullStorage(WrappedStorage):
    """A Storage that runs out of room. One for all processes that write there."""

    def __init__(self, inner: Storage, full: DiskFull, clock: Clock) -> None:
        super().__init__(inner)
        self._full = full
        self._clock = clock
        self._room_bytes = full.room_bytes
        self._full_since_s: float | None = None
        self.taken_bytes = 0
        self.file_bytes = 0  # taken by data files
        self.refused = ""  # the first thing that found no room

    @property
    def was_full(self) -> bool:
        """Whether the fault has struck."""
        return self._full_since_s is not None

    def take(self, size_bytes: int, path: str, *, is_file: bool = False) -> None:
        """Take room, for a data file or something else. Raises StorageError where there is none."""
        now_s = self._clock.monotonic_s()
        takes_room = is_file or not self._full.is_for_files
        if self._full_since_s is None and takes_room and size_bytes > self._room_bytes:
            self._full_since_s = now_s
        if self._full_since_s is not None:
            if now_s < self._full_since_s + self._full.seconds:
                self.refused = self.refused or f"{size_bytes:,} bytes for {path}"
                raise StorageError(f"{path}: {NO_SPACE}", path=path)
            return
        self._room_bytes -= size_bytes if takes_room else 0
        self.taken_bytes += size_bytes
        self.file_bytes += size_bytes if is_file else 0

    def create(self, path: str, data: bytes) -> None:
        """See Storage."""
        self.take(len(data), path)
        self._inner.create(path, data)

    def open_write(self, path: str) -> FileWriter:
        """See Storage."""
        return _FullWriter(self, self._inner.open_write(path), path)


class _FullWriter(GuardedWriter):
    def __init__(self, storage: FullStorage, inner: FileWriter, path: str) -> None:
        super().__init__(path)
        self._storage = storage
        self._inner = inner

    def _append(self, data: memoryview) -> None:
        try:
            self._storage.take(len(data), self._path, is_file=True)
        except StorageError:
            self._inner.write(bytes(data[: len(data) // 2]))
            raise
        self._inner.write(bytes(data))

    def _finish(self) -> None:
        self._inner.close()

    def _release(self) -> None:
        self._inner.abandon()
