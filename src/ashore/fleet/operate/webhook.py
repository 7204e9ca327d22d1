"""Delivery of events to others: signed, repeated until taken, kept on disk until then.

What it promises: an event that is worth it is a file before it is sent, and the file is removed
once the address answers 2xx: so it arrives at least once, in order, whatever dies between. Each
request is signed (`Ashore-Signature: t=...,v1=HMAC-SHA256(secret, "t.body")`) and has the id of
its event, which a receiver can leave doubles out by: what is sent again has the same id. A redirect
is not followed: it is no 2xx.
"""

import hashlib
import hmac
import json
import threading
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from urllib.request import HTTPRedirectHandler, Request, build_opener

from ashore.base.clock import Clock, SystemClock
from ashore.fleet.machine.background import Background
from ashore.fleet.records.store import write_text

ANSWER_S, FIRST_WAIT_S, LONGEST_WAIT_S, IDLE_S = 10.0, 1.0, 300.0, 60.0
PENDING_MAX = 10_000  # then the oldest are given up, which is said in the next one
UNWRITTEN_MAX = 1_000  # events that wait in memory while the disk is full
NEEDING = frozenset({"needs-decision", "invalid", "fenced", "missing"})
_LOST = frozenset({"files-lost", "log-lost"})
_SCHEMA = frozenset({"schema-conflict"})


@dataclass(frozen=True, slots=True, repr=False)
class WebhookAddress:
    """Where events go, and the secret that they are signed with."""

    url: str
    secret: bytes


def notice_of(event: Mapping[str, object]) -> str | None:
    """Return the kind of an event for receivers; None: it is not sent.

    One of `needs_decision`, `sealed`, `lost`, `schema_change`.
    """
    if event.get("event") == "phase" and event.get("phase") in NEEDING:
        return "needs_decision"
    if event.get("event") == "ended" and event.get("error") in _LOST:
        return "lost"
    if event.get("event") == "ended" and event.get("error") in _SCHEMA:
        return "schema_change"
    return {"sealed": "sealed", "schema": "schema_change"}.get(str(event.get("event")))


def sign(secret: bytes, at_s: int, body: bytes) -> str:
    """Return the signature of a request, as its header has it."""
    digest = hmac.new(secret, f"{at_s}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={at_s},v1={digest}"


def identity_of(event: Mapping[str, object]) -> str:
    """Return the id of an event: the same one where the same thing is sent again."""
    if isinstance(event.get("id"), str):
        return str(event["id"])
    # A server that starts reports anew where jobs are; when it was started makes no difference.
    left_out = {"at", "at_ms", "before", "ms"} if event.get("event") == "phase" else set()
    facts = sorted((key, value) for key, value in event.items() if key not in left_out)
    return hashlib.sha256(json.dumps(facts, default=str).encode()).hexdigest()[:32]


class _Stay(HTTPRedirectHandler):
    """Follows no redirect: what is posted would arrive as a GET without a body."""

    def redirect_request(self, *_: object) -> None:
        """Answer that there is nowhere to go."""


_OPENER = build_opener(_Stay)


class Webhook:
    """Delivers events to one address. `take` may be called by any thread.

    Arguments:
        directory: where events are kept until they are taken.
        address: where they go.
        clock: of this machine.
        first_wait_s: before something is sent again; it doubles up to five minutes.

    """

    def __init__(
        self,
        directory: Path,
        address: WebhookAddress,
        clock: Clock | None = None,
        first_wait_s: float = FIRST_WAIT_S,
    ) -> None:
        self._directory = directory
        self._address = address
        self._clock = clock or SystemClock()
        self._first_wait_s = first_wait_s
        self._given_up = 0
        self._lock = threading.Lock()
        self._unwritten: deque[tuple[str, str]] = deque(maxlen=UNWRITTEN_MAX)
        self._wait_s = first_wait_s
        self._not_before_s = float("-inf")  # of a monotonic clock
        self._thread = Background("webhook", self._deliver_due)
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)

    def start(self) -> None:
        """Begin to deliver: what an earlier server has not delivered comes first."""
        self._thread.start()

    def end(self) -> None:
        """Deliver no more; what is pending is kept."""
        self._thread.end(ANSWER_S + 1)

    def take(self, event: Mapping[str, object]) -> bool:
        """Keep an event for delivery, if it is one that is sent.

        Returns False where it cannot be written: it is sent all the same, if this process lives.
        """
        kind = notice_of(event)
        if kind is None:
            return True
        id_, at_ms = identity_of(event), event.get("at_ms")
        name = f"{at_ms if isinstance(at_ms, int) else self._clock.now_ms():013d}-{id_}.json"
        document = json.dumps({**event, "id": id_, "type": kind}, default=str)
        try:
            write_text(self._directory / name, document, 0o600)
        except OSError:
            with self._lock:
                self._unwritten.append((name, document))
            return False
        finally:
            self._thread.wake()
        return True

    def pending(self) -> int:
        """Return how many events were not taken yet."""
        return len(self._waiting()) + len(self._unwritten)

    def deliver(self) -> bool:
        """Send what is pending, in order; return whether all was taken."""
        if not self._write_again():
            return False
        waiting = self._waiting()
        for path in waiting[: max(0, len(waiting) - PENDING_MAX)]:
            path.unlink(missing_ok=True)
            self._given_up += 1
        for path in waiting[-PENDING_MAX:]:
            if self._thread.is_over or not self._send(path):
                return False
            path.unlink(missing_ok=True)
        return True

    def _deliver_due(self) -> float:
        """Send what is pending, unless the address failed a moment ago; return how long to wait."""
        left_s = self._not_before_s - time.monotonic()
        if left_s > 0:
            return left_s
        if self.deliver():
            self._wait_s = self._first_wait_s
            return IDLE_S
        wait_s, self._wait_s = self._wait_s, min(2 * self._wait_s, LONGEST_WAIT_S)
        self._not_before_s = time.monotonic() + wait_s
        return wait_s

    def _write_again(self) -> bool:
        """Write what could not be written, oldest first; return whether it is."""
        try:
            with self._lock:
                while self._unwritten:
                    name, document = self._unwritten[0]
                    write_text(self._directory / name, document, 0o600)
                    self._unwritten.popleft()
        except OSError:
            return False
        return True

    def _waiting(self) -> list[Path]:
        return sorted(
            path for path in self._directory.glob("*.json") if not path.name.startswith(".")
        )

    def _send(self, path: Path) -> bool:
        try:
            body = path.read_bytes()
            at_s = self._clock.now_ms() // 1000
            headers = {
                "content-type": "application/json",
                "user-agent": "ashore",
                "ashore-event": str(json.loads(body)["id"]),
                "ashore-given-up": str(self._given_up),
                "ashore-signature": sign(self._address.secret, at_s, body),
            }
            request = Request(  # noqa: S310 - the address is checked by the command
                self._address.url, body, headers, method="POST"
            )
            with _OPENER.open(request, timeout=ANSWER_S) as answer:
                return 200 <= int(answer.status) < 300
        except (OSError, HTTPException, ValueError, KeyError):
            return False
