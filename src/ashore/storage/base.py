"""The seam to the lake: nine calls, the same on every storage.

What it is: what Ashore asks of a file system or an object store.
What it promises: paths are relative to the lake root, with `/`, never with `..`. Nothing is ever
overwritten. An answer is one of: done; PathMissing or PathExists; any other StorageError, which
means that the call may have been applied, or may be applied later, once or twice.
What it must not know: logs, batches, tables.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable


class FileStat(NamedTuple):
    """One file or directory as a storage reports it."""

    path: str
    size: int  # bytes; 0 for a directory
    modified_ms: int  # by the storage's clock
    is_directory: bool


class FileWriter(Protocol):
    """A new file being written. Also a binary file object that pyarrow can write to.

    After a failed write the writer is of no use: every later `write` and `close` fails too, so that
    a file with a hole is never taken for a finished one.
    """

    @property
    def closed(self) -> bool:
        """Whether `close` or `abandon` was called."""
        ...

    def write(self, data: bytes) -> int:
        """Append `data`, return its length. `data` may be any buffer."""
        ...

    def close(self) -> None:
        """Finish the file: its content is durable when this returns (its name: see `sync`).

        Once it has returned, calling it again does nothing. After a failure it fails again.
        """
        ...

    def abandon(self) -> None:
        """Let go of the file without finishing it. What was written may stay. Never fails."""
        ...


class Storage(Protocol):
    """A lake. Every call may raise StorageError; see the module for what that means."""

    def create(self, path: str, data: bytes) -> None:
        """Create `path` with exactly `data`, or raise PathExists: all or nothing, durable.

        Missing parent directories are made. Readers see the whole content or no file. A call
        whose answer was lost leaves its whole content, or nothing, or (later) its whole content.
        """
        ...

    def open_write(self, path: str) -> FileWriter:
        """Begin a new file, or raise PathExists. Missing parent directories are made."""
        ...

    def move(self, source: str, target: str) -> None:
        """Give `source` the name `target`. Never overwrites, also not under a race.

        Missing parent directories of `target` are made. Raises PathMissing (the source is not
        there, whatever the target is), PathExists (the target is). Repeating it is safe where
        `source` is a name that is used once: the half-way state is then finished. Durable only
        after `sync` of both directories. Moving directories is not foreseen.
        If interrupted: nothing happened, or both names exist and are one file, or it is done.
        """
        ...

    def stat(self, path: str) -> FileStat | None:
        """Return what is at `path`, or None."""
        ...

    def list(self, directory: str) -> list[FileStat]:
        """Return what is directly in `directory`, sorted by path. Not atomic. Missing: empty."""
        ...

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        """Return the bytes of `path` from `start`, to its end or `length` of them.

        Raises PathMissing.
        """
        ...

    def delete(self, path: str) -> None:
        """Remove one file, or a directory that nothing is in. Never on the commit path.

        Raises PathMissing; StorageError for a directory that is not empty, which stays as it is.
        """
        ...

    def sync(self, directories: Sequence[str]) -> None:
        """Make the names in `directories`, and those directories in their parents, durable.

        Raises PathMissing (a directory is not there) and SyncFailed, which is never to be
        repeated. On storages whose names are durable at once this only looks for the directories.
        """
        ...

    def describe(self) -> str:
        """Return the address of the lake root, for messages: `file:///data/lake`."""
        ...


@runtime_checkable
class Links(Protocol):
    """A storage that may give a file a second name."""

    def link(self, source: str, target: str) -> bool:
        """Give the file at `source` a second name; False: it cannot, and nothing happened.

        Missing parent directories of `target` are made. Raises PathMissing (the source is not
        there), PathExists (the target is). The name is durable after `sync` of its directory.
        """
        ...


@runtime_checkable
class Confirms(Protocol):
    """A storage on a server that may have been replaced."""

    def confirm(self, path: str) -> None:
        """Make a change without an effect near `path`: a replaced server cannot."""
        ...
