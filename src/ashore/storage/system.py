"""The system calls that the local storage is made of.

What it is: a seam under `LocalStorage`, so that a test can stop it between any two system calls.
What it promises: each method is one step of the operating system, raises OSError as it does, and
decides nothing. Paths are absolute.
"""

# These are the system calls by their own names; Path would hide which ones are made.
# ruff: noqa: PTH102, PTH106, PTH108, PTH116, PTH208

import ctypes
import errno
import os
import stat
from typing import NamedTuple, Protocol


class SystemStat(NamedTuple):
    """What the system knows about a name."""

    size: int  # bytes
    modified_ms: int
    is_directory: bool
    inode: tuple[int, int]  # device and number: the same for two names of one file
    links: int  # how many names the file has


class System(Protocol):
    """A POSIX file system."""

    def open_new(self, path: str) -> int:
        """Create an empty file and open it for writing. Fails if the name is taken."""
        ...

    def write(self, descriptor: int, data: memoryview) -> int:
        """Append some of `data`, return how much."""
        ...

    def sync_file(self, descriptor: int) -> None:
        """Make the content of the file durable."""
        ...

    def close(self, descriptor: int) -> None:
        """Give the descriptor back."""
        ...

    def read(self, path: str, start: int, length: int | None) -> bytes:
        """Return the content from `start`, to the end or `length` of it."""
        ...

    def stat(self, path: str) -> SystemStat:
        """Return what the name stands for, following symbolic links."""
        ...

    def list_names(self, path: str) -> list[str]:
        """Return the names in a directory, in no order."""
        ...

    def make_directory(self, path: str) -> None:
        """Make one directory."""
        ...

    def sync_directory(self, path: str) -> None:
        """Make the names in a directory durable."""
        ...

    def rename_noreplace(self, source: str, target: str) -> None:
        """Rename, in one step, unless `target` exists (EEXIST).

        ENOSYS, EINVAL or EOPNOTSUPP: this system or this file system cannot.
        """
        ...

    def link(self, source: str, target: str) -> None:
        """Give a file a second name, unless that name is taken."""
        ...

    def unlink(self, path: str) -> None:
        """Take a name away from a file. Fails for a directory (EISDIR)."""
        ...

    def remove_directory(self, path: str) -> None:
        """Remove a directory. Fails where something is in it (ENOTEMPTY)."""
        ...


_FILE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_READ_CHUNK_BYTES = 16 << 20


class PosixSystem:
    """The operating system under this process."""

    def open_new(self, path: str) -> int:
        """See System."""
        return os.open(path, _FILE_FLAGS, 0o666)

    def write(self, descriptor: int, data: memoryview) -> int:
        """See System."""
        return os.write(descriptor, data)

    def sync_file(self, descriptor: int) -> None:
        """See System."""
        os.fsync(descriptor)

    def close(self, descriptor: int) -> None:
        """See System."""
        os.close(descriptor)

    def read(self, path: str, start: int, length: int | None) -> bytes:
        """See System."""
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            end = os.fstat(descriptor).st_size if length is None else start + length
            chunks: list[bytes] = []
            while start < end:
                chunk = os.pread(descriptor, min(end - start, _READ_CHUNK_BYTES), start)
                if not chunk:
                    break
                chunks.append(chunk)
                start += len(chunk)
            return chunks[0] if len(chunks) == 1 else b"".join(chunks)
        finally:
            os.close(descriptor)

    def stat(self, path: str) -> SystemStat:
        """See System."""
        found = os.stat(path)
        return SystemStat(
            size=found.st_size,
            modified_ms=found.st_mtime_ns // 1_000_000,
            is_directory=stat.S_ISDIR(found.st_mode),
            inode=(found.st_dev, found.st_ino),
            links=found.st_nlink,
        )

    def list_names(self, path: str) -> list[str]:
        """See System."""
        return os.listdir(path)

    def make_directory(self, path: str) -> None:
        """See System."""
        os.mkdir(path)

    def sync_directory(self, path: str) -> None:
        """See System."""
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def rename_noreplace(self, source: str, target: str) -> None:
        """See System."""
        if _RENAMEAT2 is None:
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), source, None, target)
        answer = _RENAMEAT2(
            _AT_FDCWD, os.fsencode(source), _AT_FDCWD, os.fsencode(target), _RENAME_NOREPLACE
        )
        if answer != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), source, None, target)

    def link(self, source: str, target: str) -> None:
        """See System."""
        os.link(source, target)

    def unlink(self, path: str) -> None:
        """See System."""
        os.unlink(path)

    def remove_directory(self, path: str) -> None:
        """See System."""
        os.rmdir(path)


_AT_FDCWD = -100
_RENAME_NOREPLACE = 1
# Python has no rename that refuses to overwrite, so the C library is asked for it by name.
_RENAMEAT2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
if _RENAMEAT2 is not None:
    _RENAMEAT2.argtypes = [
        ctypes.c_int,
        ctypes.c_char_p,
        ctypes.c_int,
        ctypes.c_char_p,
        ctypes.c_uint,
    ]

POSIX = PosixSystem()
