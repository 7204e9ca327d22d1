"""Who is logged in: a cookie that is signed, and a guard for forms.

What it is: `Sessions`, which makes and reads cookies.
What it promises: the token is never in a cookie; a cookie says who somebody is until it expires or
the key changes, also after the server was started again; a form is only taken from a page of ours.
What it must not know: what roles may do.
"""

import hashlib
import hmac
from dataclasses import dataclass

from ashore.server.pages.control_plane import UserRole

COOKIE = "ashore_session"
KEPT_MS = 12 * 3_600_000


@dataclass(frozen=True, slots=True)
class Visitor:
    """Who looks at a page, and what a form of theirs has to carry."""

    role: UserRole
    csrf: str

    @property
    def may_operate(self) -> bool:
        """Whether they may change something."""
        return self.role is UserRole.OPERATE


class Sessions:
    """Cookies of those who are logged in. `key`: secret, and kept by the server."""

    def __init__(self, key: bytes) -> None:
        self._key = hashlib.sha256(b"ashore pages" + key).digest()

    def cookie(self, role: UserRole, now_ms: int, nonce: str) -> str:
        """Return the cookie of somebody with a role."""
        text = f"{role}.{now_ms + KEPT_MS}.{nonce}"
        return f"{text}.{self._sign(text)}"

    def visitor(self, cookie: str, now_ms: int) -> Visitor | None:
        """Return whose cookie it is; None: nobody's."""
        text, _, signature = cookie.rpartition(".")
        parts = text.split(".")
        is_ours = hmac.compare_digest(signature.encode(), self._sign(text).encode())
        if not is_ours or len(parts) != 3 or int(parts[1]) <= now_ms:
            return None
        return Visitor(UserRole(parts[0]), self._sign("form " + cookie))

    def anybody(self) -> Visitor:
        """Return who looks at the pages of a server that asks for no token."""
        return Visitor(UserRole.OPERATE, self._sign("form of anybody"))

    def is_form(self, visitor: Visitor, sent: str) -> bool:
        """Tell whether a form came from a page that this visitor was shown."""
        return hmac.compare_digest(visitor.csrf.encode(), sent.encode())

    def _sign(self, text: str) -> str:
        return hmac.new(self._key, text.encode(), hashlib.sha256).hexdigest()
