"""The bytes of a data file on their way to the storage.

What it is: a binary file object that counts and hashes what an encoder writes.
What it promises: size and checksum are those of exactly the bytes that the storage was given, in
few large pieces. The file is begun with the first of them.
"""

import hashlib
from collections.abc import Callable

from ashore.errors import check
from ashore.storage.base import FileWriter

PIECE_BYTES = 1 << 20  # a call to a storage has its price: a thread, a packet, a system call


class DigestWriter:
    """Wraps a FileWriter, which `open_file` begins. Used by one thread at a time."""

    def __init__(self, open_file: Callable[[], FileWriter]) -> None:
        self._open_file = open_file
        self._inner: FileWriter | None = None
        self._is_abandoned = False
        self._hash = hashlib.blake2b(digest_size=8)
        self._pieces: list[bytes] = []
        self._held_bytes = 0
        self._size_bytes = 0

    @property
    def size_bytes(self) -> int:
        """Bytes taken so far."""
        return self._size_bytes

    @property
    def checksum(self) -> str:
        """BLAKE2b-64 of the bytes taken so far, hexadecimal."""
        return self._hash.hexdigest()

    @property
    def closed(self) -> bool:
        """Whether `close` or `abandon` was called."""
        return self._is_abandoned if self._inner is None else self._inner.closed

    @property
    def is_begun(self) -> bool:
        """Whether there is a file in the storage."""
        return self._inner is not None

    @property
    def held_bytes(self) -> int:
        """Bytes that the storage was not given yet."""
        return self._held_bytes

    def write(self, data: bytes) -> int:
        """Take `data`, any buffer, and return its length. It may reach the storage later."""
        piece = bytes(data)
        self._hash.update(piece)
        self._size_bytes += len(piece)
        self._pieces.append(piece)
        self._held_bytes += len(piece)
        if self._held_bytes >= PIECE_BYTES:
            self.pass_on()
        return len(piece)

    def flush(self) -> None:
        """Do nothing: encoders flush often, and only a close makes anything durable."""

    def pass_on(self) -> None:
        """Hand over what is buffered. Raises StorageError."""
        if self._pieces:
            self._begin().write(b"".join(self._pieces))
            self._pieces.clear()
            self._held_bytes = 0

    def close(self) -> None:
        """Hand over what is buffered and finish the file: its content is durable then."""
        self.pass_on()
        self._begin().close()

    def abandon(self) -> None:
        """Release the file. Never fails."""
        self._is_abandoned = True
        self._pieces.clear()
        if self._inner is not None:
            self._inner.abandon()

    def _begin(self) -> FileWriter:
        if self._inner is None:
            check(not self._is_abandoned, "a file is begun after it was abandoned")
            self._inner = self._open_file()
        return self._inner
