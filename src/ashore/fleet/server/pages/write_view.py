"""A job file that a person is writing: what is wrong with it, with line and column.

What it promises: pure. Every problem is there at once; where the loader suggests something, so
does the page.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ashore.errors import JobFileInvalid
from ashore.fleet.records.job_files import check_name
from ashore.fleet.records.layout import is_name
from ashore.jobs.file import Job, parse_job
from ashore.topics.loop.job import columns_of

PROBLEMS_MAX = 100  # who mends these may ask again
MESSAGE_MAX = 2_000


@dataclass(frozen=True, slots=True)
class DraftProblem:
    """Something wrong with a job file. Line 0: with it as a whole."""

    line: int
    column: int
    key: str
    message: str
    instead: str


@dataclass(frozen=True, slots=True)
class CheckedDraft:
    """A job file as it is typed: the job, or what is wrong. `more`: problems not listed."""

    job: Job | None
    problems: tuple[DraftProblem, ...]
    more: int = 0


def check_draft(name: str, text: str) -> CheckedDraft:
    """Return what is wrong with the text of a job file. `name`: it is to be saved under."""
    if not is_name(name):
        problem = f"{name[:100]!r} is not a name for a job file"
        instead = "letters, digits, `-`, `_` and `.`, at most 100"
        return CheckedDraft(None, (DraftProblem(0, 0, "", problem, instead),))
    try:
        job = parse_job(text, path=f"{name}.yaml", check_schema=columns_of)
        check_name(name, job)
    except JobFileInvalid as error:
        listed = error.fields.get("problems")
        found = listed if isinstance(listed, Sequence) else ()
        lines = text.splitlines()
        problems = tuple(_problem(each, lines) for each in found[:PROBLEMS_MAX])
        whole = DraftProblem(0, 0, "", error.message[:MESSAGE_MAX], error.hint)
        return CheckedDraft(None, problems or (whole,), max(0, len(found) - PROBLEMS_MAX))
    return CheckedDraft(job, ())


def _problem(found: Mapping[str, object], lines: Sequence[str]) -> DraftProblem:
    line, key = int(str(found["line"])), str(found["key"])
    text = lines[line - 1] if 0 < line <= len(lines) else ""
    leaf = key.rpartition(".")[2].partition("[")[0]
    column = text.find(leaf) + 1 if leaf else 0
    start = len(text) - len(text.lstrip()) + 1
    return DraftProblem(line, column or start, key, str(found["message"]), str(found["instead"]))
