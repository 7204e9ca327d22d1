"""What a comparison found, as data: the file in `bench/results/`.

What it is: frozen records with their JSON form.
What it promises: what is written can be read; a file of another version is refused.
What it must not know: how it was measured, how it is shown.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Self

from bench.machine import Machine

FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True)
class Run:
    """One measurement of one peer on one shape."""

    shape: str
    peer: str
    repeat: int
    records: int
    value_bytes: int  # what Kafka's records hold
    seconds: float
    cpu_s: float
    rss_peak_bytes: int
    files: int
    stored_bytes: int
    cores: int = 2  # that the peer may use
    metadata_bytes: int = 0  # of a lakehouse table


@dataclass(frozen=True, slots=True)
class Fresh:
    """Seconds from produced to readable, of one peer."""

    peer: str
    records: int
    p50_s: float
    p99_s: float
    last_s: float
    interval_s: float = 1.0  # between two batches or checkpoints, as the peer was told
    between_s: float = 0.0  # between two moments at which something became readable; median


@dataclass(frozen=True, slots=True)
class Calls:
    """Storage calls of one peer in a run under strace, by kind."""

    peer: str
    records: int
    files: int
    by_kind: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Results:
    """A whole comparison."""

    commit: str
    command: str
    began: str
    machine: Machine
    load_before: float  # the machine's load when it began: others were at work if it is not low
    runs: tuple[Run, ...]
    fresh: tuple[Fresh, ...]
    calls: tuple[Calls, ...]
    kept: str = ""  # which runs are of an earlier comparison, and of which one

    def save(self, path: Path) -> None:
        """Write the file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        content = {"format_version": FORMAT_VERSION, **asdict(self)}
        path.write_text(json.dumps(content, indent=1) + "\n", "utf-8")

    def with_others(self, others: "Results") -> "Results":
        """Return these results with those of shapes that were not measured this time."""
        measured = {(run.shape, run.cores) for run in self.runs}
        kept = tuple(run for run in others.runs if (run.shape, run.cores) not in measured)
        shapes = ", ".join(dict.fromkeys(run.shape for run in kept))
        said = f"{shapes}: {others.began}, commit {others.commit}" if kept else ""
        return replace(self, runs=(*self.runs, *kept), kept=said)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read the file. Raises ValueError if it is of another version."""
        content = json.loads(path.read_text("utf-8"))
        if content.pop("format_version") != FORMAT_VERSION:
            raise ValueError(f"{path.name} is of another version: measure again")
        return cls(
            **{
                **content,
                "machine": Machine(**content["machine"]),
                "runs": tuple(Run(**each) for each in content["runs"]),
                "fresh": tuple(Fresh(**each) for each in content["fresh"]),
                "calls": tuple(Calls(**each) for each in content["calls"]),
            }
        )
