"""What happens in a drill, taken down as it happens.

What it is: `Recorder`: marks and samples with their time, counts of faults and starts.
What it promises: any thread may call it; time is the drill's clock.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass

from ashore.base.clock import Clock
from ashore_lab.drills.verdict import Flight, Mark, Sample, Timeline
from ashore_lab.testing import ProcessStopped

NAMED_MAX = 12  # strikes of one kind that are listed one by one
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
    """Takes down one drill. `watch` is called after each change; it must not raise."""

    def __init__(self, clock: Clock, watch: Callable[[Snapshot], None]) -> None:
        self._clock = clock
        self._watch = watch
        self._lock = threading.Lock()
        self._began_s = clock.monotonic_s()
        self._marks: list[Mark] = []
        self._samples: list[Sample] = []
        self._before = (0, 0)  # produced and landed on lakes that are settled
        self._now = (0, 0)
        self._strikes: dict[str, list[tuple[str, Flight]]] = {}
        self._is_over = threading.Event()
        self.faults = 0
        self.restarts = 0

    def at_s(self) -> float:
        """Return the seconds since the drill began."""
        return self._clock.monotonic_s() - self._began_s

    def fault(self, kind: str, text: str, flight: Flight) -> None:
        """Take down that a fault has struck, and what was in flight then."""
        reported = f"{text}; in flight: {flight.text}"
        with self._lock:
            self.faults += 1
            self._marks.append(Mark(self.at_s(), f"{FAULT}: {kind}", reported))
            self._strikes.setdefault(kind, []).append((text, flight))
        self._report()

    def flights(self) -> list[str]:
        """Return what was in flight at each fault, for people; of very many only how often."""
        reported = []
        for kind, strikes in self._strikes.items():
            if len(strikes) <= NAMED_MAX:
                reported += [
                    f"{kind}: {text}; in flight: {flight.text}" for text, flight in strikes
                ]
                continue
            proofs = [flight.text for _text, flight in strikes if flight.is_proof]
            example = f", such as: {proofs[0]}" if proofs else ""
            reported.append(
                f"{kind}: something was in flight {len(proofs)} of {len(strikes)} times{example}"
            )
        return reported

    def empty_strikes(self) -> list[str]:
        """Return the kinds of faults that have struck, and each time when nothing was in flight."""
        return [
            f"{kind}: nothing was in flight whenever it struck: {len(strikes)} times"
            for kind, strikes in self._strikes.items()
            if not any(flight.is_proof for _text, flight in strikes)
        ]

    def end(self) -> None:
        """Take down that the drill is over: a thread that still plays it has to end."""
        self._is_over.set()

    def require_going(self) -> None:
        """Raise ProcessStopped where the drill is over, as if every process had been killed."""
        if self._is_over.is_set():
            raise ProcessStopped("the drill is over")

    def note(self, kind: str, text: str) -> None:
        """Take down something that is no fault."""
        with self._lock:
            self._marks.append(Mark(self.at_s(), kind, text))
        self._report()

    def start(self, life: int) -> None:
        """Take down that a process of the job starts: the n-th on its lake, from 0.

        Raises ProcessStopped where the drill is over.
        """
        self.require_going()
        with self._lock:
            self.restarts += int(life > 0)
            self._marks.append(Mark(self.at_s(), "start", f"process {life + 1} of the job starts"))
        self._report()

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
        self._report()

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

    def _report(self) -> None:
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
