"""Time as an argument.

What it is: the seam through which every part of Ashore sees time; how far ahead a time may be;
`SteeredClock`, for drills and benchmarks, whose wall time follows a small file. Deadlines, pauses
and times of files stay real.
What it promises: nothing else in the package calls `time.time` or `time.sleep`.
"""

import json
import os
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol, Self

AHEAD_MS_MAX = 3_600_000  # maintained clocks differ by less, wrong zones by as much


def is_ahead(time_ms: int, storage_ms: int) -> bool:
    """Return whether a time is so far above another clock's that it cannot be right."""
    return time_ms - storage_ms > AHEAD_MS_MAX


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


CLOCK_VARIABLE = "ASHORE_CLOCK"  # the path of the file, in the environment of a job process


@dataclass(frozen=True, slots=True)
class Steering:
    """At the machine's `real_ms` the clock shows `shown_ms`; from there it runs at `speed`."""

    real_ms: int
    shown_ms: int
    speed: float = 1.0

    def at(self, real_ms: int) -> int:
        """Return what the clock shows at a time of the machine's clock."""
        return self.shown_ms + round((real_ms - self.real_ms) * self.speed)

    def write(self, path: Path) -> None:
        """Steer the clocks that follow `path`, from their next look on. Readers see it whole."""
        new = path.with_name(f".{path.name}.{os.getpid()}")
        new.write_text(json.dumps(asdict(self)), "utf-8")
        new.replace(path)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Return what `write` wrote. Raises ValueError."""
        try:
            found = json.loads(path.read_text("utf-8"))
            return cls(int(found["real_ms"]), int(found["shown_ms"]), float(found["speed"]))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path} steers no clock: {error!r}") from error


class SteeredClock(SystemClock):
    """A Clock that follows a file. Raises ValueError where the file steers nothing."""

    def __init__(self, path: Path) -> None:
        self._path = path
        Steering.read(path)

    def now_ms(self) -> int:
        """See Clock."""
        return Steering.read(self._path).at(super().now_ms())
