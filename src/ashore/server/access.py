"""Tokens: who may ask a server, and for what.

What it is: `Tokens`, kept in one file of the state directory.
What it promises: the file is made at the first start, for its owner alone; one that others can read
is refused. A token is compared in constant time, and shown by nothing but the file.
What it must not know: requests; cookies.
"""

import hmac
import json
import secrets
from dataclasses import dataclass
from pathlib import Path

from ashore.errors import NotAllowed
from ashore.runtime.files import write_text
from ashore.server.pages.control_plane import UserRole

_BYTES = 32


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks: the name of a token, and its role."""

    name: str
    role: UserRole


@dataclass(frozen=True, slots=True, repr=False)
class Tokens:
    """The tokens of a server.

    Arguments:
        callers: whose they are, by token.
        key: a secret of the server, which cookies are signed with.

    """

    callers: dict[str, Caller]
    key: bytes

    def find(self, token: str) -> Caller | None:
        """Return whose token it is; None: nobody's."""
        found = None
        for known, caller in self.callers.items():
            if hmac.compare_digest(known.encode(), token.encode("utf-8", "surrogateescape")):
                found = caller
        return found

    def role_of(self, token: str) -> UserRole | None:
        """Return what a token allows; None: it is none."""
        caller = self.find(token)
        return None if caller is None else caller.role


def open_tokens(path: Path) -> Tokens:
    """Return the tokens in a file, which is made if it is missing. Raises NotAllowed, OSError."""
    if not path.exists():
        made = [
            {"name": str(role), "role": str(role), "token": secrets.token_urlsafe(_BYTES)}
            for role in UserRole
        ]
        document = {"tokens": made, "key": secrets.token_hex(_BYTES)}
        write_text(path, json.dumps(document, indent=1) + "\n", 0o600)
    if path.stat().st_mode & 0o077:
        raise NotAllowed(f"others can read the tokens in {path}", hint=f"chmod 600 {path}")
    try:
        document = json.loads(path.read_text("utf-8"))
        callers = {
            str(each["token"]): Caller(str(each["name"]), UserRole(each["role"]))
            for each in document["tokens"]
        }
        return Tokens(callers, bytes.fromhex(document["key"]))
    except (ValueError, KeyError, TypeError) as error:
        raise NotAllowed(
            f"{path} does not hold tokens: {error!r}",
            hint="remove it: the next start makes new tokens",
        ) from None
