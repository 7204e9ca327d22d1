"""A directory that a person names, opened: of a checkpoint, of savepoints.

What it is: `open_directory`; `reach`, for a storage.
What it promises: a path on this machine or an address gives a place; nothing is read yet.
"""

import posixpath
from collections.abc import Mapping

from ashore.base.clock import Clock
from ashore.errors import JobFileInvalid
from ashore.queries.state.checkpoint import Checkpoint
from ashore.storage.open import LakeAddress, lake_address

_DEADLINE_S = 30.0  # of a call to the storage: a person waits
_FILE, _HDFS = "file://", "hdfs://"


def open_directory(
    where: str, clock: Clock, options: Mapping[str, str] | None = None
) -> Checkpoint:
    """Return the checkpoint in a directory, which may not be there yet.

    Arguments:
        where: a path on this machine, `file://...` or `hdfs://...`.
        clock: of the storage.
        options: of HDFS; without: what HADOOP_CONF_DIR says.

    Raises JobFileInvalid, NotInstalled.

    """
    uri = where if where.startswith((_FILE, _HDFS)) else f"{_FILE}{posixpath.abspath(where)}"
    scheme, _, path = uri.partition("://")
    parent, slash, name = path.rstrip("/").rpartition("/")
    if not name or not slash or (scheme == "hdfs" and not parent):
        raise JobFileInvalid(
            f"{where} is not the directory of a checkpoint",
            hint="name a directory below the root",
        )
    address = reach(f"{scheme}://{parent or '/'}", options)
    return Checkpoint(address.open(clock), name, f"{scheme}://{parent}/{name}")


def reach(uri: str, options: Mapping[str, str] | None = None) -> LakeAddress:
    """Return how a storage is reached that a person names. Raises JobFileInvalid.

    `options`: of HDFS; without: what HADOOP_CONF_DIR says.
    """
    return lake_address(uri, _DEADLINE_S, dict(options or {}))
