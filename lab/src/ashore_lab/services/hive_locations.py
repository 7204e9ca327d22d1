"""Where a Hive metastore says that the files of a table are: what readers go by.

What it is: one question about one table, for checkers.
What it promises: reads only.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from ashore.base.clock import SystemClock
from ashore.tables.catalog.hive_client import HiveClient
from ashore.tables.catalog.hive_schema import same_location
from ashore.tables.catalog.hive_wire import Address, HiveRefusal

EVERY = -1  # partition, however many there are


def load_locations(uri: str, table: str, timeout_s: float = 30.0) -> dict[str, str]:
    """Return the location of each partition of a table by its values, joined by slashes.

    Nothing where the metastore at `thrift://host:port` does not know the table. Raises
    CatalogError.
    """
    with _connected(uri, timeout_s) as client:
        names = table.lower().split(".")
        accepted = ["NoSuchObjectException"]
        answer = client.call("get_partitions", *names, EVERY, accept=accepted)
    if isinstance(answer, HiveRefusal):
        return {}
    return {"/".join(each.values): _written_out(each.sd.location) for each in answer}


def _written_out(location: str) -> str:
    """Return `file:///a` for `file:/a`, which a metastore makes of it."""
    scheme, authority, path = same_location(location)
    return f"{scheme}://{authority}{path}"


@contextmanager
def _connected(uri: str, timeout_s: float) -> Iterator[HiveClient]:
    host, _, port = uri.removeprefix("thrift://").rpartition(":")
    client = HiveClient((Address(host, int(port)),), timeout_s, SystemClock())
    try:
        yield client
    finally:
        client.close()
