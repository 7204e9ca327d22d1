"""The text of a job file as pages read it, and drafts: job files with other SQL.

What it is: `read_masked` and its kin; `Drafts`, kept while a migration is decided.
What it promises: secrets are masked for those who look. What cannot be read is an error, and is
never taken for an empty file. A draft finds the files beside it that the job file of the server
finds; the job file as it was is kept with it, for an undo.
"""

import difflib
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ashore.base.unique import unique
from ashore.errors import RequestInvalid
from ashore.fleet.operate.verbs import BESIDE_SUFFIXES
from ashore.jobs.file import parse_job
from ashore.jobs.file.document import read_document
from ashore.jobs.file.masking import MaskedText, mask_secrets
from ashore.jobs.file.values import MASK
from ashore.jobs.kafka_options import SECRET_NAME
from ashore.plans.text import mask_literals
from ashore.topics.loop.job import columns_of

TEXT_MAX = 200_000  # characters of a job file that pages show and take


def read_job_text(path: Path) -> str:
    """Return a job file, or a file that it names, as it is. Raises RequestInvalid."""
    try:
        with path.open("rb") as file:
            content = file.read(TEXT_MAX + 1) if path.is_file() else b""
        text = content.decode("utf-8")
    except OSError as error:
        raise RequestInvalid(f"{path.name} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise RequestInvalid(f"{path.name} is not a text in UTF-8") from None
    return check_size(text, path.name)


def read_masked(path: Path) -> MaskedText:
    """Return a job file without its secrets. Raises RequestInvalid, JobFileInvalid."""
    return mask_secrets(read_job_text(path))


def read_job_texts(path: Path) -> dict[str, str]:
    """Return a job file and the SQL file beside it that it names, by name, without their secrets.

    A file elsewhere is left out: who may write job files may not read all that the server can.
    Raises RequestInvalid, JobFileInvalid.
    """
    texts = {path.name: read_masked(path).text}
    data = read_document(texts[path.name]).data
    sql = data.get("sql") if isinstance(data, dict) else None
    named = sql.get("file") if isinstance(sql, dict) else None
    if not isinstance(named, str):
        return texts
    beside = (path.parent / named).resolve()
    if beside.parent == path.parent.resolve() and beside.suffix in BESIDE_SUFFIXES:
        texts[beside.name] = mask_literals(read_job_text(beside), SECRET_NAME, MASK)
    return texts


def read_labels(name: str, text: str) -> Mapping[str, str]:
    """Return the labels of the text of a job file. Raises JobFileInvalid."""
    return parse_job(text, path=f"{name}.yaml", check_schema=columns_of).labels


def check_size(text: str, name: str) -> str:
    """Return a text, or refuse it: one that was cut would be another one. Raises RequestInvalid."""
    if len(text) > TEXT_MAX:
        raise RequestInvalid(
            f"{name} has more than {TEXT_MAX:,} characters, which pages do not show or take",
            hint="use `ashore deploy`, or move SQL into a file beside the job file",
        )
    return text


def diff_masked(before: Path, after: Path) -> list[str]:
    """Return how two job files differ, without their secrets. Raises as `read_masked`."""
    old, new = (read_masked(each).text.splitlines() for each in (before, after))
    return list(difflib.unified_diff(old, new, lineterm="", n=2))[2:]


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
