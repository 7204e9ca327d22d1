"""Who sends a request, and what they may do: the one check of REST and pages.

What it is: `RequestAccess`, which finds who asks, by token, proxy, site and host name; `JobAccess`,
which finds the role that a caller has on a job; `Reach`, what a route is about.
What it promises: a request that another site's page makes is refused. Where no token is needed, a
request is refused that came by a host name which is not the server's: so no name of someone
else's can be made to point here (DNS rebinding). A route whose address has a job, or an operation,
is answered to who has a role on that job alone, and changes it for who may operate it alone. Every
other route is for who has a role on all jobs, unless it is listed here: those show only what the
caller may read.
"""

import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from ipaddress import IPv4Network, IPv6Network, ip_address
from typing import Protocol
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import Scope

from ashore.errors import NotAllowed
from ashore.fleet.access.tokens import Caller, Grant, TokenFile, Tokens, UserRole

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

    def current(self) -> Tokens:
        """Return the tokens as they are now."""
        return self.tokens.current()

    def admit(self, scope: Scope, headers: Headers, *, is_change: bool) -> None:
        """Find out who asks, note them, and check that they may. Raises NotAllowed.

        For which jobs they may, the route asks: see `JobAccess.admit`.
        """
        caller = self._caller(scope, headers)
        note_caller(scope, caller, is_change=is_change)
        if is_change and not caller.may_operate:
            raise NotAllowed(f"`{caller.name}` may only read", hint="this needs the role `operate`")

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
                    self.current().problem or f"the user {user[:100]!r} has no role here",
                    hint="`ashore token allow` gives one to a user or a group",
                )
            return named
        kind, _, token = headers.get("authorization", "").partition(" ")
        known = self.current()
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
        return self.current().find_user(user, groups)

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


def note_caller(
    scope: Scope, caller: Caller, *, is_change: bool, grant: Grant | None = None
) -> None:
    """Keep who asks with the request, and by which rule, for its handler and for the audit."""
    scope.setdefault("state", {}).update(caller=caller, is_change=is_change, grant=grant)


def noted_caller(scope: Scope) -> tuple[Caller | None, bool]:
    """Return who asks, if that is known by now, and whether it is a change."""
    state = scope.get("state", {})
    return state.get("caller"), bool(state.get("is_change"))


def noted_rule(scope: Scope) -> str:
    """Return the rule that has allowed a request; empty: none has."""
    found = scope.get("state", {}).get("grant")
    return "" if found is None else str(found)


JOBS = {"/api/jobs/{job}": "job", "/ui/jobs/{name}": "name"}  # and the parameter that names it
OPERATIONS = {"/api/operations/{id}": "id", "/ui/operations/{id_}": "id_"}
OWN = frozenset(
    {
        *("/api/jobs", "/api/operations", "/api/events", "/api/history", "/api/server"),
        *("/ui/jobs", "/ui/operations", "/ui/events", "/api/schema", "/ui/write", "/ui/logout"),
    }
)
DEPLOY = ("PUT", "/api/jobs/{job}")


class Reach(Enum):
    """What a route is about."""

    JOB = "job"  # the one in its address
    OPERATION = "operation"  # the job of the one in its address
    DEPLOY = "deploy"  # a job that may not be there yet: `check_deploy` is asked by its handler
    OWN = "own"  # what the caller may read
    SERVER = "server"  # all jobs

    @classmethod
    def of(cls, method: str, path: str) -> "Reach":
        """Return what a route is about, by its method and its address with parameters."""
        if (method, path) == DEPLOY:
            return cls.DEPLOY
        if _root_of(path) in JOBS:
            return cls.JOB
        if _root_of(path) in OPERATIONS:
            return cls.OPERATION
        return cls.OWN if path in OWN else cls.SERVER


class KnownLabels(Protocol):
    """What is asked about jobs."""

    def labels(self, name: str) -> Mapping[str, str] | None:
        """Return the labels of a job; None: there is no such job, or its file is not valid."""
        ...

    def job_of(self, operation: str) -> str:
        """Return the job of an operation; empty: it has none, or there is no such operation."""
        ...


class JobAccess:
    """Decides by the labels that jobs have now. May be used by many threads."""

    def __init__(self, known: KnownLabels) -> None:
        self._known = known

    def role_on(self, caller: Caller, job: str) -> Grant | None:
        """Return the rule that allows most on a job, with its role; None: no rule holds for it.

        For a job that there is not, or whose labels are not known, only rules for all jobs hold.
        """
        return caller.grant_on(self._known.labels(job) if job else None)

    def readable(self, caller: Caller) -> Callable[[str], bool]:
        """Return a test of whether a caller may read a job, by its name; empty: the server."""
        return lambda job: self.role_on(caller, job) is not None

    def scope(self, caller: Caller) -> tuple[Grant, ...]:
        """Return the rules that limit what a caller may read; empty: everything."""
        return () if caller.grant_on(None) else caller.grants

    def may_operate(self, caller: Caller, job: str) -> bool:
        """Return whether a caller may change a job; empty: the server."""
        found = self.role_on(caller, job)
        return found is not None and found.role is UserRole.OPERATE

    def require(self, caller: Caller, job: str, role: UserRole) -> Grant:
        """Return the rule by which a caller has a role on a job. Raises NotAllowed.

        `job`: empty: the server, and all jobs.
        """
        found = self.role_on(caller, job)
        if found is None or (role is UserRole.OPERATE and found.role is not role):
            raise refusal(caller, role, f"on job {job[:100]}" if job else "on all jobs")
        return found

    def admit(self, request: Request, path: str, caller: Caller, *, is_change: bool) -> str | None:
        """Check that a caller may ask a route, and note the rule. Raises NotAllowed.

        Return the job that the request is about; empty: the server; None: what the caller may read.

        Arguments:
            request: which has come to the route.
            path: of the route, with parameters.
            caller: who asks.
            is_change: whether the request changes something.

        """
        values, reach = request.path_params, Reach.of(request.method, path)
        role = UserRole.OPERATE if is_change else UserRole.READ
        note_caller(request.scope, caller, is_change=is_change)  # a refusal is noted, too
        if reach in {Reach.OWN, Reach.DEPLOY}:
            return None
        job = ""
        if reach is Reach.JOB:
            job = str(values[JOBS[_root_of(path)]])
        elif reach is Reach.OPERATION:
            job = self._known.job_of(str(values[OPERATIONS[_root_of(path)]]))
        grant = self.require(caller, job, role)
        note_caller(request.scope, caller, is_change=is_change, grant=grant)
        return job


def _root_of(path: str) -> str:
    """Return the first three parts of an address: `/api/jobs/{job}`."""
    return "/".join(path.split("/")[:4])


def refusal(caller: Caller, role: UserRole, where: str) -> NotAllowed:
    """Return the error for a caller who lacks a role. `where`: as `on job clicks`."""
    return NotAllowed(
        f"`{caller.name}` does not have the role `{role}` {where}",
        hint="roles are given by `ashore token allow`, for all jobs or with --jobs by their labels",
    )
