"""What the pages ask of the server that they belong to.

What it is: `ControlPlane`, a seam, and the values that cross it.
What it promises: `jobs` and `job` answer from memory; whoever looks at a page waits for no lake.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from ashore.fleet.access.tokens import Caller
from ashore.fleet.records.values import Asker
from ashore.fleet.server.observation import SeenJob
from ashore.fleet.server.pages.commands import Commands
from ashore.fleet.server.pages.drafts import Drafts
from ashore.topics.open_job import OpenJob


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

    def labels(self, name: str) -> Mapping[str, str] | None:
        """Return the labels of a job; None: there is no such job, or its file is not valid."""
        ...

    def job_of(self, operation: str) -> str:
        """Return the job of an operation; empty: it has none, or there is no such operation."""
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

    def deploy(
        self, name: str, text: str, caller: Caller, beside: Mapping[str, str] | None = None
    ) -> None:
        """Write a job file, and the files beside it. Raises as `Verbs.deploy`; NotAllowed."""
        ...
