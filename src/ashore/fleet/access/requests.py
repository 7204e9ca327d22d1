"""Who sends a request: found by token, proxy, site and host name, for REST and pages.

What it promises: a request that another site's page makes is refused. Where no token is needed, a
request is refused that came by a host name which is not the server's: so no name of someone
else's can be made to point here (DNS rebinding). What the caller may do, `permissions` decides.
"""

import socket
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network, ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import Scope

from ashore.errors import NotAllowed
from ashore.fleet.access.permissions import note_caller, require_operator
from ashore.fleet.access.tokens import Caller, Grant, TokenFile, UserRole

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
Network = IPv4Network | IPv6Network
ANYBODY = Caller("anybody", (Grant("anybody", UserRole.OPERATE),), "anybody")
_OWN_SITE = frozenset({"same-origin", "none"})  # none: typed, or a bookmark


@dataclass(frozen=True, slots=True)
class TrustedProxy:
    """A proxy that says who a caller is, from which address, and whether they came by TLS.

    Arguments:
        networks: where it is.
        user_header: of the header that names a user; empty: it names none.
        groups_header: of the one with their groups, by commas.

    """

    networks: tuple[Network, ...]
    user_header: str = ""
    groups_header: str = ""

    def is_peer(self, scope: Scope) -> bool:
        """Return whether the other side of a connection is the proxy."""
        client = scope.get("client")
        try:
            address = ip_address(client[0]) if client else None
        except ValueError:
            return False
        return address is not None and any(address in each for each in self.networks)

    def take_over(self, scope: Scope, headers: Headers) -> None:
        """Note of a request from the proxy where it came from, as the proxy says."""
        address = headers.get("x-forwarded-for", "").rpartition(",")[2].strip()
        scheme = headers.get("x-forwarded-proto", "")
        state = scope.setdefault("state", {})
        state["is_proxied"] = True
        if address:
            scope["client"] = (address, 0)
        if scheme in {"http", "https"}:
            scope["scheme"] = scheme


@dataclass(frozen=True, slots=True)
class RequestAccess:
    """What the server knows of those who ask.

    Arguments:
        tokens: who has which.
        is_open: no token is needed, and everyone may operate.
        hosts: of this machine, beside addresses and `localhost`.
        allowed: hosts that people ask by, as with a proxy in between; they may have a port.
        proxy: who is believed about users; None: no one.

    """

    tokens: TokenFile
    is_open: bool = False
    hosts: frozenset[str] = field(default_factory=frozenset)
    allowed: frozenset[str] = field(default_factory=frozenset)
    proxy: TrustedProxy | None = None

    def admit(self, scope: Scope, headers: Headers, *, is_change: bool) -> None:
        """Find out who asks, note them, and check that they may. Raises NotAllowed.

        For which jobs they may, the route asks: see `JobAccess.admit`.
        """
        caller = self._caller(scope, headers)
        note_caller(scope, caller, is_change=is_change)
        if is_change:
            require_operator(caller)

    def known(self, scope: Scope, headers: Headers) -> Caller | None:
        """Return who asks, where that needs no secret of ours: anybody, or as a proxy says."""
        return ANYBODY if self.is_open else self.proxied(scope, headers)

    def _caller(self, scope: Scope, headers: Headers) -> Caller:
        """Return who asks, by the token that is sent, or by a proxy. Raises NotAllowed."""
        if self.is_open:
            return ANYBODY
        user = self.user_of(scope, headers)
        if user and "authorization" not in headers:
            named = self.proxied(scope, headers)
            if named is None:
                raise NotAllowed(
                    self.tokens.current().problem or f"the user {user[:100]!r} has no role here",
                    hint="`ashore token allow` gives one to a user or a group",
                )
            return named
        kind, _, token = headers.get("authorization", "").partition(" ")
        known = self.tokens.current()
        caller = known.find(token.strip()) if kind.casefold() == "bearer" else None
        if caller is None:
            raise NotAllowed(
                known.problem or "a token is needed",
                hint="send `Authorization: Bearer TOKEN`; `ashore token add` makes one",
                is_unknown=True,
            )
        return caller

    def user_of(self, scope: Scope, headers: Headers) -> str:
        """Return the user whom the proxy names, once and no more; empty: none."""
        if self.proxy is None or not self.proxy.user_header:
            return ""
        found = headers.getlist(self.proxy.user_header)
        return found[0] if len(found) == 1 and scope.get("state", {}).get("is_proxied") else ""

    def proxied(self, scope: Scope, headers: Headers) -> Caller | None:
        """Return who asks, as the proxy says; None: it names none, or none who has a role."""
        user = self.user_of(scope, headers)
        if not user or self.proxy is None:
            return None
        sent = headers.get(self.proxy.groups_header, "") if self.proxy.groups_header else ""
        groups = [each.strip() for each in sent.split(",") if each.strip()]
        return self.tokens.current().find_user(user, groups)

    def check_site(self, method: str, headers: Headers) -> None:
        """Check that a request is not another site's doing. Raises NotAllowed."""
        host = headers.get("host", "")
        if self.is_open and not self._is_ours(_name_of(host)):
            raise NotAllowed(
                f"{host[:100]!r} is not a name of this server, and no token is needed here",
                hint="ask by its address, or start it with this name as --allow-host",
            )
        is_link = method in SAFE and headers.get("sec-fetch-mode") == "navigate"
        if is_link and headers.get("sec-fetch-dest", "document") == "document":
            return  # a person follows a link: the other site does not see the answer
        site, origin = headers.get("sec-fetch-site"), headers.get("origin")
        if site is not None:
            is_own = site in _OWN_SITE
        else:  # not a browser, or one that is asked without TLS
            sent_by = "" if origin is None else urlsplit(origin).netloc.casefold()
            is_own = origin is None or sent_by == host.strip().casefold() or sent_by in self.allowed
        if not is_own:
            raise NotAllowed(
                "a page of another site has sent this request",
                hint="open the pages of this server, or send requests from a program",
            )

    def _is_ours(self, name: str) -> bool:
        if name == "localhost" or name.endswith(".localhost") or name in self.hosts:
            return True
        if name in {_name_of(each) for each in self.allowed}:
            return True
        try:
            ip_address(name)
        except ValueError:
            return False
        return True  # an address cannot be made to point elsewhere


def names_of(host: str) -> frozenset[str]:
    """Return the names of a server that listens at a host, in lower case."""
    own = {host, socket.gethostname(), socket.getfqdn()}
    return frozenset(_name_of(each) for each in own if each)


def _name_of(host: str) -> str:
    """Return the name or the address of a host that may have a port, in lower case."""
    name = host.strip().casefold()
    if name.startswith("["):
        return name[1:].partition("]")[0]
    head, colon, port = name.rpartition(":")
    is_port = bool(colon) and ":" not in head and port.isdecimal()
    return (head if is_port else name).rstrip(".")
