"""A directory for savepoints, as a person names it.

What it is: `open_shelf`.
What it promises: nothing is read or written yet.
"""

from ashore.base.clock import Clock
from ashore.base.unique import unique
from ashore.queries.state.directories import open_directory
from ashore.queries.state.savepoints.manifest import SavepointKind
from ashore.queries.state.savepoints.save import Shelf


def open_shelf(to: str, clock: Clock, *, links: bool, is_shared: bool = False) -> Shelf:
    """Return the directory `to`, for savepoints. Raises JobFileInvalid, NotInstalled.

    Arguments:
        to: a path on this machine, `file://...` or `hdfs://...`.
        clock: of the storage.
        links: whether files may get a second name instead of a copy.
        is_shared: whether savepoints share files in a pool in that directory.

    """
    place = open_directory(to, clock)
    kind = SavepointKind.SHARED if is_shared else SavepointKind.FULL
    return Shelf(place.storage, place.path, place.uri, unique, links, kind)
