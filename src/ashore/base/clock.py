"""Time as an argument.

What it is: the seam through which every part of Ashore sees time.
What it promises: nothing else in the package calls `time.time` or `time.sleep`.
"""

import threading
import time
from typing import Protocol


class Clock(Protocol):
    """Wall time for records and logs, monotonic time for rhythm and deadlines."""

    def now_ms(self) -> int:
        """Return milliseconds since 1970-01-01 UTC. May jump, also backwards."""
        ...

    def monotonic_s(self) -> float:
        """Return seconds from an arbitrary start. Never goes back."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait. A clock of a test may return at once."""
        ...

    def wait(self, event: threading.Event, seconds: float) -> None:
        """Wait, but not longer than until `event` is set. As `sleep`."""
        ...


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        """Return the wall time in milliseconds."""
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        """Return the monotonic time in seconds."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Sleep for `seconds`."""
        time.sleep(seconds)

    def wait(self, event: threading.Event, seconds: float) -> None:
        """See Clock."""
        event.wait(seconds)
