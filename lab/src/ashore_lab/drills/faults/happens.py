"""Something is done to a server, whatever it is, when the job is at a moment.

A NameNode is switched, a worker killed, a metastore frozen: the scenario says what and how. Where
the moment is only when to begin to look for the right one, the scenario says what was in flight.
"""

from collections.abc import Callable
from dataclasses import dataclass

from ashore_lab.drills.faults.moments import Moment
from ashore_lab.drills.verdict import Flight


@dataclass(frozen=True, slots=True)
class Happens:
    """`act` is called at this moment, while the job continues.

    Where it returns a `Flight`, that is what was in flight when it struck.
    """

    at: Moment
    kind: str
    act: Callable[[], object]

    def __str__(self) -> str:
        return f"{self.kind} at {self.at.step}"


def flight_of(happened: object, flight: Flight) -> Flight:
    """Return what was in flight by what `act` has returned, else by what was seen before."""
    return happened if isinstance(happened, Flight) else flight
