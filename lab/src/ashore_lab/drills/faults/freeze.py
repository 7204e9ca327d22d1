"""A process of the job stands still, while the world continues; then it is woken.

It never learns that time has passed. What it was about to do, it does.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from ashore_lab.drills.faults.moments import Moment


@dataclass(frozen=True, slots=True)
class Freeze:
    """The process is frozen at this moment, and woken when `meanwhile` has returned."""

    kind: ClassVar[str] = "freeze"

    at: Moment
    meanwhile: Callable[[], None]

    def __str__(self) -> str:
        return f"frozen at {self.at.step}"
