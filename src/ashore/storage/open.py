"""From a lake's address to its storage.

What it is: the one door through which jobs, commands and executors get a storage.
What it promises: every call has a deadline, safe calls are repeated; opening touches no disk, so
that an executor opens its own from the address alone.
What it must not know: job files.
"""

import posixpath

from ashore.base.clock import Clock, SystemClock
from ashore.errors import JobFileInvalid
from ashore.storage.base import Storage
from ashore.storage.deadline import DeadlineStorage
from ashore.storage.local import LocalStorage
from ashore.storage.retry import RetryingStorage

_FILE = "file://"
_SYSTEM_CLOCK = SystemClock()


def open_storage(uri: str, *, deadline_s: float = 60.0, clock: Clock = _SYSTEM_CLOCK) -> Storage:
    """Return the storage at `uri`, `file:///absolute/path`. Raises JobFileInvalid.

    The path is taken as it is written: `%` is a character like any other.
    """
    root = _parse_root(uri)
    return RetryingStorage(DeadlineStorage(LocalStorage(root), deadline_s), clock)


def _parse_root(uri: str) -> str:
    scheme, separator, _ = uri.partition("://")
    if not separator:
        wanted = posixpath.abspath(uri) if uri else "/data/lake"
        raise _invalid(uri, "has no scheme", f"write it as {_FILE}{wanted}")
    if scheme != "file":
        raise _invalid(uri, f"has the scheme {scheme}", f"use {_FILE}/... for now; HDFS comes next")
    root = uri.removeprefix(_FILE)
    if not root.startswith("/"):
        raise _invalid(uri, "names a host", f"a path has three slashes: {_FILE}/{root}")
    if ".." in root.split("/"):
        raise _invalid(uri, "goes up by ..", f"write {_FILE}{posixpath.normpath(root)}")
    return root


def _invalid(uri: str, what: str, hint: str) -> JobFileInvalid:
    return JobFileInvalid(f"the lake {uri!r} {what}", hint=hint, uri=uri)
