"""The first files that a task writes: do they reach the lake?"""

from collections.abc import Mapping

from ashore.storage.base import Storage


def write_probes(storage: Storage, files: Mapping[str, bytes]) -> None:
    """Write files as tasks do: content by path. Raises StorageError for the first that fails."""
    for path, content in files.items():
        writer = storage.open_write(path)
        writer.write(content)
        writer.close()
