"""From what the job file says to a catalog.

What it promises: no server is called yet; a catalog that is away does not keep a job from starting.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ashore.base.clock import SystemClock
from ashore.errors import JobFileInvalid, NotInstalled
from ashore.tables.catalog.base import Catalog, NoCatalog

if TYPE_CHECKING:
    from ashore.tables.catalog.hive_client import HiveClient

PORT = 9083  # where metastores listen unless configured otherwise


def open_catalog(uris: str | None, *, timeout_s: float = 30.0) -> Catalog:
    """Return the catalog at `uris`: `thrift://host:port`, more of them with commas; None: none.

    Raises JobFileInvalid for an address that cannot be one, NotInstalled.

    Arguments:
        uris: where the same metastore answers; the first that does is asked.
        timeout_s: how long a call may take altogether.

    """
    if uris is None:
        return NoCatalog()
    addresses = _parse_all(uris)
    with _needing_extra():
        from ashore.tables.catalog.hive import HiveCatalog  # noqa: PLC0415 - an extra
        from ashore.tables.catalog.hive_wire import Address  # noqa: PLC0415 - an extra
    return HiveCatalog(tuple(Address(*each) for each in addresses), timeout_s)


def open_hive_client(uris: str, *, timeout_s: float = 30.0) -> "HiveClient":
    """Return a client of the metastore at `uris`. See `open_catalog`."""
    addresses = _parse_all(uris)
    with _needing_extra():
        from ashore.tables.catalog.hive_client import HiveClient  # noqa: PLC0415 - an extra
        from ashore.tables.catalog.hive_wire import Address  # noqa: PLC0415 - an extra
    return HiveClient(tuple(Address(*each) for each in addresses), timeout_s, SystemClock())


def _parse_all(uris: str) -> list[tuple[str, int]]:
    return [_parse(uri.strip()) for uri in uris.split(",")]


@contextmanager
def _needing_extra() -> Iterator[None]:
    """Say what is to be installed where an import inside finds that thrift is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith("thriftpy2"):
            raise
        raise NotInstalled(
            "a Hive metastore needs the package thriftpy2", hint="pip install 'ashore[hive]'"
        ) from error


def _parse(uri: str) -> tuple[str, int]:
    try:
        parts = urlsplit(uri)
        host, port = parts.hostname, parts.port or PORT
    except ValueError:
        host, port = None, PORT
    is_bare = uri.startswith("thrift://") and "/" not in uri.removeprefix("thrift://").rstrip("/")
    if not host or not is_bare:
        raise JobFileInvalid(
            f"{uri!r} is not the address of a metastore", hint="write thrift://host:9083"
        )
    return host, port
