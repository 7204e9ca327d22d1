"""Something is done to a server, whatever it is, when the job is at a moment.

A NameNode is switched, a worker killed, a metastore frozen: the scenario says what and how.
"""

from collections.abc import Callable
from dataclasses import dataclass

from ashore.drills.faults.moments import Moment


@dataclass(frozen=True, slots=True)
class Happens:
    """`act` is called at this moment, while the job goes on."""

    at: Moment
    kind: str
    act: Callable[[], object]

    def __str__(self) -> str:
        return f"{self.kind} at {self.at.step}"
