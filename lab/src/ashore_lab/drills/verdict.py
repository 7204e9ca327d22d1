"""What happened in a drill, and what it ends with.

What it is: values: what was in flight, the timeline, figures and verdict.
What it promises: frozen; `to_dict` gives what `--json` prints and what is written beside the page.
"""

from dataclasses import asdict, dataclass
from typing import NamedTuple

from ashore.base.units import format_duration
from ashore.errors import ExitCode
from ashore_lab.drills.plan import Length, Schedule

FORMAT_VERSION = 1


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
    def exit_code(self) -> int:
        """0: green; 5: something is wrong; 6: nothing wrong, not everything was proved."""
        found = self.figures
        if self.problems or found.lost or found.duplicated or found.altered:
            return ExitCode.WRONG
        return ExitCode.UNPROVEN if self.doubts else ExitCode.DONE

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
