"""A lock between processes of one machine.

What it promises: one holder at a time; it ends with its holder, however that ends.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def locked(directory: Path, progress: Callable[[str], None]) -> Iterator[None]:
    """Hold the lock of `directory`, which is made if it is missing. Waits, and says so."""
    from filelock import FileLock, Timeout  # noqa: PLC0415 - most commands lock nothing

    directory.mkdir(parents=True, exist_ok=True)
    lock = FileLock(directory / ".lock")
    try:
        lock.acquire(blocking=False)
    except Timeout:
        progress(f"waiting for another process that uses {directory}")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()
