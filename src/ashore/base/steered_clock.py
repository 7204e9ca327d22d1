"""A clock that is set from outside: for drills and benchmarks, never for a user's job.

What it is: a Clock whose wall time follows a small file, read again at each call: it may jump, or
run faster than the machine's.
What it promises: only the wall time is steered. Deadlines, pauses and rhythm stay real, and so do
the times of files. A process has such a clock only if it was started with ASHORE_CLOCK.
"""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from ashore.base.clock import SystemClock

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
