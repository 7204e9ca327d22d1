"""What a drill is and what it ends with.

What it is: values: a `Drill` and its `Length`, the faults that are planned, the timeline of what
happened, figures and verdict.
What it promises: frozen; `to_dict` gives what `--json` prints and what is written beside the page.
What it must not know: how a drill is played or shown.
"""

import random
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from ashore.base.units import format_duration

if TYPE_CHECKING:
    from ashore.drills.stage import Stage

FORMAT_VERSION = 1
SHORT_LIMIT_S = 300.0  # ten times what a short form is made for
LIMIT_FACTOR = 4.0  # of what a long one is made for


@dataclass(frozen=True, slots=True)
class Length:
    """How much of a drill is played. What stands here and the seed decide every fault."""

    rounds: int
    records: int  # produced in each round
    text: str  # for people; of a short form also what it scales down
    is_real: bool = False  # real servers and processes; else memory and a simulated clock
    has_spark: bool = True  # a real job's tasks run on Spark; else in processes of this machine
    rounds_per_minute: float = 1.0
    outage_s: float = 3.0  # how long a server stays away, where a drill leaves that open
    option: str = ""  # how the command line asks for it
    limit_s: float = SHORT_LIMIT_S  # of a real clock; what takes longer hangs, and is red

    def for_minutes(self, minutes: float) -> "Length":
        """Return this length with as many rounds as fit into so many minutes, at least one."""
        rounds = max(1, round(minutes * self.rounds_per_minute))
        text = f"{rounds} rounds of {self.records:,} records"
        option, limit_s = f"--minutes {minutes:g}", _limit_s(minutes)
        return replace(self, rounds=rounds, text=text, option=option, limit_s=limit_s)

    def at_length(self) -> "Length":
        """Return this length as `--long` plays it: with the time that it takes."""
        return replace(
            self, option="--long", limit_s=_limit_s(self.rounds / self.rounds_per_minute)
        )


def _limit_s(minutes: float) -> float:
    return SHORT_LIMIT_S + LIMIT_FACTOR * 60 * minutes


class Server(StrEnum):
    """What a real drill may need beside a broker."""

    HDFS = "an HDFS with two NameNodes"
    HDFS_ALONE = "an HDFS with one NameNode"
    METASTORE = "a metastore"
    CLUSTER = "a Spark cluster with two workers"
    SMALL_CLUSTERS = "two Spark clusters with one worker each"


class PlannedFault(NamedTuple):
    """One fault of a schedule."""

    round: int  # from 0
    kind: str  # what strikes
    place: str  # where: a step of a batch, a life of the job, a server
    number: int = 1  # at the n-th of them


Schedule = tuple[PlannedFault, ...]


class Flight(NamedTuple):
    """What was in flight when a fault struck."""

    text: str
    is_proof: bool  # there was something that the fault could have lost or doubled


class Mark(NamedTuple):
    """Something that happened."""

    at_s: float
    kind: str
    text: str


class Sample(NamedTuple):
    """Records at one moment."""

    at_s: float
    landed: int
    lag: int


@dataclass(frozen=True, slots=True)
class Timeline:
    """What happened when, in seconds since the drill began."""

    marks: tuple[Mark, ...]
    samples: tuple[Sample, ...]
    is_simulated: bool  # the clock is one that a drill moves

    @property
    def end_s(self) -> float:
        """The last moment that is known."""
        known = [*(mark.at_s for mark in self.marks), *(each.at_s for each in self.samples)]
        return max(known, default=0.0)


@dataclass(frozen=True, slots=True)
class Figures:
    """A drill in numbers."""

    records: int  # produced
    faults: int  # that struck
    restarts: int  # of the job's process
    lost: int
    duplicated: int
    altered: int  # there, and not as they were produced
    stalled_s: float  # longest time without progress while there was something to land
    read_twice: int | None = None  # records read again after a fault, at most; None: not counted

    def to_texts(self) -> dict[str, str]:
        """Return what every view shows, by name."""
        return {
            "records": f"{self.records:,}",
            "faults": f"{self.faults:,}",
            "restarts": f"{self.restarts:,}",
            "lost": f"{self.lost:,}",
            "duplicated": f"{self.duplicated:,}",
            "altered": f"{self.altered:,}",
            "without progress": format_duration(1000 * self.stalled_s),
        }


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a drill ends with.

    `problems` make it red. `doubts` are what could not be proved: the drill is not green either.
    """

    drill: str
    title: str
    seed: int
    length: Length
    began_ms: int
    took_s: float
    figures: Figures
    problems: tuple[str, ...]
    doubts: tuple[str, ...]
    notes: tuple[str, ...]
    schedule: Schedule
    timeline: Timeline

    @property
    def is_green(self) -> bool:
        """Whether nothing was lost, doubled or altered, and every checker could say so."""
        return self.exit_code == 0

    @property
    def exit_code(self) -> int:
        """0: green; 5: something is wrong; 6: nothing wrong, not everything was proved."""
        found = self.figures
        if self.problems or found.lost or found.duplicated or found.altered:
            return 5
        return 6 if self.doubts else 0

    @property
    def colour(self) -> str:
        """The verdict in a word."""
        return {0: "green", 5: "red"}.get(self.exit_code, "not proved")

    @property
    def summary(self) -> str:
        """The last line for people."""
        found = self.figures
        return f"{self.colour}: lost {found.lost:,}, duplicated {found.duplicated:,}"

    def to_dict(self) -> dict[str, object]:
        """Return the verdict as `--json` prints it."""
        document = asdict(self)
        document["schedule"] = [each._asdict() for each in self.schedule]
        document["timeline"]["marks"] = [each._asdict() for each in self.timeline.marks]
        document["timeline"]["samples"] = [list(each) for each in self.timeline.samples]
        return {
            "format_version": FORMAT_VERSION,
            "verdict": self.colour,
            "exit_code": self.exit_code,
            **document,
        }


@dataclass(frozen=True, slots=True)
class Drill:
    """One drill: how its faults are planned, and how the incident goes."""

    name: str
    title: str
    shows: str  # what is known when it is green
    short: Length
    long: Length
    plan: Callable[[random.Random, Length], Schedule]  # pure
    play: Callable[["Stage"], None]
    needs: frozenset[Server] = frozenset()  # that a length that is real finds up

    def schedule(self, seed: int, length: Length) -> Schedule:
        """Return the faults of a seed and a length. Pure."""
        return self.plan(random.Random(f"{self.name} {seed}"), length)  # noqa: S311 - to replay
