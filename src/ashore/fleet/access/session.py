"""Who is logged in: a cookie that is signed, and a guard for forms.

What it is: `Sessions`, which makes and reads cookies.
What it promises: a cookie names its token by a keyed digest, and holds neither the token nor a
role: both are looked up, so a cookie is worth nothing once its token is revoked. It expires, also
after the server was started again; a form is only taken from a page of ours.
What it must not know: what roles may do.
"""

import hashlib
import hmac
from dataclasses import dataclass

from ashore.fleet.access.requests import ANYBODY
from ashore.fleet.access.tokens import Caller, Tokens

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

    @classmethod
    def of(cls, caller: Caller, csrf: str) -> "Visitor":
        """Return who looks at a page that is about no job."""
        return cls(caller, csrf, caller.may_operate)

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
    """Cookies of those who are logged in. `key`: secret, and kept by the server."""

    def __init__(self, key: bytes) -> None:
        self._key = hashlib.sha256(b"ashore pages" + key).digest()

    def cookie(self, caller: Caller, now_ms: int, nonce: str) -> str:
        """Return the cookie of somebody who has a token."""
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
        return None if caller is None else Visitor.of(caller, self._sign("form " + cookie))

    def named(self, caller: Caller) -> Visitor:
        """Return somebody whom a proxy names in each request: they have no cookie of ours."""
        return Visitor.of(caller, self._sign("form of " + caller.id))

    def anybody(self) -> Visitor:
        """Return who looks at the pages of a server that asks for no token."""
        return Visitor.of(ANYBODY, self._sign("form of anybody"))

    def is_form(self, visitor: Visitor, sent: str) -> bool:
        """Tell whether a form came from a page that this visitor was shown."""
        return hmac.compare_digest(visitor.csrf.encode(), sent.encode())

    def _sign(self, text: str) -> str:
        return hmac.new(self._key, text.encode(), hashlib.sha256).hexdigest()
