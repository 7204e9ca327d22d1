"""What the files of a server say: one frozen value per file.

What it promises: a file that is damaged, or of another release, is None to its reader, never half
a value. Times are the machine's, in milliseconds.
"""

from dataclasses import dataclass
from enum import StrEnum

from ashore.base import codec


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
