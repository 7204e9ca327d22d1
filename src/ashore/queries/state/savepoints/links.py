"""Second names for files of a local disk (hard links), from one checkpoint to another.

What it promises: a link is made only where both are on this machine; where the disk refuses, as
across volumes, it says so, and the file is copied.
"""

import posixpath
from collections.abc import Callable

from ashore.queries.state.files import CheckpointStore
from ashore.storage.local import LocalStorage

_FILE = "file://"
# Gives the file at a path of one checkpoint the same path in another; False: it cannot, and nothing
# happened. Raises PathMissing, PathExists.
Link = Callable[[str], bool]


def link_between(source: CheckpointStore, target: CheckpointStore) -> Link | None:
    """Return what links files of one checkpoint into another; None where they are not both here."""
    if not source.uri.startswith(f"{_FILE}/") or not target.uri.startswith(f"{_FILE}/"):
        return None
    paths = [each.uri.removeprefix(_FILE) for each in (source, target)]
    root = posixpath.commonpath(paths)
    storage = LocalStorage(root)
    source_root, target_root = (posixpath.relpath(each, root) for each in paths)
    return lambda path: storage.link(f"{source_root}/{path}", f"{target_root}/{path}")
