"""A lock between processes of one machine.

What it promises: one holder at a time; it ends with its holder, however that ends.
What it must not know: what is guarded.
"""

import fcntl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def locked(directory: Path, progress: Callable[[str], None]) -> Iterator[None]:
    """Hold the lock of `directory`, which is made if it is missing. Waits, and says so."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress(f"waiting for another process that works in {directory}")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
