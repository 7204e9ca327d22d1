"""Who sends a request, and what is asked before each handler, of REST and of pages.

What it is: `RequestAccess` finds the caller by token, proxy, site and host name; `GuardedRoute` of
the API; `PageGuard`, which the routes of pages call; `Admits`, what such a route says of itself;
`Sessions`, who is logged in. What a caller may do, `permissions` decides.
What it promises: a request that another site's page makes is refused. Where no token is needed, a
request is refused that came by a host name which is not the server's: so no name of someone else's
can be made to point here (DNS rebinding). No handler of a page runs, and no body of a request is
read, for anybody who has not logged in, or has no role on the job in its address, unless its route
is marked with `Admits.ANYBODY`; nothing is changed by a form that did not come from a page of ours,
or by a caller who may only read.
"""

import hashlib
import hmac
import socket
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from enum import Enum
from ipaddress import IPv4Network, IPv6Network, ip_address
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

from fastapi import Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.routing import APIRoute
from starlette.datastructures import Headers
from starlette.types import Scope

from ashore.base.unique import unique
from ashore.errors import NotAllowed
from ashore.fleet.access.permissions import JobAccess, note_caller, noted_caller, require_operator
from ashore.fleet.access.tokens import Caller, Grant, TokenFile, Tokens, UserRole
from ashore.fleet.records.server_files import Asker

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


# ---- before each handler

COOKIE = "ashore_session"
KEPT_MS = 12 * 3_600_000


@dataclass(frozen=True, slots=True)
class Visitor:
    """Who looks at a page.

    Arguments:
        caller: who that is.
        csrf: what a form of theirs has to carry.
        may_operate: whether they may change what the page is about.

    """

    caller: Caller
    csrf: str
    may_operate: bool

    @property
    def sees_all(self) -> bool:
        """Whether they have a role on all jobs, and so on the server."""
        return self.caller.grant_on(None) is not None

    @property
    def role(self) -> str:
        """Their role on all jobs, or that they have some by the labels of jobs."""
        grant = self.caller.grant_on(None)
        return "role by job" if grant is None else str(grant.role)


class Sessions:
    """Makes and reads the cookies of those who are logged in, and guards forms.

    A cookie names its token by a keyed digest, and holds neither the token nor a role: both are
    looked up, so a cookie is worth nothing once its token is revoked. It expires, also after the
    server was started again; a form is only taken from a page of ours.

    Arguments:
        key: secret, and kept by the server.

    """

    def __init__(self, key: bytes) -> None:
        self._key = hashlib.sha256(b"ashore pages" + key).digest()

    def cookie(self, caller: Caller, now_ms: int, nonce: str) -> str:
        """Return the cookie of a caller who has a token."""
        text = f"{caller.id}.{now_ms + KEPT_MS}.{nonce}"
        return f"{text}.{self._sign(text)}"

    def visitor(self, cookie: str, tokens: Tokens, now_ms: int) -> Visitor | None:
        """Return whose cookie it is; None: no one's, or of a token that was revoked."""
        text, _, signature = cookie.rpartition(".")
        parts = text.split(".")
        is_ours = hmac.compare_digest(signature.encode(), self._sign(text).encode())
        if not is_ours or len(parts) != 3 or int(parts[1]) <= now_ms:
            return None
        caller = tokens.find_id(parts[0])
        if caller is None:
            return None
        return Visitor(caller, self._sign("form " + cookie), caller.may_operate)

    def named(self, caller: Caller) -> Visitor:
        """Return who looks at a page without a cookie of ours: anybody, or as a proxy says."""
        return Visitor(caller, self._sign("form of " + caller.id), caller.may_operate)

    def is_form(self, visitor: Visitor, sent: str) -> bool:
        """Return whether a form came from a page that this visitor was shown."""
        return hmac.compare_digest(visitor.csrf.encode(), sent.encode())

    def _sign(self, text: str) -> str:
        return hmac.new(self._key, text.encode(), hashlib.sha256).hexdigest()


FORM_BYTES_MAX = 1_000_000
LOGIN_BYTES_MAX = 10_000  # anybody may send one
FIELDS_MAX = 10_000
WHY_MAX = 1_000


class GuardedRoute(APIRoute):
    """A route of the API. The layer before the application has found out who asks."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return what answers a request."""
        handle, path = super().get_route_handler(), self.path

        async def answer(request: Request) -> Response:
            caller, is_change = noted_caller(request.scope)
            if caller is None:
                raise NotAllowed(
                    "the caller of this request was not identified", hint="use `ashore serve`"
                )
            jobs: JobAccess = request.app.state.job_access
            jobs.admit(request, path, caller, is_change=is_change)
            return await handle(request)

        return answer


class Admits(Enum):
    """Whom the routes of a router admit."""

    ANYBODY = "anybody"  # without a login
    READERS = "readers"  # who are logged in, also to send forms, which change nothing
    OPERATORS = "operators"  # readers may look; forms are for who may operate


class LoginNeeded(Exception):
    """A login is needed, and there is none."""


class Forbidden(Exception):
    """What was asked for may not be done; the message says why."""


class PageGuard:
    """Finds who looks at a page, and what they may do with which job: see `jobs`."""

    def __init__(self, access: RequestAccess, jobs: JobAccess, now_ms: Callable[[], int]) -> None:
        self._access = access
        self.jobs = jobs
        self._sessions = Sessions(access.tokens.current().key)
        self._now_ms = now_ms

    async def admit(self, request: Request, path: str, admits: Admits) -> None:
        """Let a request to its handler, which has `visitor_of` and `form_of` it.

        `path`: of the route, with parameters. Raises LoginNeeded, Forbidden, NotAllowed.
        """
        if admits is Admits.ANYBODY:
            return
        visitor, is_form = self.visitor(request), request.method not in SAFE
        is_change = is_form and admits is Admits.OPERATORS
        request.state.visitor = visitor
        if is_change:
            require_operate(request)
        job = self.jobs.admit(request, path, visitor.caller, is_change=is_change)
        if job is not None:
            may_operate = self.jobs.may_operate(visitor.caller, job)
            request.state.visitor = replace(visitor, may_operate=may_operate)
        if is_form:
            fields = await read_form(request)
            if not self._sessions.is_form(visitor, fields.pop("csrf", "")):
                raise Forbidden("the form is not from a page of this server: load the page again")
            request.state.form = fields

    def visitor(self, request: Request) -> Visitor:
        """Return who looks at a page. Raises LoginNeeded."""
        named = self._access.known(request.scope, request.headers)
        if named is not None:
            return self._sessions.named(named)
        cookie = request.cookies.get(COOKIE, "")
        known, now_ms = self._access.tokens.current(), self._now_ms()
        found = self._sessions.visitor(cookie, known, now_ms) if cookie else None
        if found is None:
            raise LoginNeeded
        return found

    def unknown_user(self, request: Request) -> str:
        """Return the user whom the proxy names and who has no role here; empty: there is none."""
        if self._access.proxied(request.scope, request.headers) is not None:
            return ""
        return self._access.user_of(request.scope, request.headers)

    def log_in(self, request: Request, token: str) -> dict[str, object] | None:
        """Return the arguments of the cookie for a token; None: it is not one."""
        caller = self._access.tokens.current().find(token)
        if caller is None:
            return None
        note_caller(request.scope, caller, is_change=True)
        return {
            "key": COOKIE,
            "value": self._sessions.cookie(caller, self._now_ms(), unique()),
            "max_age": KEPT_MS // 1000,
            "httponly": True,
            "samesite": "strict",
            "path": "/",
        }


def visitor_of(request: Request) -> Visitor:
    """Return who was admitted to a handler."""
    return cast("Visitor", request.state.visitor)


def form_of(request: Request) -> dict[str, str]:
    """Return the fields of the form that was sent to a handler."""
    return cast("dict[str, str]", request.state.form)


def asker_of(request: Request) -> Asker:
    """Return who asks for something by a form, and why."""
    fields = form_of(request)
    return Asker(visitor_of(request).caller.name, fields.get("why", "")[:WHY_MAX])


def require_operate(request: Request) -> None:
    """Check that who was admitted may operate: what follows is a change. Raises NotAllowed."""
    caller = visitor_of(request).caller
    note_caller(request.scope, caller, is_change=True)
    require_operator(caller)


async def read_form(request: Request, bytes_max: int = FORM_BYTES_MAX) -> dict[str, str]:
    """Return the fields of a form, the last of each name. Raises Forbidden where it is too long."""
    data = bytearray()
    async for part in request.stream():
        data += part
        if len(data) > bytes_max:
            raise Forbidden(f"a form here has at most {bytes_max:,} bytes")
    text = data.decode("utf-8", "replace")
    try:
        found = await run_in_threadpool(
            parse_qs, text, keep_blank_values=True, max_num_fields=FIELDS_MAX
        )
    except ValueError:
        raise Forbidden(f"a form has at most {FIELDS_MAX:,} fields") from None
    return {name: values[-1] for name, values in found.items()}
