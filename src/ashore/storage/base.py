"""The seam to the lake: nine calls, the same on every storage.

What it is: what Ashore asks of a file system or an object store.
What it promises: paths are relative to the lake root, with `/`, never with `..`. Nothing is ever
overwritten. An answer is one of: done; PathMissing or PathExists; any other StorageError, which
means that the call may have been applied, or may be applied later, once or twice.
"""

import posixpath
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Protocol, TypeVar, runtime_checkable

from ashore.base.unique import unique
from ashore.errors import StorageError, check

T = TypeVar("T")

# A create writes here first. The leading dot hides it from every reader of tables, and no log
# entry begins so. One that is left behind by a crash has no owner: a janitor may delete it.
TEMPORARY_PREFIX = ".creating-"


class FileStat(NamedTuple):
    """One file or directory as a storage reports it."""

    path: str
    size: int  # bytes; 0 for a directory
    modified_ms: int  # by the storage's clock
    is_directory: bool


@dataclass(frozen=True, slots=True)
class Staged:
    """A handle of a file that was closed and is to get its final path: what `publish` takes.

    Only a storage looks into it. Until the file is published, calls find it at `path`.
    """

    path: str

    def __str__(self) -> str:
        return self.path


class FileWriter(Protocol):
    """A new file being written. Also a binary file object that pyarrow can write to.

    After a failed write the writer cannot be used: every later `write` and `close` fails too, so
    that a file with a gap is never taken for a finished one.
    """

    @property
    def closed(self) -> bool:
        """Whether `close` or `abandon` was called."""
        ...

    def write(self, data: bytes) -> int:
        """Append `data`, any buffer, and return its length in bytes. Raises StorageError."""
        ...

    def close(self) -> None:
        """Finish the file: its content is durable when this returns (its name: see `sync`).

        Calling it again does nothing; after a failure it fails again. Raises StorageError.
        """
        ...

    def abandon(self) -> None:
        """Close the file without finishing it. What was written may remain. Never raises."""
        ...


class Storage(Protocol):
    """A lake. Every call may raise StorageError; see the module for what that means."""

    def create(self, path: str, data: bytes) -> None:
        """Create `path` with exactly `data`, or raise PathExists: atomic and durable.

        Missing parent directories are created. Readers see the whole content or no file. A call
        whose answer was lost has created the whole file, or nothing, or creates it later.
        """
        ...

    def open_write(self, path: str) -> FileWriter:
        """Begin a new file, or raise PathExists. Missing parent directories are created.

        Where objects come into being at their end, `close` raises PathExists.
        """
        ...

    def publish(self, staged: Staged, final: str) -> None:
        """Make a file readable at `final`, and nowhere else. Never overwrites, even in a race.

        A rename, where a storage has one. Missing parent directories of `final` are created.
        Raises PathMissing (the file is not staged, whether or not `final` exists) and PathExists
        (`final` exists). It can be repeated if the staged name is used only once: a call that was
        interrupted is then finished. Durable only after `sync` of both directories. Directories
        cannot be published.
        If interrupted: nothing happened, or both names exist and are one file, or it is done.
        Where files cannot be renamed, both are equal files then, and equal files are taken for one.
        """
        ...

    def stat(self, path: str) -> FileStat | None:
        """Return what is at `path`, or None."""
        ...

    def list(self, directory: str) -> list[FileStat]:
        """Return what is directly in `directory`, sorted by path; empty if it does not exist.

        Not atomic: changes in the meantime may be listed or not.
        """
        ...

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        """Return `length` bytes of `path` from offset `start`, or all up to its end.

        Raises PathMissing.
        """
        ...

    def delete(self, path: str) -> None:
        """Delete one file, or an empty directory. Never called on the commit path.

        But for a hint that nothing needs: see `tables.delta.table_log`.

        Raises PathMissing, and StorageError for a directory that is not empty, which remains.
        """
        ...

    def sync(self, directories: Sequence[str]) -> None:
        """Make the names in `directories`, and those directories in their parents, durable.

        Raises PathMissing (there is no such directory) and SyncFailed, after which it must not be
        called again. Where names are durable at once, it only checks that the directories exist;
        where there are no directories, it does nothing.
        """
        ...

    def describe(self) -> str:
        """Return the address of the lake root, for messages: `file:///data/lake`."""
        ...


@runtime_checkable
class Links(Protocol):
    """A storage that may give a file a second name."""

    def link(self, source: str, target: str) -> bool:
        """Give the file at `source` a second name; False: not supported, and nothing was changed.

        Missing parent directories of `target` are created. Raises PathMissing (there is no
        source) and PathExists (there is a target). The name is durable after `sync` of its
        directory.
        """
        ...


@runtime_checkable
class Confirms(Protocol):
    """A storage on a server that may have been replaced."""

    def confirm(self, path: str) -> None:
        """Make a change without an effect near `path`. Raises StorageError on a replaced server."""
        ...


class StorageForwarder(ABC):
    """A Storage around others. `_forward` decides how a call is made of them."""

    def create(self, path: str, data: bytes) -> None:
        """See Storage."""
        self._forward(f"create {path}", lambda inner: inner.create(path, data))

    def open_write(self, path: str) -> FileWriter:
        """See Storage."""
        return self._forward(f"open {path}", lambda inner: inner.open_write(path))

    def publish(self, staged: Staged, final: str) -> None:
        """See Storage."""
        self._forward(f"move {staged} to {final}", lambda inner: inner.publish(staged, final))

    def stat(self, path: str) -> FileStat | None:
        """See Storage."""
        return self._forward(f"look at {path}", lambda inner: inner.stat(path), path)

    def list(self, directory: str) -> list[FileStat]:
        """See Storage."""
        return self._forward(f"list {directory}", lambda inner: inner.list(directory), directory)

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        """See Storage."""
        return self._forward(f"read {path}", lambda inner: inner.read(path, start, length), path)

    def delete(self, path: str) -> None:
        """See Storage."""
        self._forward(f"delete {path}", lambda inner: inner.delete(path))

    def sync(self, directories: Sequence[str]) -> None:
        """See Storage."""
        what = f"sync {len(directories)} directories"
        self._forward(what, lambda inner: inner.sync(directories))

    @abstractmethod
    def _forward(self, what: str, call: Callable[[Storage], T], looked_at: str | None = None) -> T:
        """Make a call. `what`: in words. `looked_at`: of a call that changes nothing, its path."""


class _State(Enum):
    OPEN = "open"
    FAILED = "a write failed"
    FINISHED = "it was closed"
    ABANDONED = "it was abandoned"


class GuardedWriter(ABC):
    """A FileWriter that remembers a failure. Used by one thread at a time.

    A storage adds how bytes are appended and finished. After one failure no later call can make the
    file look finished.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._state = _State.OPEN

    @property
    def closed(self) -> bool:
        """See FileWriter."""
        return self._state in (_State.FINISHED, _State.ABANDONED)

    def write(self, data: bytes) -> int:
        """See FileWriter."""
        check(not self.closed, f"{self._path} is written after its end: {self._state.value}")
        self._refuse_if_failed()
        view = memoryview(data).cast("B")
        try:
            self._append(view)
        except BaseException:
            self._state = _State.FAILED
            raise
        return len(view)

    def close(self) -> None:
        """See FileWriter."""
        if self._state is _State.FINISHED:
            return
        try:
            self._refuse_if_failed()
            self._finish()
        except BaseException:
            self.abandon()
            raise
        self._state = _State.FINISHED

    def abandon(self) -> None:
        """See FileWriter."""
        if not self.closed:
            self._state = _State.ABANDONED
            self._release()

    def _refuse_if_failed(self) -> None:
        if self._state is not _State.OPEN:
            raise StorageError(
                f"{self._path} cannot be finished: {self._state.value}",
                hint="write the file again under another name",
                path=self._path,
            )

    @abstractmethod
    def _append(self, data: memoryview) -> None:
        """Append all of `data`."""

    @abstractmethod
    def _finish(self) -> None:
        """Make the content durable and give resources back."""

    @abstractmethod
    def _release(self) -> None:
        """Give resources back after a failure, also one of `_finish`. Raises no StorageError."""


def check_path(path: str) -> None:
    """Raise InvariantBroken unless `path` is relative, not empty, and has no `.` or `..`."""
    is_plain = not any(segment in ("", ".", "..") for segment in path.split("/"))
    check(is_plain and "\0" not in path, f"{path!r} is not a path inside a lake")


def build_temporary_path(path: str) -> str:
    """Return a name for the making of `path`, in the same directory, never used before."""
    return posixpath.join(posixpath.dirname(path), TEMPORARY_PREFIX + unique())


def is_temporary(path: str) -> bool:
    """Return whether a storage made the name up while creating another file."""
    return posixpath.basename(path).startswith(TEMPORARY_PREFIX)
