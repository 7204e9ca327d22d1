"""A job as a server last saw it: what its supervisor, its process and its landing log say.

What it is: `SeenJob`, a value, and its parts.
What it promises: frozen, and from one moment: who decides about a job decides from this alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ashore.errors import AshoreError
from ashore.fleet.records.values import SliceSeen
from ashore.proof.status.health import FleetRow


@dataclass(frozen=True, slots=True)
class Supervised:
    """What the supervisor says of a job.

    Arguments:
        desired: what it is to be: `running`, `paused`, `stopped`.
        phase: where it is.
        why: of the phase, in words; empty: it says it all.
        hint: what a person can do.
        needs_person: it waits for a person to act.
        since_ms: when it came to its phase.
        failures: in a row.
        is_changed: its file has changed since its process was started.
        verbs: what may be asked for now.
        pid: of its process; None: it has none.
        memory_bytes: of its processes.

    """

    desired: str
    phase: str
    why: str
    hint: str
    needs_person: bool
    since_ms: int
    failures: int
    is_changed: bool
    verbs: tuple[str, ...]
    pid: int | None
    memory_bytes: int | None


@dataclass(frozen=True, slots=True)
class FreshNumbers:
    """What the process of a job said at most seconds ago; None: it did not say."""

    lag: int | None
    records_per_s: float | None
    last_commit_ms: int | None
    lag_at_ms: int | None = None  # when the lag of the slice was read that was read first
    retrying_since_ms: int | None = None  # None: no slice is retrying


@dataclass(frozen=True, slots=True)
class RateSample:
    """Where a job stood at a moment; None: it was not known."""

    at_ms: int
    records_per_s: float | None
    lag: int | None


@dataclass(frozen=True, slots=True)
class SeenJob:
    """A job as the server last saw it.

    Arguments:
        name: what it is called here: the name of its file.
        path: of the job file.
        row: its status, or why it could not be read.
        seen_ms: when.
        samples: of the last minutes, oldest first.
        supervised: None: no supervisor starts it.
        slow_since_ms: when a look at it began that has not ended; None: none takes long.
        warnings: what its process last warned of, newest first.
        fresh: of a job whose process runs here.
        steps: of the last batches of each slice, as that process reported them.
        problem: why its job file cannot be run; None: it can, or there is none.
        labels: of the job file.

    """

    name: str
    path: Path
    row: FleetRow
    seen_ms: int
    samples: tuple[RateSample, ...] = ()
    slow_since_ms: int | None = None
    supervised: Supervised | None = None
    warnings: tuple[str, ...] = ()
    fresh: FreshNumbers | None = None
    steps: tuple[SliceSeen, ...] = ()
    problem: AshoreError | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
