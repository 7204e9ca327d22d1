"""Paths inside a lake.

What it is: the rule for paths that every storage holds to, and the one name storages make up.
What it promises: a path that passes cannot leave the lake root, and has one spelling.
"""

import posixpath

from ashore.base.unique import unique
from ashore.errors import check

# A create writes here first. The leading dot hides it from every reader of tables, and no log
# entry begins so. One that is left behind by a crash has no owner: a janitor may delete it.
TEMPORARY_PREFIX = ".creating-"


def check_path(path: str) -> None:
    """Raise InvariantBroken unless `path` is relative, not empty, and has no `.` or `..`."""
    is_plain = not any(segment in ("", ".", "..") for segment in path.split("/"))
    check(is_plain and "\0" not in path, f"{path!r} is not a path inside a lake")


def build_temporary_path(path: str) -> str:
    """Return a name for the making of `path`, in the same directory, never used before."""
    return posixpath.join(posixpath.dirname(path), TEMPORARY_PREFIX + unique())


def is_temporary(path: str) -> bool:
    """Return whether a storage made the name up while creating another file."""
    return posixpath.basename(path).startswith(TEMPORARY_PREFIX)
