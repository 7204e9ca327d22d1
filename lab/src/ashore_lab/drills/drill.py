"""What a drill is: a value that says how its faults are planned, and how the incident goes."""

import random
from collections.abc import Callable
from dataclasses import dataclass

from ashore_lab.drills.plan import Length, Schedule, Server
from ashore_lab.drills.stage import Stage


@dataclass(frozen=True, slots=True)
class Drill:
    """One drill: how its faults are planned, and how the incident goes."""

    name: str
    title: str
    shows: str  # what is known when it is green
    short: Length
    long: Length
    plan: Callable[[random.Random, Length], Schedule]  # pure
    play: Callable[[Stage], None]
    needs: frozenset[Server] = frozenset()  # that a length that is real finds up

    def schedule(self, seed: int, length: Length) -> Schedule:
        """Return the faults of a seed and a length. Pure."""
        return self.plan(random.Random(f"{self.name} {seed}"), length)  # noqa: S311 - to replay
