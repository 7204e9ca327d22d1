"""Whether there is a job, as far as its log shows it, which is not all.

What it is: `ActivityWatch`, which gets each look at the log.
What it promises: pure. A job is silent when there is something for it to do, and its log has not
grown for longer than a batch should take. Where nothing is to be done, a job that runs and one that
was stopped look the same, and neither is silent.
"""

from typing import NamedTuple

from ashore.proof.audit.result import Activity


class LogProgress(NamedTuple):
    """How far the logs of all slices are."""

    entries: int
    last_ms: int | None  # when the newest entry was written, by its writer's clock
    has_unclosed: bool


class ActivityWatch:
    """Knows since when a job should have written, and has not."""

    def __init__(self, patience_ms: int) -> None:
        self._patience_ms = patience_ms
        self._entries: int | None = None
        self._due_since_ms: int | None = None

    def look(self, seen: LogProgress, lag: int | None, now_ms: int) -> Activity:
        """Take in one look. `lag`: offsets that wait; None: not known."""
        is_first, has_grown = self._entries is None, seen.entries != self._entries
        self._entries = seen.entries
        if not lag and not seen.has_unclosed:
            self._due_since_ms = None
        elif is_first and seen.has_unclosed:
            self._due_since_ms = seen.last_ms  # a job at work would have closed it
        elif has_grown or self._due_since_ms is None:
            self._due_since_ms = now_ms
        since_ms = self._due_since_ms
        is_silent = since_ms is not None and now_ms - since_ms >= self._patience_ms
        return Activity(seen.last_ms, since_ms if is_silent else None)

    def look_away(self, last_ms: int | None) -> Activity:
        """Take in that the log cannot be read: a job cannot write there either."""
        self._due_since_ms = None
        return Activity(last_ms, None)
