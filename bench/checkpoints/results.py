"""What was measured, as data: the file in `bench/results/`.

What it is: frozen records with their JSON form, and the one file that parts are added to.
What it promises: a part that is measured again takes the place of the one before; each record tells
when it was measured, and from what. Figures of another machine are refused.
What it must not know: how it was measured, how it is shown.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self, TypeVar

from bench.checkpoints.modes import Case
from bench.checkpoints.samples import Spread
from bench.machine import Machine

FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True)
class When:
    """When, from what, and beside what a part was measured."""

    began: str
    commit: str
    load_before: float  # others were at work if it is not low


@dataclass(frozen=True, slots=True)
class Steady:
    """A case at its steady rate, and what it took to come back."""

    case: Case
    when: When
    batches: int
    cpu_s: Spread  # a second
    disk_bytes: Spread
    datanode_bytes: Spread
    trigger_ms: Spread
    commit_ms: Spread  # Spark's, all partitions added up
    files_per_min: float
    deleted_per_min: float
    bytes_per_min: float  # into the DataNode
    stored_files: int  # in the checkpoint, at the end
    stored_bytes: int
    caught_up_s: tuple[float, ...]  # after each SIGKILL, the start of Spark included
    first_batch_ms: tuple[float, ...]  # after each: with the loading of all states
    replay_files: int  # changelogs that a start had to read at the first SIGKILL
    replay_bytes: int


@dataclass(frozen=True, slots=True)
class Shortest:
    """The shortest interval that a mode holds."""

    case: Case  # with that interval; or the longest, where it holds none
    when: When
    holds: Mapping[str, bool]  # of each interval that was tried, in seconds


@dataclass(frozen=True, slots=True)
class Cut:
    """What a number of partitions costs."""

    case: Case
    when: When
    batches: int
    trigger_ms: Spread
    commit_ms: Spread
    rss_peak_bytes: int


@dataclass(frozen=True, slots=True)
class Fresh:
    """From produced to readable, in a table that a query with state fills."""

    case: Case
    when: When
    records: int
    p50_s: float
    p99_s: float


Record = Steady | Shortest | Cut | Fresh
Kind = TypeVar("Kind", Steady, Cut, Fresh)
SPREADS = {"cpu_s", "disk_bytes", "datanode_bytes", "trigger_ms", "commit_ms"}


@dataclass(frozen=True, slots=True)
class Results:
    """All that was measured on one machine."""

    machine: Machine
    steady: tuple[Steady, ...] = ()
    shortest: tuple[Shortest, ...] = ()
    cuts: tuple[Cut, ...] = ()
    fresh: tuple[Fresh, ...] = ()

    def adding(self, record: Record) -> Self:
        """Return the results with a record, in the place of the one of the same case."""
        match record:
            case Steady():
                return replace(self, steady=_put(self.steady, record))
            case Shortest():
                others = [each for each in self.shortest if each.case.mode != record.case.mode]
                return replace(self, shortest=(*others, record))
            case Cut():
                return replace(self, cuts=_put(self.cuts, record))
            case Fresh():
                return replace(self, fresh=_put(self.fresh, record))

    def save(self, path: Path) -> None:
        """Write the file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        content = {"format_version": FORMAT_VERSION, **asdict(self)}
        path.write_text(json.dumps(content, indent=1) + "\n", "utf-8")

    @classmethod
    def load(cls, path: Path, machine: Machine) -> Self:
        """Read the file; nothing is measured where there is none.

        Raises ValueError if it is of another version, or of another machine.
        """
        if not path.exists():
            return cls(machine)
        found = cls.read(path)
        if (found.machine.cpu, found.machine.cores) != (machine.cpu, machine.cores):
            raise ValueError(f"{path.name} is of another machine: move it away")
        return replace(found, machine=machine)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read the file. Raises ValueError if it is of another version."""
        content = json.loads(path.read_text("utf-8"))
        if content.pop("format_version") != FORMAT_VERSION:
            raise ValueError(f"{path.name} is of another version: measure again")
        return cls(
            Machine(**content["machine"]),
            steady=tuple(Steady(**_read(each)) for each in content["steady"]),
            shortest=tuple(Shortest(**_read(each)) for each in content["shortest"]),
            cuts=tuple(Cut(**_read(each)) for each in content["cuts"]),
            fresh=tuple(Fresh(**_read(each)) for each in content["fresh"]),
        )


def _put(records: tuple[Kind, ...], record: Kind) -> tuple[Kind, ...]:
    others: tuple[Kind, ...] = tuple(each for each in records if each.case != record.case)
    return (*others, record)


def _read(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a record as they were before they were JSON."""
    kinds = {"case": Case, "when": When, **dict.fromkeys(SPREADS, Spread)}
    return {
        name: kinds[name](**value) if name in kinds else _plain(value)
        for name, value in fields.items()
    }


def _plain(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value
