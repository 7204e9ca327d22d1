"""The slices of a job, as its lake shows them.

What it promises: reads only; a slice is there once its log has a directory.
What it must not know: what a slice does.
"""

from ashore.protocol import names
from ashore.protocol.names import SliceName
from ashore.storage.base import Storage


def find_slices(storage: Storage, job: str) -> list[SliceName]:
    """Return the slices of a job that have ever been opened. Raises StorageError."""
    directories = (each for each in storage.list(names.job_directory(job)) if each.is_directory)
    found = (names.leaf(each.path) for each in directories)
    return [
        SliceName(job, name)
        for name in found
        if names.SLICE.fullmatch(name) and names.is_visible(name)  # not the queries' checkpoints
    ]
