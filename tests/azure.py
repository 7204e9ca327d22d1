"""A real server with the API of Azure's Blob Storage, Azurite, on the loopback address.

What it is: one server with one account and one container, data and port kept in one directory.
What it promises: after `stop` or `kill`, `start` comes back on the same port with the same blobs.
It comes from npm: `make azurite` installs it beside the Python packages.
"""

import base64
import hashlib
import hmac
import shutil
import sys
import urllib.request
from collections.abc import Sequence
from email.utils import formatdate
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlencode

from ashore.errors import ServiceError
from ashore_lab.services.ports import LOOPBACK, is_listening
from ashore_lab.services.process import Command
from ashore_lab.services.single import SingleServer

MAIN = Path(sys.prefix, "azurite", "node_modules", "azurite", "dist", "src", "blob", "main.js")
ACCOUNT, CONTAINER = "ashore", "lake"
KEY = base64.b64encode(b"ashore-secret" * 5).decode()
_API = "2021-08-06"
_START_DEADLINE_S = 60
_CONFLICT = 409


class Azure(SingleServer):
    """One server in one directory. As a context manager it is up inside and gone after."""

    name = "azurite"

    @property
    def port(self) -> int:
        """Return the port that the server listens on."""
        return self._port()

    @property
    def uri(self) -> str:
        """Return the container's address."""
        return f"az://{CONTAINER}"

    def client_options(self) -> dict[str, str]:
        """Return the options of `azure` in a job file."""
        return {
            "endpoint": f"http://{LOOPBACK}:{self._port()}/{ACCOUNT}",
            "account": ACCOUNT,
            "account_key": KEY,
        }

    def sign_access(self, expires: str) -> str:
        """Return a shared access signature of the container, for all that Ashore does."""
        sort, rights = "c", "racwdl"
        resource = f"/blob/{ACCOUNT}/{CONTAINER}"
        lines = (rights, "", expires, resource, "", "", "", _API, sort, *[""] * 7)
        signature = {"sv": _API, "sr": sort, "sp": rights, "se": expires, "sig": _sign(lines)}
        return urlencode(signature)

    def endpoint(self) -> dict[str, str]:
        """Return what clients need."""
        return {"uri": self.uri, **self.client_options()}

    def start(self) -> None:
        """Start the server and wait until it listens. The first start makes the container."""
        port, node = self._port(), shutil.which("node")
        self._check_port(port)
        if node is None or not MAIN.exists():
            raise ServiceError("Azurite is not installed", hint="make azurite")
        command = (
            *(node, str(MAIN), "--blobHost", LOOPBACK, "--blobPort", str(port)),
            *("--location", str(self.directory / "data"), "--silent", "--disableTelemetry"),
            "--skipApiVersionCheck",  # it is older than the client
        )
        environment = {"AZURITE_ACCOUNTS": f"{ACCOUNT}:{KEY}"}
        self.process.start(
            Command(self.name, command, self.directory, environment),
            lambda _: is_listening(port),
            deadline_s=_START_DEADLINE_S,
        )
        self._make_container()

    def _make_container(self) -> None:
        date = formatdate(usegmt=True)
        path = f"/{ACCOUNT}/{CONTAINER}"
        headers = (f"x-ms-date:{date}", f"x-ms-version:{_API}")
        signature = _sign(("PUT", *[""] * 11, *headers, f"/{ACCOUNT}{path}", "restype:container"))
        request = urllib.request.Request(
            f"http://{LOOPBACK}:{self._port()}{path}?restype=container",
            method="PUT",
            headers={
                "x-ms-date": date,
                "x-ms-version": _API,
                "Authorization": f"SharedKey {ACCOUNT}:{signature}",
            },
        )
        try:
            urllib.request.urlopen(request, timeout=30).close()
        except HTTPError as error:
            if error.code != _CONFLICT:  # it is there
                raise


def _sign(lines: Sequence[str]) -> str:
    digest = hmac.new(base64.b64decode(KEY), "\n".join(lines).encode(), hashlib.sha256).digest()
    return base64.b64encode(digest).decode()
