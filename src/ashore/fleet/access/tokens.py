"""Tokens and roles: who may ask a server, and for what.

What it is: `TokenFile`, the one home of both, kept in one file of the state directory.
What it promises: the file is made at the first start, for its owner alone; one that others can read
is refused. A change of the file applies within `LOOK_S`, without a restart: a token that was
revoked opens nothing, and neither does a cookie that was made for it. A file that cannot be read,
or with a rule that is not valid, admits no one. A token that was added is in the file by its digest
only.
"""

import hashlib
import hmac
import json
import logging
import os
import re
import secrets
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from ashore.base.clock import Clock, SystemClock
from ashore.base.labels import HINT, Selector
from ashore.errors import NotAllowed, RequestInvalid
from ashore.fleet.machine.locks import take_lock
from ashore.fleet.records.store import write_text

LOOK_S = 1.0  # how long a change of the file may take until it applies
LOCK_S, LOCK_LOOK_S = 10.0, 0.05
_Mark = tuple[int, int, int]
NAME_MAX = 200  # of a user or a group
_BYTES = 32
_log = logging.getLogger("ashore.fleet.server")
_BYTES_MAX = 1 << 20  # of the file
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,99}")


class UserRole(StrEnum):
    """What a caller may do."""

    READ = "read"
    OPERATE = "operate"


@dataclass(frozen=True, slots=True)
class Grant:
    """A rule: a role, and the jobs that it holds for.

    Arguments:
        owner: whose it is: `token deployer`, `user anna`, `group payments`.
        role: what it allows.
        jobs: by their labels; without terms all jobs, and the server itself.

    """

    owner: str
    role: UserRole
    jobs: Selector = field(default_factory=Selector)

    def holds_for(self, labels: Mapping[str, str] | None) -> bool:
        """Return whether it holds for a job with these labels; None: they are not known."""
        return not self.jobs.terms or (labels is not None and self.jobs.matches(labels))

    def __str__(self) -> str:
        """Return the rule as audit lines name it."""
        return f"{self.owner}: {self.role} on {str(self.jobs) or 'all jobs'}"


def is_in_scope(scope: tuple[Grant, ...], labels: Mapping[str, str] | None) -> bool:
    """Return whether a caller with these rules may read a job with these labels (None: not known).

    `scope`: empty where they may read everything.
    """
    return not scope or any(each.holds_for(labels) for each in scope)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks.

    Arguments:
        name: of the token, or of the user.
        grants: what they may do.
        id: names the token in cookies: a keyed digest, from which it cannot be guessed.

    """

    name: str
    grants: tuple[Grant, ...]
    id: str = ""

    def grant_on(self, labels: Mapping[str, str] | None) -> Grant | None:
        """Return the rule that allows most on a job with these labels; None: no rule holds.

        Labels that are not known (None) are those of no job: only a rule for all jobs holds.
        """
        matching = [each for each in self.grants if each.holds_for(labels)]
        return max(matching, key=lambda each: each.role is UserRole.OPERATE, default=None)

    @property
    def may_operate(self) -> bool:
        """Whether they may change something, whichever job it is."""
        return any(each.role is UserRole.OPERATE for each in self.grants)


@dataclass(frozen=True, slots=True, repr=False)
class Tokens:
    """The tokens of a server.

    Arguments:
        callers: whose they are, by digest of the token.
        key: a secret of the server, which cookies are signed with.
        users: rules of those whom a trusted proxy names, by name.
        groups: likewise, by the groups that it says they are in.
        problem: why no one is admitted; empty: callers are.

    """

    callers: Mapping[str, Caller] = field(default_factory=dict)
    key: bytes = b""
    users: Mapping[str, tuple[Grant, ...]] = field(default_factory=dict)
    groups: Mapping[str, tuple[Grant, ...]] = field(default_factory=dict)
    problem: str = ""

    def find(self, token: str) -> Caller | None:
        """Return whose token it is; None: no one's. Looking up a digest leaks no timing."""
        return self.callers.get(digest_token(token))

    def find_user(self, name: str, groups: Iterable[str] = ()) -> Caller | None:
        """Return a user whom a trusted proxy names, with all their rules; None: there is none."""
        grants = self.users.get(name, ())
        for each in dict.fromkeys(groups):
            grants += self.groups.get(each, ())
        return Caller(name, grants, f"user {name}") if grants else None

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
                problem = error.message if isinstance(error, NotAllowed) else str(error)
                if problem != self._tokens.problem:
                    _log.error("no caller is admitted: %s", problem)
                self._tokens, self._mark = Tokens(key=self._tokens.key, problem=problem), None
        return self._tokens

    def add(self, name: str, role: UserRole, jobs: str | None = None) -> str:
        """Return a new token, which is kept by its digest only. Raises RequestInvalid, OSError.

        `jobs`: a selector of those that the role holds for; None: all.
        """
        if _NAME.fullmatch(name) is None:
            raise RequestInvalid(
                f"{name[:100]!r} is not a name for a token",
                hint="letters, digits, `-`, `_`, `.` and `@`, at most 100",
            )
        rule = _rule(role, jobs)
        token = secrets.token_urlsafe(_BYTES)
        with self._changing() as document:
            if any(each["name"] == name for each in document["tokens"]):
                raise RequestInvalid(
                    f"there is a token `{name}` already", hint="revoke it first, or choose a name"
                )
            document["tokens"].append({"name": name, **rule, "sha256": digest_token(token)})
        return token

    def allow(self, kind: str, name: str, role: UserRole, jobs: str | None = None) -> None:
        """Give a role to a `user` or a `group` that a trusted proxy names, or to a token (`name`).

        It takes the place of the role that they have for the same `jobs`, which are as those of
        `add`. Raises RequestInvalid, OSError.
        """
        if not name or len(name) > NAME_MAX or not name.isprintable():
            raise RequestInvalid(f"{name[:100]!r} is not a name", hint=f"at most {NAME_MAX} signs")
        rule = _rule(role, jobs)
        with self._changing() as document:
            if kind == "name" and all(each["name"] != name for each in document["tokens"]):
                raise RequestInvalid(
                    f"there is no token {name[:100]!r}", hint="`ashore token add` makes one"
                )
            listed = document.setdefault("users", [])
            same = (name, rule.get("jobs"))
            listed[:] = [each for each in listed if (each.get(kind), each.get("jobs")) != same]
            listed.append({kind: name, **rule})

    def revoke(self, name: str) -> None:
        """Remove what this name has: a token, and roles as a user or a group.

        Raises RequestInvalid where it has none, OSError.
        """
        with self._changing() as document:
            found, kinds = 0, ("name", "user", "group")
            for listed in (document["tokens"], document.get("users", [])):
                kept = [each for each in listed if all(each.get(kind) != name for kind in kinds)]
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


def digest_token(token: str) -> str:
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


def _rule(role: UserRole, jobs: str | None) -> dict[str, str]:
    """Return a rule as it is in the file. Raises RequestInvalid."""
    if jobs is None:
        return {"role": str(role)}
    try:
        return {"role": str(role), "jobs": str(Selector.parse(jobs))}
    except ValueError as error:
        raise RequestInvalid(f"--jobs: {error}", hint=HINT) from None


def _parse(path: Path, document: Mapping[str, Any]) -> Tokens:
    """Return the tokens of a document. Raises NotAllowed."""
    where = "its key"
    try:
        key = bytes.fromhex(document["key"])
        found: dict[tuple[str, str], tuple[Grant, ...]] = {}
        own: dict[str, tuple[str, Grant]] = {}
        for number, each in enumerate(document["tokens"]):
            where = f"item {number + 1} of `tokens`"
            digest = str(each["sha256"]) if "sha256" in each else digest_token(str(each["token"]))
            _kind, name = _named(each, ("name",), {"sha256", "token"})
            own[digest] = name, _grant("token", name, each)
        for number, each in enumerate(document.get("users", [])):
            where = f"item {number + 1} of `users`"
            kind, name = _named(each, ("user", "group", "name"))
            owner = "token" if kind == "name" else kind
            found[kind, name] = (*found.get((kind, name), ()), _grant(owner, name, each))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        is_value = isinstance(error, ValueError)  # what others say may quote a token
        problem = str(error) if is_value else type(error).__name__
        raise _no_tokens(path, f"{where}: {problem}") from None
    callers = {
        digest: Caller(name, (grant, *found.get(("name", name), ())), _id_of(key, digest))
        for digest, (name, grant) in own.items()
    }
    users, groups = (
        {name: grants for (kind, name), grants in found.items() if kind == listed_kind}
        for listed_kind in ("user", "group")
    )
    return Tokens(callers, key, users, groups)


def _named(
    item: Mapping[str, object], kinds: tuple[str, ...], more: Collection[str] = ()
) -> tuple[str, str]:
    """Return whose a rule is. Raises ValueError: a key that is mistyped must not widen a rule."""
    named = [each for each in kinds if each in item]
    unknown = sorted(item.keys() - {*kinds, "role", "jobs", *more})
    if len(named) != 1 or unknown:
        wrong = f"`{unknown[0]}` is not one of its keys" if unknown else "it names one"
        raise ValueError(f"{wrong}: `role`, `jobs`, and one of {', '.join(kinds)}")
    return named[0], str(item[named[0]])


def _grant(owner: str, name: str, item: Mapping[str, str]) -> Grant:
    jobs = Selector.parse(item["jobs"]) if "jobs" in item else Selector()
    return Grant(f"{owner} {name}", UserRole(item["role"]), jobs)


def _id_of(key: bytes, digest: str) -> str:
    return hmac.new(key, b"token " + digest.encode(), hashlib.sha256).hexdigest()[:32]


def _no_tokens(path: Path, found: str) -> NotAllowed:
    return NotAllowed(
        f"{path} does not hold tokens and rules ({found})",
        hint="correct it, or remove it: the next start makes new tokens",
    )


def _write(path: Path, document: Mapping[str, Any]) -> None:
    write_text(path, json.dumps(document, indent=1) + "\n", 0o600)
