"""Who may see a page, who may change something: what is asked before each handler.

What it is: `GuardedRoute` of the API; `PageGuard`, which the routes of pages call; `Admits`, what
such a route says of itself; `Sessions`, who is logged in.
What it promises: no handler of a page runs, and no body of a request is read, for anybody who has
not logged in, or has no role on the job in its address, unless its route is marked with
`Admits.ANYBODY`; nothing is changed by a form that did not come from a page of ours, or by a
caller who may only read.
"""

import hashlib
import hmac
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, cast
from urllib.parse import parse_qs

from fastapi import Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.routing import APIRoute

from ashore.base.unique import unique
from ashore.errors import NotAllowed
from ashore.fleet.access.permissions import JobAccess, note_caller, noted_caller, require_operator
from ashore.fleet.access.requests import SAFE, RequestAccess
from ashore.fleet.access.tokens import Caller, Tokens
from ashore.fleet.records.server_files import Asker

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
