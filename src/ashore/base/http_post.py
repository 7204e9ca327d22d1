"""Posting to an address that a job file names.

What it promises: redirects and link-local addresses, where cloud machines have their credentials,
are never followed. Where the environment has `ASHORE_HTTP_ALLOW`, as below `ashore serve`, other
private addresses must be in it. The address that is connected to is checked, not the name.
"""

import os
import socket
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any
from urllib.request import HTTPHandler, HTTPRedirectHandler, HTTPSHandler, Request, build_opener

HTTP_TIMEOUT_S = 5.0
ALLOW = "ASHORE_HTTP_ALLOW"


def post_json(url: str, body: bytes) -> None:
    """Send one POST request. Raises OSError where it is not answered with success."""
    try:
        request = Request(  # noqa: S310 - the job file's check allows http and https alone
            url, data=body, headers={"Content-Type": "application/json"}, method="POST"
        )
        with _OPENER.open(request, timeout=HTTP_TIMEOUT_S):
            pass
    except (HTTPException, ValueError) as error:  # no HTTP comes back, or the address is none
        raise OSError(f"the POST was not answered: {error!r}") from error


def refusal_of(host: str, address: str, allowed: str | None) -> str:
    """Return why an address is not asked; empty: it is.

    Arguments:
        host: as the job file names it.
        address: what it resolves to.
        allowed: hosts, addresses and networks, by commas; None: all that are not link-local.

    """
    found = ip_address(address.partition("%")[0])
    if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
        found = found.ipv4_mapped
    if found.is_link_local:
        return f"{host} is at {found}, a link-local address, which Ashore never sends to"
    if allowed is None or (found.is_global and not found.is_multicast):
        return ""
    if any(_is_in(host, found, each.strip()) for each in allowed.split(",")):
        return ""
    return (
        f"{host} is at {found}, which is not a public address: who runs the server can allow it, "
        f"by {ALLOW} in its environment"
    )


def _is_in(host: str, found: IPv4Address | IPv6Address, item: str) -> bool:
    if item.casefold() == host.casefold():
        return True
    try:
        return found in ip_network(item, strict=False)
    except ValueError:
        return False


def _connect(where: tuple[str, int], *more: Any) -> socket.socket:
    """Connect to a host, if its address may be asked. As `socket.create_connection`."""
    host, port = where
    allowed = os.environ.get(ALLOW)
    problem = f"{host} has no address"
    for *_kind, found in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        address = str(found[0])
        refused = refusal_of(host, address, allowed)
        if refused:
            raise PermissionError(refused)
        try:
            return socket.create_connection((address, port), *more)
        except OSError as error:
            problem = str(error)
    raise OSError(problem)


class _Http(HTTPConnection):
    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._create_connection = _connect


class _Https(HTTPSConnection):
    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._create_connection = _connect


class _HttpHandler(HTTPHandler):
    def http_open(self, req: Request) -> HTTPResponse:
        return self.do_open(_Http, req)


class _HttpsHandler(HTTPSHandler):
    def https_open(self, req: Request) -> HTTPResponse:
        return self.do_open(_Https, req)


class _NoRedirect(HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        """Follow none: its answer is an error."""


_OPENER = build_opener(_HttpHandler, _HttpsHandler, _NoRedirect)
