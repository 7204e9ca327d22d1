"""Where the files of a server are. All their names are made here.

What it is: `ServerFiles`, the paths below a directory of job files.
What it promises: what people keep in git (job files, SQL, what is wanted of each job) is apart from
what a machine knows (processes, logs, tokens, the index), which a `.gitignore` keeps out.
"""

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ashore.fleet.records.store import LocalRecords, Records

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
JOB_SUFFIXES = (".yaml", ".yml")
CASES = ".cases"  # of a file of test cases, before its suffix
DESIRED, RUNS = "desired", "runs"  # folders: of desired states, of processes
EVENTS, AUDIT, REFUSED = "events.jsonl", "audit.jsonl", "refused.jsonl"
_IGNORED = f"*\n!.gitignore\n!{DESIRED}/\n!{DESIRED}/*\n"


def is_name(text: str) -> bool:
    """Return whether a text can be the name of a job: it is that of a file too."""
    return NAME.fullmatch(text) is not None and not text.endswith((*JOB_SUFFIXES, CASES))


def desired_name(job: str) -> str:
    """Return the name of the record that says what is wanted of a job."""
    return f"{DESIRED}/{job}.json"


def _at(base: str, name: str) -> "cached_property[Path]":
    """Return a property: the path of this name below a directory of the layout."""
    return cached_property(lambda files: getattr(files, base) / name)


@dataclass(frozen=True)
class ServerFiles:
    """The files of a server.

    Arguments:
        jobs: the directory of job files.
        state: what the machine knows; by default `.ashore` in it.

    """

    jobs: Path
    state: Path

    @classmethod
    def of(cls, jobs: Path, state: Path | None = None) -> "ServerFiles":
        """Return the layout of a directory of job files, as an absolute path."""
        jobs = jobs.absolute()
        return cls(jobs, jobs / ".ashore" if state is None else state.absolute())

    def make(self) -> None:
        """Make the directories. Raises OSError."""
        for each in (self.state, self.desired, self.runs, self.operations):
            each.mkdir(parents=True, exist_ok=True)
        for each in (self.runs, self.operations):
            each.chmod(0o700)  # logs and results may quote records
        ignored = self.state / ".gitignore"
        if not ignored.exists():
            ignored.write_text(_IGNORED, "utf-8")

    # ---- of the server

    @cached_property
    def records(self) -> Records:
        """What it shares with other servers: desired states, and lines of what happened."""
        return LocalRecords(self.state)

    lock = _at("state", "serve.lock")  # the lock of the one server of a state directory
    tokens = _at("state", "tokens.json")  # the tokens of the API
    audit = _at("state", AUDIT)  # who changed what: one line of JSON per change
    refused = _at("state", REFUSED)  # who was refused: one line of JSON per login or request
    deliveries = _at("state", "deliveries")  # events that webhooks have not taken yet
    index = _at("state", "index.sqlite")  # the index, where it is SQLite's. May be deleted
    operations = _at("state", "operations")  # long work: a directory per operation

    # ---- of a job

    desired = _at("state", DESIRED)  # what is wanted of each job: a file per job
    runs = _at("state", RUNS)  # what is known of the processes of each job: a directory per job

    def run_of(self, job: str) -> "RunFiles":
        """Return where the files of a job's process are."""
        return RunFiles(self.runs / job)


@dataclass(frozen=True)
class RunFiles:
    """The files of a job's process, which survive it and the server."""

    root: Path

    lock = _at("root", "run.lock")  # locked by the process of the job for its life
    process = _at("root", "process.json")  # which process runs, or ran last: written by itself
    exit = _at("root", "exit.json")  # how it ended: written by itself, unless it was killed
    retry = _at("root", "retry.json")  # how often it failed in a row, and when it is started again
    phase = _at("root", "phase.json")  # since when the job is in its phase; may be lost
    seen = _at("root", "seen.json")  # where it is: replaced whole, at most each second
    metrics = _at("root", "metrics.prom")  # its metrics, in Prometheus's text format
    log = _at("root", "job.log")  # what it reported: one line of JSON per event. Rotated
    output = _at("root", "output.log")  # what its process printed, such as a traceback
    samples = _at("root", "samples.jsonl")  # rate and lag over time: one line per sample. Rotated
    followed = _at("root", "followed.json")  # how far the server has read the job's logs


@dataclass(frozen=True)
class OperationFiles:
    """The files of an operation."""

    root: Path

    request = _at("root", "request.json")  # what was asked for
    lock = _at("root", "lock")  # locked by its process
    process = _at("root", "process.json")  # which process it is
    progress = _at("root", "progress.json")  # how far it is
    end = _at("root", "exit.json")  # how it ended
    cancelled = _at("root", "cancelled")  # exists once it has been cancelled
    output = _at("root", "output")  # what its command printed to stdout: the result
    talk = _at("root", "talk")  # what its command printed to stderr
