"""The documents of the API, as the OpenAPI file describes them.

What it is: one model per document, and what makes it of a value of `ashore.fleet`.
What it promises: times are Unix times in milliseconds. No secret is in a document: those of a job
file stay where they are read.
"""

from dataclasses import replace
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from ashore.fleet.operate.operations import OperationState, OperationView
from ashore.fleet.records.server_files import DesiredState, ProcessRecord
from ashore.fleet.server.condition import JobCondition
from ashore.fleet.supervise.decide import Phase
from ashore.fleet.supervise.supervisor import ManagedJob


class ApiDocument(BaseModel):
    """A document of the API: frozen, and made of a value that has its fields."""

    model_config = ConfigDict(frozen=True, from_attributes=True)


class DesiredDocument(ApiDocument):
    """What is wanted of a job."""

    state: DesiredState
    by: str
    at_ms: int
    why: str
    until_ms: int | None


class ProcessDocument(ApiDocument):
    """The process that runs a job; the job process, with Spark in it, is its child."""

    run: str
    pid: int
    started_ms: int
    job_pid: int | None

    @classmethod
    def of(cls, process: ProcessRecord, job_pid: int | None) -> "ProcessDocument":
        """Return the document of a process."""
        return cls(run=process.run, pid=process.pid, started_ms=process.started_ms, job_pid=job_pid)


class ExitDocument(ApiDocument):
    """How the last run of a job ended."""

    run: str
    code: int
    ended_ms: int
    error: str
    message: str
    hint: str


class StepDocument(ApiDocument):
    """A step of a batch."""

    step: str
    took_ms: int


class BatchDocument(ApiDocument):
    """A batch that became readable, with its steps."""

    batch: int | None
    entry: int | None
    rows: int
    files: int
    at_ms: int
    steps: list[StepDocument]
    tables: list[str]


class SliceDocument(ApiDocument):
    """Where a slice of a job is, as its process reported at most a second ago."""

    slice: str
    state: str
    step: str
    step_since_ms: int
    epoch: int | None
    batch: int | None
    entry: int | None
    lag: int | None
    rate: int | None = Field(description="records per second over its last batches")
    rows: int
    last_commit_ms: int | None
    newest_ms: int | None
    watermark_ms: int | None
    deferred: int
    why: str
    batches: list[BatchDocument] = Field(description="the newest ones; of a job alone")


class NeedDocument(ApiDocument):
    """Something that needs a person: what is so, and what to do."""

    level: str = Field(
        validation_alias="word",
        description="`decide`: nothing continues without a person; `broken`: it does not land; "
        "`look`: it lands, and something is worth a look",
    )
    subject: str
    text: str
    hint: str


class JobDocument(ApiDocument):
    """A job of the server, as its page shows it."""

    name: str
    state: str = Field(
        description="as on the page: the phase, or `idle`, `stuck`, `retrying` of one that runs"
    )
    state_since_ms: int | None
    needs: list[NeedDocument] = Field(description="what needs a person, gravest first")
    phase: Phase
    why: str = Field(description="of the state, or the gravest of `needs`")
    hint: str
    since_ms: int = Field(description="when it came to its phase; a restart of the server is none")
    until_ms: int | None = Field(description="when it is decided again, if it waits for a time")
    desired: DesiredDocument
    is_changed: bool = Field(description="its file has changed since its process was started")
    process: ProcessDocument | None
    last: ExitDocument | None
    failures: int = Field(description="failures in a row")
    lag: int | None = Field(description="null where it was not read in the last minute")
    lag_at_ms: int | None = Field(description="when the lag was read, or was last known")
    rate: int | None
    last_commit_ms: int | None
    retrying_since_ms: int | None = Field(description="tries have failed since; null: none")
    memory_bytes: int | None
    labels: dict[str, str] = Field(description="of the job file")
    tables: list[str]
    slices: list[SliceDocument]
    warnings: list[str]

    @classmethod
    def of(
        cls, view: ManagedJob, found: JobCondition, *, with_batches: bool = False
    ) -> "JobDocument":
        """Return the document of a job."""
        seen, process = view.seen, view.process
        slices = seen.slices if seen is not None else ()
        if not with_batches:
            slices = tuple(replace(each, batches=()) for each in slices)
        job = view.file.job if view.file else None
        job_pid = view.running.job_pid if view.running else None
        return cls(
            name=view.name,
            state=found.state,
            state_since_ms=found.since_ms,
            needs=[NeedDocument.model_validate(each) for each in found.needs],
            phase=view.phase,
            why=found.why,
            hint=found.hint,
            since_ms=view.since_ms,
            until_ms=view.decision.until_ms,
            desired=DesiredDocument.model_validate(view.desired),
            is_changed=view.is_changed,
            process=None if process is None else ProcessDocument.of(process, job_pid),
            last=None if view.last is None else ExitDocument.model_validate(view.last),
            failures=view.failures,
            lag=found.lag,
            lag_at_ms=found.lag_at_ms,
            rate=None if found.records_per_s is None else round(found.records_per_s),
            last_commit_ms=found.last_entry_ms,
            retrying_since_ms=found.retrying_since_ms,
            memory_bytes=view.memory_bytes,
            labels=dict(job.labels) if job else {},
            tables=[str(item.table) for item in job.tables] if job else [],
            slices=[SliceDocument.model_validate(each) for each in slices],
            warnings=list(seen.warnings) if seen is not None else [],
        )


class JobList(ApiDocument):
    """All jobs of the server, by name."""

    at: int = Field(description="counts the looks of the supervisor: it grows with what is seen")
    problem: str = Field(description="why the directory of job files cannot be read, if it cannot")
    jobs: list[JobDocument]


class JobChange(BaseModel):
    """Why something is changed."""

    model_config = ConfigDict(extra="forbid")

    why: str = Field(default="", max_length=1000)


class PauseChange(JobChange):
    """A pause, and for how long."""

    for_ms: int | None = Field(default=None, ge=1, le=366 * 86_400_000)


class DeployChange(JobChange):
    """A job file, and the files of SQL and Python functions that it names."""

    file: str = Field(max_length=1 << 20)
    beside: dict[str, str] = Field(default_factory=dict, max_length=20)
    start: bool = Field(default=False, description="start the job, or restart it if it is running")


class ProgressDocument(ApiDocument):
    """How far an operation is, of what it is at."""

    what: str
    done: int
    total: int


class OperationDocument(ApiDocument):
    """An operation: long work in a process of its own, which survives the server."""

    id: str
    command: str
    job: str = Field(description="empty: it is of no job")
    by: str
    created_ms: int
    state: OperationState
    outcome: str = Field(description="the state in words, with its answer: `answered: lost`")
    progress: ProgressDocument | None
    stderr: str = Field(description="the newest lines that its command wrote to stderr")
    exit_code: int | None = Field(description="of its command, as in the reference of exit codes")
    answer: str = Field(
        description="what the exit code says in a word, such as `ok`, `lost`, `unprovable`, where "
        "the command has done what it was asked for; empty: it says whether it could"
    )
    ended_ms: int | None
    is_cancelled: bool
    result: Any = Field(description="what its command printed as JSON, once it has ended")

    @classmethod
    def of(cls, found: OperationView, result: object) -> "OperationDocument":
        """Return the document of an operation."""
        request, end, at = found.request, found.end, found.progress
        progress = None if at is None else ProgressDocument.model_validate(at)
        return cls(
            id=request.id,
            command=request.command,
            job=request.job,
            by=request.by,
            created_ms=request.created_ms,
            state=found.state,
            outcome=found.outcome,
            progress=progress,
            stderr=found.stderr,
            exit_code=found.exit_code,
            answer=end.answer if end and found.is_final else "",
            ended_ms=end.ended_ms if end else None,
            is_cancelled=found.is_cancelled,
            result=result,
        )


class OperationList(ApiDocument):
    """Operations, the newest first."""

    operations: list[OperationDocument]


class ServerDocument(ApiDocument):
    """The server itself."""

    version: str
    directory: str
    problem: str = Field(description="why the directory of job files cannot be read, if it cannot")
    look_age_s: float = Field(description="since the supervisor last looked at its jobs")
    jobs: int


class EventList(ApiDocument):
    """What happened to jobs, the newest first: `at`, `event`, `job`, and fields of the event."""

    events: list[dict[str, Any]]


class LogLines(ApiDocument):
    """Lines of a job's log, the oldest first."""

    lines: list[dict[str, Any]]
