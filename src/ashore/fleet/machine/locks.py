"""Locks between the processes of one machine."""

import errno
import fcntl
import os
from pathlib import Path


def take_lock(path: Path) -> int | None:
    """Lock a file, and return its descriptor; None: another process has locked it.

    Each process with the descriptor has the lock, also a child, until all are closed.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    return handle


def is_locked(path: Path) -> bool:
    """Return whether a process has locked a file. Looking at the same time does not count.

    Raises OSError where that cannot be determined.
    """
    try:
        handle = _open_lock(path)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        return False
    finally:
        os.close(handle)


def _open_lock(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)  # NFS locks only what is open for writing
    except OSError as error:
        if error.errno != errno.EROFS:
            raise
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
