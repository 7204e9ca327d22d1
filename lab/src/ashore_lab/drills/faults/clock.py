"""The wall clock of the driver jumps, as an operator or NTP may set it. Real time passes on."""

from dataclasses import dataclass
from typing import ClassVar

from ashore_lab.drills.faults.moments import Moment


@dataclass(frozen=True, slots=True)
class ClockJump:
    """The clock shows some seconds more from this moment on, or less."""

    kind: ClassVar[str] = "clock jump"

    at: Moment
    seconds: float

    def __str__(self) -> str:
        return f"clock jumps by {self.seconds:+,.0f} s at {self.at.step}"
