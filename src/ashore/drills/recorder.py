"""What happens in a drill, taken down as it happens.

What it is: `Recorder`: marks and samples with their time, counts of faults and starts.
What it promises: any thread may tell it something; time is the drill's clock.
What it must not know: what the verdict will be.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass

from ashore.base.clock import Clock
from ashore.drills.drill import Mark, Sample, Timeline

FAULT = "fault"  # the kind of a mark that is shown as a fault has this in front
SAMPLES_MAX = 4_000


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a live view shows."""

    at_s: float
    produced: int
    landed: int
    lag: int
    faults: int
    restarts: int
    last: Mark | None


class Recorder:
    """Takes down one drill. `watch` is told after each change; it must not raise."""

    def __init__(self, clock: Clock, watch: Callable[[Snapshot], None]) -> None:
        self._clock = clock
        self._watch = watch
        self._lock = threading.Lock()
        self._began_s = clock.monotonic_s()
        self._marks: list[Mark] = []
        self._samples: list[Sample] = []
        self._before = (0, 0)  # produced and landed on lakes that are settled
        self._now = (0, 0)
        self.faults = 0
        self.restarts = 0

    def at_s(self) -> float:
        """Return the seconds since the drill began."""
        return self._clock.monotonic_s() - self._began_s

    def fault(self, kind: str, text: str) -> None:
        """Take down that a fault has struck."""
        with self._lock:
            self.faults += 1
            self._marks.append(Mark(self.at_s(), f"{FAULT}: {kind}", text))
        self._tell()

    def note(self, kind: str, text: str) -> None:
        """Take down something that is no fault."""
        with self._lock:
            self._marks.append(Mark(self.at_s(), kind, text))
        self._tell()

    def start(self, life: int) -> None:
        """Take down that a process of the job starts: the n-th on its lake, from 0."""
        with self._lock:
            self.restarts += int(life > 0)
            self._marks.append(Mark(self.at_s(), "start", f"process {life + 1} of the job starts"))
        self._tell()

    def sample(self, produced: int, landed: int) -> None:
        """Take down what was produced to the present lake, and what has landed there."""
        with self._lock:
            self._now = (produced, landed)
            whole = Sample(self.at_s(), self._before[1] + landed, produced - landed)
            last = self._samples[-1] if self._samples else None
            if last is not None and last[1:] == whole[1:] and len(self._samples) > 1:
                before = self._samples[-2]
                if before[1:] == whole[1:]:  # of a level stretch only its ends are kept
                    self._samples.pop()
            self._samples.append(whole)
        self._tell()

    def settled(self) -> None:
        """Take down that the present lake is done with: what comes next is on another."""
        with self._lock:
            self._before = (self._before[0] + self._now[0], self._before[1] + self._now[1])
            self._now = (0, 0)

    def timeline(self, *, is_simulated: bool) -> Timeline:
        """Return what was taken down. Of very many samples every n-th is kept, and the last."""
        with self._lock:
            step = max(1, len(self._samples) // SAMPLES_MAX)
            kept = self._samples[::-step][::-1]
            return Timeline(tuple(self._marks), tuple(kept), is_simulated)

    def _tell(self) -> None:
        with self._lock:
            snapshot = Snapshot(
                at_s=self.at_s(),
                produced=self._before[0] + self._now[0],
                landed=self._before[1] + self._now[1],
                lag=self._now[0] - self._now[1],
                faults=self.faults,
                restarts=self.restarts,
                last=self._marks[-1] if self._marks else None,
            )
        self._watch(snapshot)
