"""Time that a test moves.

What it is: a Clock whose time passes only when a test, or a sleep, says so.
What it promises: sleeping returns at once and advances; many threads may share one.
"""

import random
import threading

from ashore.errors import check

_START_MS = 1_795_000_000_000  # 2026-11-18


class FakeClock:
    """A Clock. Its monotonic time starts at a random number, as the machine's does."""

    def __init__(self, start_ms: int = _START_MS, monotonic_start_s: float | None = None) -> None:
        if monotonic_start_s is None:
            monotonic_start_s = random.SystemRandom().uniform(0, 1_000_000)
        self._lock = threading.Lock()
        self._start_ms = start_ms
        self._monotonic_start_s = monotonic_start_s
        self._passed_s = 0.0

    def now_ms(self) -> int:
        """See Clock."""
        with self._lock:
            return self._start_ms + round(self._passed_s * 1000)

    def monotonic_s(self) -> float:
        """See Clock."""
        with self._lock:
            return self._monotonic_start_s + self._passed_s

    def sleep(self, seconds: float) -> None:
        """See Clock. Returns at once."""
        self.advance(seconds)

    def wait(self, event: threading.Event, seconds: float) -> None:
        """See Clock. Returns at once; where the event is set, no time has passed."""
        if not event.is_set():
            self.advance(seconds)

    def server(self) -> "ServerClock":
        """Return the clock of a server: the same time passes there, and its wall never jumps."""
        return ServerClock(self)

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        check(seconds >= 0, "time passes forwards; jump_wall moves the wall clock back")
        with self._lock:
            self._passed_s += seconds

    def jump_wall(self, seconds: float) -> None:
        """Set the wall clock forward or back, as an operator or NTP may."""
        with self._lock:
            self._start_ms += round(seconds * 1000)


class ServerClock:
    """A Clock beside a FakeClock: the same time passes, and its wall clock is not set."""

    def __init__(self, of: FakeClock) -> None:
        self._of = of
        self._ahead_ms = of.now_ms() - 1000 * of.monotonic_s()

    def now_ms(self) -> int:
        """See Clock."""
        return round(self._ahead_ms + 1000 * self._of.monotonic_s())

    def monotonic_s(self) -> float:
        """See Clock."""
        return self._of.monotonic_s()

    def sleep(self, seconds: float) -> None:
        """See Clock. Returns at once."""
        self._of.sleep(seconds)

    def wait(self, event: threading.Event, seconds: float) -> None:
        """See Clock. Returns at once."""
        self._of.wait(event, seconds)
