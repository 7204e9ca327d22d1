"""How many calls a process has made to its lakes, by kind and by how they ended.

What it promises: every call with a deadline is counted once, tries included; a forked child counts
anew.
"""

import os
import threading
from collections import Counter
from collections.abc import Mapping

from ashore.errors import AnswerUnknown, NotApplied, PathExists, PathMissing

_RESULTS: dict[type[BaseException], str] = {
    PathMissing: "missing",
    PathExists: "exists",
    AnswerUnknown: "unknown",
    NotApplied: "not_applied",
}
RESULTS = ("ok", *_RESULTS.values(), "failed")


class _Counts:
    """Counts of this process."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[tuple[str, str]] = Counter()

    def add(self, call: str, result: str) -> None:
        with self._lock:
            self._counts[call, result] += 1

    def read(self) -> dict[tuple[str, str], int]:
        with self._lock:
            return dict(self._counts)


_counts = _Counts()  # of all storages of the process: each task opens its own
os.register_at_fork(after_in_child=_counts.forget)


def count_call(call: str, error: BaseException | None) -> None:
    """Count a call that ended: with an answer, or with an error."""
    result = "ok" if error is None else _RESULTS.get(type(error), "failed")
    _counts.add(call, result)


def count_calls() -> Mapping[tuple[str, str], int]:
    """Return how many calls this process has made so far, by kind and result."""
    return _counts.read()
