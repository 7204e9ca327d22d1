"""The broker is killed and comes back after a while, with all that it had."""

from dataclasses import dataclass
from typing import ClassVar

from ashore_lab.drills.faults.moments import Moment


@dataclass(frozen=True, slots=True)
class BrokerAway:
    """The broker is killed when the job is at this moment, and started again so much later."""

    kind: ClassVar[str] = "broker away"

    at: Moment
    away_s: float

    def __str__(self) -> str:
        return f"broker killed at {self.at.step}, away for {self.away_s:g} s"
