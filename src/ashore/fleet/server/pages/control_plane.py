"""What the pages ask of the server that they belong to.

What it is: `ControlPlane`, a seam, and the values that cross it; `Drafts`, job files with other
SQL, kept while a migration is decided.
What it promises: `jobs` and `job` answer from memory; a page never waits for a lake. A
draft finds the files beside it that the job file of the server finds; the job file as it was is
kept with it, for an undo.
"""

import shutil
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ashore.base.unique import unique
from ashore.errors import RequestInvalid
from ashore.fleet.access.tokens import Caller
from ashore.fleet.operate.verbs import BESIDE_SUFFIXES
from ashore.fleet.records.values import Asker
from ashore.fleet.server.observation import SeenJob
from ashore.fleet.server.pages.commands import Commands
from ashore.topics.open_job import OpenJob

KEPT = 30
HEX = frozenset("0123456789abcdef")


@dataclass(frozen=True, slots=True)
class JobDraft:
    """A job file with other SQL.

    Arguments:
        id: its own.
        path: of the file.
        before: of the job file as it was.
        mapping: of the file with who is who, which may not be there.

    """

    id: str
    path: Path
    before: Path
    mapping: Path


class Drafts:
    """Drafts below a directory. `jobs`: the directory of job files."""

    def __init__(self, directory: Path, jobs: Path) -> None:
        self._directory = directory
        self._jobs = jobs

    def write(self, name: str, text: str) -> JobDraft:
        """Keep a draft of a job. Raises OSError."""
        made = self._at(unique(), name)
        made.path.parent.mkdir(parents=True, mode=0o700)
        for each in self._jobs.iterdir():
            if each.suffix in BESIDE_SUFFIXES:
                (made.path.parent / each.name).symlink_to(each)
        made.path.write_text(text, "utf-8")
        shutil.copyfile(self._jobs / f"{name}.yaml", made.before)
        self._forget()
        return made

    def find(self, name: str, id_: str) -> JobDraft:
        """Return a draft. Raises RequestInvalid where there is none."""
        found = self._at(id_, name)
        if not set(id_) <= HEX or not found.path.is_file():
            raise RequestInvalid("this draft is no longer kept", hint="check the SQL again")
        return found

    def _at(self, id_: str, name: str) -> JobDraft:
        place = self._directory / id_
        return JobDraft(id_, place / f"{name}.yaml", place / "before.txt", place / "mapping.yaml")

    def _forget(self) -> None:
        """Remove the oldest."""
        there = sorted(self._directory.iterdir(), key=lambda each: each.stat().st_mtime)
        for each in there[:-KEPT]:
            shutil.rmtree(each, ignore_errors=True)


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
