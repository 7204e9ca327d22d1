"""The first file that a task writes: does it reach the lake?

What it must not know: what becomes of the file.
"""

from ashore.storage.base import Storage


def write_probe(storage: Storage, path: str, content: bytes) -> None:
    """Write a file as tasks do. Raises StorageError."""
    writer = storage.open_write(path)
    writer.write(content)
    writer.close()
