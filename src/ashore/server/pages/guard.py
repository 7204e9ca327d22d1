"""Who may see a page, who may change something: what each route asks first.

What it is: `PageGuard`, with the answers that are pages: log in, forbidden.
What it promises: no page but the login is shown to anybody who has not logged in; nothing is
changed by a form that did not come from a page of ours, or by somebody who may only read.
"""

from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import parse_qs

from fastapi import Request

from ashore.base.unique import unique
from ashore.server.pages.control_plane import UserRole
from ashore.server.pages.session import COOKIE, KEPT_MS, Sessions, Visitor

FORM_BYTES_MAX = 1_000_000


class LoginNeeded(Exception):
    """Nobody is logged in."""


class Forbidden(Exception):
    """What was asked for may not be done; the message says why."""


@dataclass(frozen=True, slots=True)
class TokenAccess:
    """What the server knows of its tokens.

    Arguments:
        role_of: the role of a token; None: it is none.
        key: a secret of this server, which cookies are signed with.
        is_open: nobody has to log in, and everybody may operate.

    """

    role_of: Callable[[str], UserRole | None]
    key: bytes
    is_open: bool = False


class PageGuard:
    """Asks who somebody is."""

    def __init__(self, access: TokenAccess, now_ms: Callable[[], int]) -> None:
        self._access = access
        self._sessions = Sessions(access.key)
        self._now_ms = now_ms

    def visitor(self, request: Request) -> Visitor:
        """Return who looks at a page. Raises LoginNeeded."""
        if self._access.is_open:
            return self._sessions.anybody()
        cookie = request.cookies.get(COOKIE, "")
        found = self._sessions.visitor(cookie, self._now_ms()) if cookie else None
        if found is None:
            raise LoginNeeded
        return found

    def log_in(self, token: str) -> dict[str, object] | None:
        """Return the arguments of the cookie for a token; None: it is none."""
        role = self._access.role_of(token)
        if role is None:
            return None
        return {
            "key": COOKIE,
            "value": self._sessions.cookie(role, self._now_ms(), unique()),
            "max_age": KEPT_MS // 1000,
            "httponly": True,
            "samesite": "strict",
            "path": "/",
        }

    async def form(self, request: Request) -> dict[str, str]:
        """Return the fields of a form that changes something. Raises LoginNeeded, Forbidden."""
        visitor, fields = self.visitor(request), await read_form(request)
        if not self._sessions.is_form(visitor, fields.pop("csrf", "")):
            raise Forbidden("the form is not from a page of this server: load the page again")
        if not visitor.may_operate:
            raise Forbidden("this token may only read: log in with one of role `operate`")
        return fields

    async def question(self, request: Request) -> dict[str, str]:
        """Return the fields of a form that only asks. Raises LoginNeeded, Forbidden."""
        visitor, fields = self.visitor(request), await read_form(request)
        if not self._sessions.is_form(visitor, fields.pop("csrf", "")):
            raise Forbidden("the form is not from a page of this server: load the page again")
        return fields


async def read_form(request: Request) -> dict[str, str]:
    """Return the fields of a form, the last of each name. Raises Forbidden where it is too long."""
    data = b""
    async for part in request.stream():
        data += part
        if len(data) > FORM_BYTES_MAX:
            raise Forbidden(f"a form has at most {FORM_BYTES_MAX:,} bytes")
    found = parse_qs(data.decode("utf-8", "replace"), keep_blank_values=True)
    return {name: values[-1] for name, values in found.items()}
