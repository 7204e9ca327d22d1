"""The seam between tables and files.

What it is: what a writer of data files asks of a file format, and the byte counter that all
formats write through.
What it promises: an encoder writes to the file object that it was handed and never closes it:
closing, syncing and naming are the owner's.
"""

from collections.abc import Mapping
from typing import Protocol

import pyarrow as pa


class Output(Protocol):
    """A new file. The storage's `FileWriter` is one, `io.BytesIO` is another."""

    def write(self, data: bytes, /) -> int:
        """Append `data`, any buffer, and return its length."""
        ...


class Encoder(Protocol):
    """One file being written. Used by one thread at a time."""

    @property
    def bytes_written(self) -> int:
        """An estimate of the file's size if it were closed now; exact after `close`."""
        ...

    @property
    def rows(self) -> int:
        """The rows handed to `write` so far."""
        ...

    @property
    def held_bytes(self) -> int:
        """Arrow memory of the rows that `flush` would free."""
        ...

    def write(self, table: pa.Table) -> None:
        """Append rows. They may stay in memory, within a bound, until `flush` or `close`."""
        ...

    def flush(self) -> None:
        """Encode the buffered rows and free their memory, for callers with many open files."""
        ...

    def close(self, metadata: Mapping[str, str]) -> None:
        """Write what is left, and `metadata` where the format has a place for it.

        If interrupted: the file is unreadable or lacks rows; its owner must not let it be seen.
        """
        ...

    def abandon(self) -> None:
        """Free everything without writing another byte. Never fails."""
        ...


class Sink:
    """Counts the bytes on their way to an output, and stops them once it fails or is cut.

    A foreign writer never sees the output fail: ORC's ends the process when a write fails under its
    `close`. The failure is kept, and raised by `check` after the call.
    """

    closed = False  # foreign writers ask

    def __init__(self, output: Output) -> None:
        self._output: Output | None = output
        self._failure: BaseException | None = None
        self.size_bytes = 0

    def write(self, data: bytes) -> int:
        """Pass `data` on, or drop it after a failure or `cut`."""
        size = memoryview(data).nbytes
        if self._output is not None:
            try:
                self._output.write(data)
            except BaseException as failure:  # noqa: BLE001 - `check` raises it
                self._failure = failure
                self._output = None
            self.size_bytes += size
        return size

    def check(self) -> None:
        """Raise what the output has raised. To be called after each use of a foreign writer."""
        if self._failure is not None:
            raise self._failure

    def flush(self) -> None:
        """Do nothing: durability is the business of the output's owner."""

    def close(self) -> None:
        """Do nothing: foreign writers close what they write to, its owner does it here."""

    def cut(self) -> None:
        """Drop whatever comes from now on. Foreign writers write a footer when collected."""
        self._output = None
