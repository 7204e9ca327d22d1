"""What every file writer has in common: when it may no longer be used.

What it is: the states of a FileWriter; a storage adds how bytes are appended and finished.
What it promises: after one failure no later call can make the file look finished.
"""

from abc import ABC, abstractmethod
from enum import Enum

from ashore.errors import StorageError, check


class _State(Enum):
    OPEN = "open"
    FAILED = "a write failed"
    FINISHED = "it was closed"
    ABANDONED = "it was abandoned"


class GuardedWriter(ABC):
    """A FileWriter that remembers a failure. Used by one thread at a time."""

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
