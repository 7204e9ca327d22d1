"""Where the files of a server are, and what they say. All their names are made here.

What it is: `ServerFiles`, the paths below a directory of job files; and one frozen value per file.
What it promises: what people keep in git (job files, SQL, what is wanted of each job) is apart from
what a machine knows (processes, logs, tokens, the index), which a `.gitignore` keeps out. A file
that is damaged, or of another release, is None to its reader, never half a value. Times are the
machine's, in milliseconds.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from pathlib import Path

from ashore.base import codec
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
    history = _at("root", "history.jsonl")  # what it did over time: one line per sample. Rotated
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


# ---- what they say


class DesiredState(StrEnum):
    """The state that a job should be in."""

    RUNNING = "running"
    STOPPED = "stopped"
    PAUSED = "paused"  # stopped for a while


@dataclass(frozen=True, slots=True)
class Desired:
    """What is wanted of a job: the file is the truth, and is kept in git.

    Arguments:
        state: what is wanted.
        generation: grows with each restart: a process of an earlier one is stopped.
        attempt: grows with each start by a person: what earlier ones ended with no longer keeps the
            job from starting.
        by: who decided.
        at_ms: when.
        why: for people.
        until_ms: of a pause: then the job is started again; None: it stays.
        held_by: the operation that stops the process instead of the supervisor, and that may run
            the job meanwhile; empty, or once it has ended: there is none.

    """

    state: DesiredState
    generation: int
    attempt: int
    by: str
    at_ms: int
    why: str = ""
    until_ms: int | None = codec.added(None)
    held_by: str = codec.added("")


@dataclass(frozen=True, slots=True)
class ProcessRecord:
    """The process that runs a job, as it wrote of itself.

    Arguments:
        run: unique for each start.
        generation: see `Desired`, as the next.
        pid: of the process that runs the job, whose child the job process is.
        started_ms: when that was started, as the system says.
        digest: of the job file and its SQL, as they were then.

    """

    run: str
    job: str
    generation: int
    attempt: int
    pid: int
    started_ms: int
    digest: str


@dataclass(frozen=True, slots=True)
class ExitRecord:
    """How a run ended. The error is as in docs/reference/errors.md; empty: there was none."""

    run: str
    attempt: int
    digest: str
    code: int
    ended_ms: int
    error: str = ""
    message: str = ""
    hint: str = ""


@dataclass(frozen=True, slots=True)
class RetryRecord:
    """How often a job failed in a row. `run`: the last one that is counted."""

    run: str
    failures: int
    not_before_ms: int


@dataclass(frozen=True, slots=True)
class PhaseRecord:
    """Since when a job is in its phase, for the server that comes next.

    Arguments:
        run: the run that lived then, or the last one: another run is in a phase of its own.

    """

    phase: str
    since_ms: int
    run: str


@dataclass(frozen=True, slots=True)
class StepTaken:
    """A step of a batch, and how long it took."""

    step: str
    took_ms: int


@dataclass(frozen=True, slots=True)
class BatchSeen:
    """A batch that became readable, with its steps: of the newest ones of a slice."""

    batch: int | None
    entry: int | None
    rows: int
    files: int
    at_ms: int
    steps: tuple[StepTaken, ...]
    tables: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SliceSeen:
    """Where a slice is."""

    slice: str
    state: str  # running | retrying | stopped
    step: str
    step_since_ms: int
    epoch: int | None = None
    batch: int | None = None
    entry: int | None = None
    lag: int | None = None
    rate: int | None = None  # records per second over its last batches
    rows: int = 0  # since the start of the run
    last_commit_ms: int | None = None
    newest_ms: int | None = None  # the highest event time that landed
    watermark_ms: int | None = None
    deferred: int = 0
    why: str = ""  # it stopped
    batches: tuple[BatchSeen, ...] = ()
    lag_at_ms: int | None = codec.added(None)  # when the lag was read
    retrying_since_ms: int | None = codec.added(None)  # since the first of the tries that failed


@dataclass(frozen=True, slots=True)
class RunSeen:
    """Where a run is, as it wrote at most a second ago."""

    run: str
    job: str
    at_ms: int
    phase: str  # starting | running | stopping
    job_pid: int | None
    slices: tuple[SliceSeen, ...]
    warnings: tuple[str, ...] = ()  # the newest ones
    log: str = ""  # of Spark and the JVM


@dataclass(frozen=True, slots=True)
class Asker:
    """Who requests something, and why."""

    by: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class OperationRequest:
    """What was asked for. `line`: the words of the command line."""

    id: str
    command: str
    job: str
    line: tuple[str, ...]
    by: str
    created_ms: int
    is_json: bool

    @property
    def title(self) -> str:
        """What people call it: the command, or the verb of a page that runs it."""
        return "drain" if self.command == "stop" and "--drain" in self.line else self.command


@dataclass(frozen=True, slots=True)
class OperationProcess:
    """The process of an operation, as it wrote of itself."""

    pid: int
    started_ms: int


@dataclass(frozen=True, slots=True)
class OperationEnd:
    """How an operation ended.

    Arguments:
        code: the exit code of its command.
        ended_ms: when.
        answer: what that says in a word, where the command has done what it was asked for; empty:
            the code says whether it could.

    """

    code: int
    ended_ms: int
    answer: str = codec.added("")


@dataclass(frozen=True, slots=True)
class OperationProgress:
    """How far an operation is, of what it is at."""

    what: str
    done: int
    total: int
