"""A lake in memory.

What it is: the storage seam without a disk, for tests and for trying things out.
What it promises: the same answers as every other storage; any number of threads, and of
"processes" of a test, may share one.
"""

import posixpath
import threading
from collections.abc import Sequence

from ashore.base.clock import Clock, SystemClock
from ashore.errors import PathExists, PathMissing, StorageError, check
from ashore.storage.base import FileStat, FileWriter, GuardedWriter, Staged, check_path


class _MemoryFile:
    """A file keeps its identity when its name changes, as a descriptor does."""

    def __init__(self, content: bytes, modified_ms: int) -> None:
        self.content = bytearray(content)
        self.modified_ms = modified_ms


class _Directory:
    def __init__(self, modified_ms: int) -> None:
        self.modified_ms = modified_ms
        self.names: dict[str, _MemoryFile | _Directory] = {}


class MemoryStorage:
    """A Storage whose names and contents are durable at once, and gone with the process."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._root = _Directory(self._clock.now_ms())

    def create(self, path: str, data: bytes) -> None:
        """See Storage."""
        with self._lock:
            self._add(path, _MemoryFile(data, self._clock.now_ms()))

    def open_write(self, path: str) -> FileWriter:
        """See Storage."""
        file = _MemoryFile(b"", self._clock.now_ms())
        with self._lock:
            self._add(path, file)
        return _MemoryWriter(path, file, self._clock)

    def publish(self, staged: Staged, final: str) -> None:
        """See Storage."""
        check(staged.path != final, f"{final} is published as itself")
        check_path(final)
        with self._lock:
            file = self._find_file(staged.path, "publish")
            self._add(final, file)
            del self._parent_of(staged.path).names[posixpath.basename(staged.path)]

    def stat(self, path: str) -> FileStat | None:
        """See Storage."""
        with self._lock:
            found = self._find(path)
            return None if found is None else _to_file_stat(path, found)

    def list(self, directory: str) -> list[FileStat]:
        """See Storage."""
        with self._lock:
            found = self._find(directory)
            if not isinstance(found, _Directory):
                return []
            return [_to_file_stat(f"{directory}/{n}", found.names[n]) for n in sorted(found.names)]

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        """See Storage."""
        check(start >= 0 and (length is None or length >= 0), f"{path}: a range below zero")
        with self._lock:
            content = self._find_file(path, "read").content
            return bytes(content[start : None if length is None else start + length])

    def delete(self, path: str) -> None:
        """See Storage."""
        with self._lock:
            found = self._find(path)
            if not isinstance(found, _Directory):
                self._find_file(path, "delete")
            elif found.names:
                raise StorageError(f"cannot delete {path}: it is not empty", path=path)
            del self._parent_of(path).names[posixpath.basename(path)]

    def sync(self, directories: Sequence[str]) -> None:
        """See Storage."""
        with self._lock:
            for directory in directories:
                if not isinstance(self._find(directory), _Directory):
                    raise PathMissing(f"directory {directory} does not exist", path=directory)

    def describe(self) -> str:
        """See Storage."""
        return "memory:///"

    def _find(self, path: str) -> _MemoryFile | _Directory | None:
        check_path(path)
        found: _MemoryFile | _Directory | None = self._root
        for name in path.split("/"):
            if not isinstance(found, _Directory):
                return None
            found = found.names.get(name)
        return found

    def _find_file(self, path: str, action: str) -> _MemoryFile:
        found = self._find(path)
        if found is None:
            raise PathMissing(f"cannot {action} {path}: it does not exist", path=path)
        if isinstance(found, _Directory):
            raise StorageError(f"cannot {action} {path}: it is a directory", path=path)
        return found

    def _add(self, path: str, file: _MemoryFile) -> None:
        if self._find(path) is not None:
            raise PathExists(f"{path} already exists", path=path)
        self._parent_of(path).names[posixpath.basename(path)] = file

    def _parent_of(self, path: str) -> _Directory:
        """Return the directory of `path`, made where it was missing."""
        found = self._root
        for name in path.split("/")[:-1]:
            child = found.names.setdefault(name, _Directory(self._clock.now_ms()))
            if isinstance(child, _MemoryFile):
                raise StorageError(f"cannot make {path}: {name} is a file", path=path)
            found = child
        return found


class _MemoryWriter(GuardedWriter):
    def __init__(self, path: str, file: _MemoryFile, clock: Clock) -> None:
        super().__init__(path)
        self._file = file
        self._clock = clock

    def _append(self, data: memoryview) -> None:
        self._file.content += data
        self._file.modified_ms = self._clock.now_ms()

    def _finish(self) -> None:
        """Nothing is left to do: memory is as durable as it gets."""

    def _release(self) -> None:
        """Do nothing: there are no resources."""


def _to_file_stat(path: str, found: _MemoryFile | _Directory) -> FileStat:
    if isinstance(found, _Directory):
        return FileStat(path, 0, found.modified_ms, is_directory=True)
    return FileStat(path, len(found.content), found.modified_ms, is_directory=False)
