"""What happened to jobs: kept in a file, counted, and delivered to webhooks.

What it promises: an event is in the file before it is delivered. The newest are also in memory.
Counts are those since the server was started.
"""

import contextlib
import threading
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ashore.base.units import format_time
from ashore.errors import KILLED
from ashore.fleet.records.server_files import EVENTS, ServerFiles

BYTES_MAX, KEPT = 20_000_000, 5
IN_MEMORY = 2_000
REASONS_MAX = 20  # for each job; others are `other`


@dataclass(frozen=True, slots=True)
class Happened:
    """Something that happened to a job, for the history, metrics and webhooks."""

    kind: str  # phase | started | ended | adopted | changed
    job: str
    at_ms: int
    fields: Mapping[str, object]


class Journal:
    """Keeps events. May be used by many threads.

    Arguments:
        files: of the server.
        deliver: each is called with the document of an event, after it was written.
        webhook: called so too; returns whether the event is delivered, whatever dies now.

    """

    def __init__(
        self,
        files: ServerFiles,
        deliver: Sequence[Callable[[Mapping[str, object]], None]] = (),
        webhook: Callable[[Mapping[str, object]], bool] | None = None,
    ) -> None:
        self._records = files.records
        self._deliver = deliver
        self._webhook = webhook
        self._lock = threading.Lock()
        self._newest: deque[dict[str, object]] = deque(
            self._records.lines(EVENTS, 1 << 20), IN_MEMORY
        )
        self._starts: Counter[tuple[str, str]] = Counter()
        self._phase_ms: Counter[tuple[str, str]] = Counter()

    def take(self, happened: Happened) -> bool:
        """Keep an event; return whether the webhook delivers it, whatever dies now."""
        document: dict[str, object] = {
            "at": format_time(happened.at_ms),
            "at_ms": happened.at_ms,
            "event": happened.kind,
            "job": happened.job,
            **happened.fields,
        }
        with self._lock:
            with contextlib.suppress(OSError):  # the jobs matter more than their history
                self._records.append(EVENTS, document, BYTES_MAX, KEPT)
            self._newest.append(document)
            self._count(happened)
        for deliver in self._deliver:
            deliver(document)
        return self._webhook is None or self._webhook(document)

    def newest(
        self, job: str | None, limit: int, is_shown: Callable[[str], bool] = lambda _job: True
    ) -> list[dict[str, object]]:
        """Return the newest events, of one job or of all, the newest first.

        `is_shown`: whether those of a job are, by its name.
        """
        with self._lock:
            found = [each for each in self._newest if job is None or each.get("job") == job]
        shown = {each: is_shown(each) for each in {str(one.get("job", "")) for one in found}}
        return [each for each in found if shown[str(each.get("job", ""))]][: -limit - 1 : -1]

    def tally(self) -> tuple[dict[tuple[str, str], int], dict[tuple[str, str], int]]:
        """Return counts since the server was started: starts by job and reason, ms by phase."""
        with self._lock:
            return dict(self._starts), dict(self._phase_ms)

    def _count(self, happened: Happened) -> None:
        if happened.kind == "started":
            code = happened.fields.get("after")
            reason = "first" if code is None else f"exit-{code}"
            reasons = sum(job == happened.job for job, _ in self._starts)
            key = happened.job, "killed" if code == KILLED else reason
            if key not in self._starts and reasons >= REASONS_MAX:
                key = happened.job, "other"
            self._starts[key] += 1
        elif happened.kind == "phase" and happened.fields.get("before"):
            took_ms = happened.fields.get("ms")
            key = happened.job, str(happened.fields["before"])
            self._phase_ms[key] += took_ms if isinstance(took_ms, int) else 0
