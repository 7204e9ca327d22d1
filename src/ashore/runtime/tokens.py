"""Tokens and roles: who may ask a server, and for what.

What it is: `TokenFile`, the one home of both, kept in one file of the state directory.
What it promises: the file is made at the first start, for its owner alone; one that others can read
is refused. A change of the file applies within `LOOK_S`, without a restart: a token that was
revoked opens nothing, and neither does a cookie that was made for it. A file that cannot be read
admits nobody. A token that was added is in the file by its digest only.
What it must not know: requests; cookies.
"""

import hashlib
import hmac
import json
import os
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from ashore.base.clock import Clock, SystemClock
from ashore.errors import NotAllowed, RequestInvalid
from ashore.runtime.files import take_lock, write_text

LOOK_S = 1.0  # how long a change of the file may take until it applies
LOCK_S, LOCK_LOOK_S = 10.0, 0.05
_Mark = tuple[int, int, int]
NAME_MAX = 200  # of a user or a group
_BYTES = 32
_BYTES_MAX = 1 << 20  # of the file
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,99}")


class UserRole(StrEnum):
    """What somebody may do."""

    READ = "read"
    OPERATE = "operate"


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks.

    Arguments:
        name: of the token.
        role: what it allows.
        id: names the token in cookies: a keyed digest, from which it cannot be guessed.

    """

    name: str
    role: UserRole
    id: str = ""

    @property
    def may_operate(self) -> bool:
        """Whether they may change something."""
        return self.role is UserRole.OPERATE


@dataclass(frozen=True, slots=True, repr=False)
class Tokens:
    """The tokens of a server.

    Arguments:
        callers: whose they are, by digest of the token.
        key: a secret of the server, which cookies are signed with.
        users: roles of those whom a trusted proxy names, by name.
        groups: likewise, by the groups that it says they are in.
        problem: why nobody is admitted; empty: they are.

    """

    callers: Mapping[str, Caller] = field(default_factory=dict)
    key: bytes = b""
    users: Mapping[str, UserRole] = field(default_factory=dict)
    groups: Mapping[str, UserRole] = field(default_factory=dict)
    problem: str = ""

    def find(self, token: str) -> Caller | None:
        """Return whose token it is; None: no one's. A digest is looked up: no timing tells one."""
        return self.callers.get(digest_of(token))

    def find_user(self, name: str, groups: Iterable[str] = ()) -> Caller | None:
        """Return somebody whom a trusted proxy names, with the most that they may; None: none."""
        roles = {self.users.get(name), *(self.groups.get(each) for each in groups)} - {None}
        if not roles:
            return None
        role = UserRole.OPERATE if UserRole.OPERATE in roles else UserRole.READ
        return Caller(name, role, f"user {name}")

    def find_id(self, id_: str) -> Caller | None:
        """Return the caller that a cookie names; None: the token was revoked, or never was."""
        return next((each for each in self.callers.values() if each.id == id_), None)


class TokenFile:
    """The file with the tokens of a server. May be used by many threads."""

    def __init__(self, path: Path, clock: Clock | None = None) -> None:
        self.path = path
        self._clock = clock or SystemClock()
        self._mark: _Mark | None = None
        self._looked_s = float("-inf")
        self._tokens = Tokens()

    def open(self) -> Tokens:
        """Return the tokens, and make the file if it is missing. Raises NotAllowed, OSError."""
        if not self.path.exists():
            made = [
                {"name": str(role), "role": str(role), "token": secrets.token_urlsafe(_BYTES)}
                for role in UserRole
            ]
            _write(self.path, {"tokens": made, "key": secrets.token_hex(_BYTES)})
        self._mark, self._tokens = _mark_of(self.path), _parse(self.path, _read(self.path))
        self._looked_s = self._clock.monotonic_s()
        return self._tokens

    def current(self) -> Tokens:
        """Return the tokens as they are now, at most `LOOK_S` old. Raises nothing."""
        now_s = self._clock.monotonic_s()
        if now_s - self._looked_s >= LOOK_S:
            self._looked_s = now_s
            try:
                mark = _mark_of(self.path)
                if mark != self._mark:
                    self._tokens, self._mark = _parse(self.path, _read(self.path)), mark
            except (NotAllowed, OSError) as error:
                told = error.message if isinstance(error, NotAllowed) else str(error)
                self._tokens, self._mark = Tokens(key=self._tokens.key, problem=told), None
        return self._tokens

    def add(self, name: str, role: UserRole) -> str:
        """Return a new token, which is kept by its digest only. Raises RequestInvalid, OSError."""
        if _NAME.fullmatch(name) is None:
            raise RequestInvalid(
                f"{name[:100]!r} is not a name for a token",
                hint="letters, digits, `-`, `_`, `.` and `@`, at most 100",
            )
        token = secrets.token_urlsafe(_BYTES)
        with self._changing() as document:
            if any(each["name"] == name for each in document["tokens"]):
                raise RequestInvalid(
                    f"there is a token `{name}` already", hint="revoke it first, or choose a name"
                )
            made = {"name": name, "role": str(role), "sha256": digest_of(token)}
            document["tokens"].append(made)
        return token

    def allow(self, kind: str, name: str, role: UserRole) -> None:
        """Give a role to a `user` or a `group` that a trusted proxy names, or another one. OSError.

        Raises RequestInvalid.
        """
        if not name or len(name) > NAME_MAX or not name.isprintable():
            raise RequestInvalid(f"{name[:100]!r} is not a name", hint=f"at most {NAME_MAX} signs")
        with self._changing() as document:
            listed = document.setdefault("users", [])
            listed[:] = [each for each in listed if each.get(kind) != name]
            listed.append({kind: name, "role": str(role)})

    def revoke(self, name: str) -> None:
        """Remove what this name has: a token, and roles as a user or a group.

        Raises RequestInvalid where it has none, OSError.
        """
        with self._changing() as document:
            found = 0
            for listed in (document["tokens"], document.get("users", [])):
                kept = [each for each in listed if name not in _names_of(each)]
                found += len(listed) - len(kept)
                listed[:] = kept
            if not found:
                hint = "`ashore token list` shows the names"
                raise RequestInvalid(f"there is no token {name[:100]!r}", hint=hint)

    @contextmanager
    def _changing(self) -> Iterator[dict[str, Any]]:
        """Hand out what is in the file, and write it once it was changed: one after the other."""
        lock = self.path.with_name("tokens.lock")
        deadline_s = self._clock.monotonic_s() + LOCK_S
        while (handle := take_lock(lock)) is None:
            if self._clock.monotonic_s() > deadline_s:
                raise RequestInvalid(
                    f"another command changes {self.path}", hint="try again once it has ended"
                )
            self._clock.sleep(LOCK_LOOK_S)
        try:
            self.open()
            document = _read(self.path)
            yield document
            _parse(self.path, document)
            _write(self.path, document)
        finally:
            os.close(handle)


def digest_of(token: str) -> str:
    """Return the digest that a token is known by."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def _mark_of(path: Path) -> _Mark:
    found = path.stat()
    if found.st_mode & 0o077:
        raise NotAllowed(f"others can read the tokens in {path}", hint=f"chmod 600 {path}")
    return (found.st_mtime_ns, found.st_size, found.st_ino)


def _read(path: Path) -> dict[str, Any]:
    """Return what is in the file. Raises NotAllowed, OSError."""
    try:
        with path.open("rb") as file:
            document = json.loads(file.read(_BYTES_MAX))
        if isinstance(document, dict) and isinstance(document["tokens"], list):
            return document
        found = type(document).__name__
    except (ValueError, KeyError, RecursionError) as error:
        found = type(error).__name__  # its message may quote a token
    raise _no_tokens(path, found)


def _parse(path: Path, document: Mapping[str, Any]) -> Tokens:
    """Return the tokens of a document. Raises NotAllowed."""
    try:
        key = bytes.fromhex(document["key"])
        callers = {}
        for each in document["tokens"]:
            digest = str(each["sha256"]) if "sha256" in each else digest_of(str(each["token"]))
            id_ = hmac.new(key, b"token " + digest.encode(), hashlib.sha256).hexdigest()[:32]
            callers[digest] = Caller(str(each["name"]), UserRole(each["role"]), id_)
        users, groups = (_roles_of(document.get("users", []), each) for each in ("user", "group"))
        return Tokens(callers, key, users, groups)
    except (ValueError, KeyError, TypeError) as error:
        raise _no_tokens(path, type(error).__name__) from None


def _roles_of(listed: Iterable[Mapping[str, str]], kind: str) -> dict[str, UserRole]:
    return {str(each[kind]): UserRole(each["role"]) for each in listed if kind in each}


def _names_of(item: Mapping[str, object]) -> set[object]:
    return {item[each] for each in ("name", "user", "group") if each in item}


def _no_tokens(path: Path, found: str) -> NotAllowed:
    return NotAllowed(
        f"{path} does not hold tokens ({found})",
        hint="restore it, or remove it: the next start makes new tokens",
    )


def _write(path: Path, document: Mapping[str, Any]) -> None:
    write_text(path, json.dumps(document, indent=1) + "\n", 0o600)
