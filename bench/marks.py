"""When calls began and ended: proxies around the seams of a job, for the waterfalls.

What it is: `Marks`, spans with a name; `watched`, an object whose calls are marked.
What it promises: spans of all processes of a machine have one clock, the monotonic one.
What it must not know: what is marked.
"""

import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")


class Span(NamedTuple):
    """Something that took from one moment to another, in seconds of the monotonic clock."""

    name: str
    begin_s: float
    end_s: float

    @property
    def seconds(self) -> float:
        """How long it took."""
        return self.end_s - self.begin_s


class Marks:
    """Spans, in the order in which they ended. Any thread may add."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._spans: list[Span] = []

    def call(self, name: str, function: Callable[[], T]) -> T:
        """Call a function and mark how long it takes."""
        began_s = time.perf_counter()
        try:
            return function()
        finally:
            self.add(name, began_s, time.perf_counter())

    def add(self, name: str, begin_s: float, end_s: float) -> None:
        """Mark a span."""
        with self._lock:
            self._spans.append(Span(name, begin_s, end_s))

    def take(self) -> list[Span]:
        """Return the spans since the last call."""
        with self._lock:
            taken, self._spans = self._spans, []
        return taken


def watched(inner: T, marks: Marks, prefix: str) -> T:
    """Return an object that does what `inner` does and marks each call of a method."""
    proxy: Any = _Watched(inner, marks, prefix)
    found: T = proxy
    return found


class _Watched:
    def __init__(self, inner: object, marks: Marks, prefix: str) -> None:
        self._inner = inner
        self._marks = marks
        self._prefix = prefix

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not callable(found):
            return found
        marks, span = self._marks, f"{self._prefix} {name}"

        def call(*arguments: Any, **named: Any) -> Any:
            answer = marks.call(span, lambda: found(*arguments, **named))
            # A file being written: its calls are marked as well.
            return watched(answer, marks, self._prefix) if name == "open_write" else answer

        return call
