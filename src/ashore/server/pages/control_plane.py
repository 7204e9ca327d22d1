"""What the pages ask of the server that they belong to.

What it is: `ControlPlane`, a seam, and the values that cross it.
What it promises: `jobs` and `job` answer from memory; whoever looks at a page waits for no lake.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ashore.control.fleet import FleetRow
from ashore.control.jobs import OpenJob
from ashore.runtime.records import SliceSeen
from ashore.runtime.verbs import Asker
from ashore.server.pages.commands import Commands
from ashore.server.pages.drafts import Drafts
from ashore.server.watching import RateSample, WatchedJob


@dataclass(frozen=True, slots=True)
class Supervised:
    """What the supervisor says of a job.

    Arguments:
        desired: what it is to be: `running`, `paused`, `stopped`.
        phase: where it is.
        why: of the phase, in words; empty: it says it all.
        hint: what a person can do.
        needs_person: it does not go on before somebody has done something.
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


@dataclass(frozen=True, slots=True)
class SeenJob:
    """A job as the server last saw it.

    Arguments:
        name: what it is called here: the name of its file.
        path: of the job file.
        row: its status, or why it could not be read.
        seen_ms: when.
        samples: of the last minutes, oldest first.
        supervised: None: nobody here starts it.
        slow_since_ms: when a look at it began that has not ended; None: none takes long.
        warnings: what its process last warned of, newest first.
        fresh: of a job whose process runs here.
        steps: of the last batches of each slice, as that process reported them.

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

    @classmethod
    def of(cls, found: WatchedJob) -> "SeenJob":
        """Return what a watch has seen, of a job that nobody here starts."""
        return cls(
            found.name, found.path, found.row, found.seen_ms, found.samples, found.slow_since_ms
        )


class ControlPlane(Protocol):
    """The server, as pages see it. Methods are called by several threads at once."""

    @property
    def directory(self) -> str:
        """Where job files are looked for."""
        ...

    @property
    def problem(self) -> str:
        """What keeps the server from its work, whichever the job; empty: nothing."""
        ...

    @property
    def commands(self) -> Commands:
        """What runs long work."""
        ...

    @property
    def drafts(self) -> Drafts:
        """Job files with other SQL, while a migration is decided."""
        ...

    def now_ms(self) -> int:
        """Return the time."""
        ...

    def jobs(self) -> Sequence[SeenJob]:
        """Return all jobs by name, as they were last seen."""
        ...

    def job(self, name: str) -> SeenJob | None:
        """Return a job as it was last seen, or None."""
        ...

    def stamp(self, name: str | None) -> str:
        """Return a text that changes with what a page of a job, or of all, would show."""
        ...

    def open_job(self, name: str) -> AbstractContextManager[OpenJob]:
        """Open a job for a look at its lake. Raises JobFileInvalid, AshoreError."""
        ...

    def act(self, name: str, verb: str, asker: Asker) -> None:
        """Do what a verb says with a job. Raises AshoreError where that cannot be."""
        ...

    def save(self, name: str, text: str) -> None:
        """Write a job file. Raises JobFileInvalid, and nothing was written."""
        ...
