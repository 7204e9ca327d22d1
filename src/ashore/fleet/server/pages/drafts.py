"""Job files with other SQL, kept while a migration is decided.

What it promises: a draft finds the files beside it that the job file of the server finds; the job
file as it was is kept with it, for an undo. What it must not know: what becomes of a state.
"""

import shutil
from dataclasses import dataclass
from pathlib import Path

from ashore.base.unique import unique
from ashore.errors import RequestInvalid
from ashore.fleet.operate.verbs import BESIDE_SUFFIXES

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
