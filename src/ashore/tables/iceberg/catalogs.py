"""Iceberg catalogs, by what a job file says of one.

What it is: `CatalogAddress`, and `open_catalog`, which makes a client of pyiceberg of it.
What it promises: a request to a REST catalog ends by a deadline. Where the catalog says that it
applies a request with a key once, each has one: proxies and clients of HTTP may repeat requests.
"""

import secrets
import uuid
from dataclasses import dataclass
from typing import Any

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import NotInstalledError
from requests import PreparedRequest, Response, Session
from requests.adapters import HTTPAdapter

from ashore.base.clock import SystemClock
from ashore.errors import NotInstalled
from ashore.tables.catalog.connect import open_hive_client
from ashore.tables.iceberg.file_io import Lake

CONNECT_S, ANSWER_S = 10.0, 60.0  # of a request to a REST catalog


@dataclass(frozen=True, slots=True)
class CatalogAddress:
    """An Iceberg catalog: its name, and the properties by which pyiceberg opens it."""

    name: str
    properties: tuple[tuple[str, str], ...]

    @property
    def type(self) -> str:
        """The kind of catalog, as the job file has it."""
        return dict(self.properties).get("type", "sql")

    def describe(self) -> str:
        """Return the catalog for messages, without secrets."""
        uri = dict(self.properties).get("uri", "").rpartition("@")[2]
        return f"Iceberg catalog {self.name} ({f'{self.type} {uri}'.strip()})"


def require_fence(catalog: Catalog, database: str) -> None:
    """Raise CatalogError where a catalog would overwrite the commit of another writer.

    Only a Hive metastore may: others compare, as their interfaces say.
    """
    check = getattr(catalog, "require_fence", None)
    if check is not None:
        check(database)


def open_catalog(address: CatalogAddress, lake: Lake) -> Catalog:
    """Return a client; a database or a REST catalog is called for that.

    `lake`: where files are read and written, whatever a catalog says of that.
    Raises NotInstalled, and what pyiceberg and its drivers raise.
    """
    properties = {**dict(address.properties), **lake.properties}
    if address.type == "rest":
        return _Rest(address.name, **properties)
    if address.type == "hive":
        client = open_hive_client(properties["uri"])
        # It needs a package of another extra.
        from ashore.tables.iceberg.metastore import MetastoreTables  # noqa: PLC0415

        return MetastoreTables(address.name, client, lake.root, properties)
    try:
        return load_catalog(address.name, **properties)
    except (ModuleNotFoundError, NotInstalledError) as error:
        package = "boto3" if address.type == "glue" else "'ashore[iceberg,postgresql]'"
        raise NotInstalled(
            f"{address.describe()} needs a package: {error}", hint=f"pip install {package}"
        ) from error


class _Rest(RestCatalog):
    """pyiceberg's, which waits for an answer for ever."""

    def __init__(self, name: str, **properties: str) -> None:
        self._requests = Requests()
        super().__init__(name, **properties)

    def _create_session(self) -> Session:
        session = super()._create_session()
        for scheme in ("http://", "https://"):
            session.mount(scheme, self._requests)
        return session


class Requests(HTTPAdapter):
    """Sends requests with deadlines, and those that change something with a key."""

    takes_keys = False  # whether the catalog has said that it applies a key once

    def send(self, request: PreparedRequest, *options: Any, **named: Any) -> Response:
        """See HTTPAdapter."""
        named["timeout"] = named.get("timeout") or (CONNECT_S, ANSWER_S)
        if self.takes_keys and request.method != "GET":
            request.headers.setdefault("Idempotency-Key", str(_new_key()))
        response = super().send(request, *options, **named)
        if request.path_url.partition("?")[0].endswith("/v1/config") and response.ok:
            self.takes_keys = bool(response.json().get("idempotency-key-lifetime"))
        return response


def _new_key() -> uuid.UUID:
    """Return a UUID of version 7, as the specification of REST catalogs asks for."""
    bits = SystemClock().now_ms() << 80 | secrets.randbits(80)
    bits = bits & ~(0xF << 76) | 7 << 76
    return uuid.UUID(int=bits & ~(3 << 62) | 2 << 62)
