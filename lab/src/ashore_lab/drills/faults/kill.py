"""A process of the job is killed with SIGKILL, in the midst of a step."""

from dataclasses import dataclass
from typing import ClassVar

from ashore_lab.drills.faults.moments import Moment


@dataclass(frozen=True, slots=True)
class Kill:
    """The process ends at this moment, and says nothing more to anybody."""

    kind: ClassVar[str] = "kill"

    at: Moment

    def __str__(self) -> str:
        return f"SIGKILL at {self.at.step}"
