"""A storage that hands every call on, for those that change one or two.

What it promises: nothing happens that the inner storage does not do.
"""

from collections.abc import Sequence

from ashore.storage.base import FileStat, FileWriter, Staged, Storage


class WrappedStorage:
    """A Storage around another one."""

    def __init__(self, inner: Storage) -> None:
        self._inner = inner

    def create(self, path: str, data: bytes) -> None:
        """See Storage."""
        self._inner.create(path, data)

    def open_write(self, path: str) -> FileWriter:
        """See Storage."""
        return self._inner.open_write(path)

    def publish(self, staged: Staged, final: str) -> None:
        """See Storage."""
        self._inner.publish(staged, final)

    def stat(self, path: str) -> FileStat | None:
        """See Storage."""
        return self._inner.stat(path)

    def list(self, directory: str) -> list[FileStat]:
        """See Storage."""
        return self._inner.list(directory)

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        """See Storage."""
        return self._inner.read(path, start, length)

    def delete(self, path: str) -> None:
        """See Storage."""
        self._inner.delete(path)

    def sync(self, directories: Sequence[str]) -> None:
        """See Storage."""
        self._inner.sync(directories)

    def describe(self) -> str:
        """See Storage."""
        return self._inner.describe()
