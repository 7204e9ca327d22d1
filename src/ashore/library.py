"""Ashore as a library: a job file as an object, for notebooks and schedulers.

What it is: `Job`, over the use cases that the commands have.
What it promises: answers are frozen values; what goes wrong is raised, as an AshoreError with a
`code` and a `hint`. Nothing is printed.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from ashore.errors import error_of
from ashore.jobs import file as config
from ashore.jobs.events import Event, Landed, WarningEvent
from ashore.jobs.failure import Failed
from ashore.jobs.launch import JobLaunch, LaunchOptions
from ashore.log.entries import Entry
from ashore.log.names import SliceName
from ashore.log.store.reader import read_history
from ashore.proof.evidence.result import VerifyResult
from ashore.proof.status.health import read_job
from ashore.proof.status.status import JobStatus
from ashore.proof.verify.job import verify_job
from ashore.topics.loop.job import MAIN, load_job_file
from ashore.topics.open_job import open_job
from ashore.topics.use.preflight import check_job
from ashore.topics.use.run_job import failure_of, running


@dataclass(frozen=True, slots=True)
class RunResult:
    """What one run has done."""

    job: str
    batches: int
    rows: int  # in main and late tables, or sent into topics
    files: int
    tables: tuple[str, ...]  # tables and topics that batches have written
    warnings: tuple[str, ...]  # of failures after which it continued


class Job:
    """A job, as its file describes it. Made by `Job.load`."""

    def __init__(self, job: config.Job, path: Path) -> None:
        self._job = job
        self._path = path

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Return the job that a file describes. Nothing is connected.

        `run` and the other methods read the file again. Raises AshoreError: `job-file-invalid`.
        """
        return cls(load_job_file(path), Path(path))

    @property
    def name(self) -> str:
        """The job's name, which names its log."""
        return self._job.job

    @property
    def lake(self) -> str:
        """The root directory of its tables; `${...}` is shown as it is written."""
        return str(self._job.lake)

    def run(
        self,
        *,
        available_now: bool = True,
        accept_schema: bool = False,
        on_landed: Callable[[Landed], None] | None = None,
    ) -> RunResult:
        """Run the job in a process of its own, and return when it has ended.

        An exception in the meantime, such as KeyboardInterrupt, stops the job gracefully and is
        raised again. If this process is killed, the job process ends by itself; the next run
        resumes from the log.

        Arguments:
            available_now: end when all records that were in the topics at the start have landed;
                False: run until an exception or an error stops it.
            accept_schema: accept schema changes after which readers may see wrong values, as
                `ashore run --accept-schema` does.
            on_landed: called in this thread with each batch that has become readable.

        Raises AshoreError: the error with which `ashore run` would have ended.

        """
        with open_job(self._path) as opened:
            check_job(opened, accepts_schema=accept_schema)
            job = opened.job
        options = LaunchOptions(job.spark is not None, available_now, accept_schema, name=job.job)
        run = _Collected(on_landed)
        with running(job, JobLaunch("run", self._path, options), run.warnings.append) as process:
            for event in process.events():
                run.take(event)
            code = process.wait()
        failed = failure_of(code, run.failed, process.launch)
        if failed is not None:
            raise error_of(failed.code, failed.message, hint=failed.hint or "", **failed.more)
        return run.result(self.name)

    def status(self) -> JobStatus:
        """Return the state of the job, as `ashore status` does. The job may be running.

        Raises AshoreError: the log is damaged, or the lake does not answer. If Kafka does not
        answer, nothing is raised: values that come from Kafka are None.
        """
        with open_job(self._path) as opened:
            return read_job(opened, None)[0]

    def verify(self, *, since: str | None = None) -> VerifyResult:
        """Compare the log with the files and with Kafka, as `ashore verify` does.

        The job may be running. Problems that are found are not raised: see `status`, `exit_code`
        and `problems` of the result.

        Arguments:
            since: read the contents only of files that were written since then: an age such as
                `2h` or `3d`, or a time in ISO 8601.

        Raises AshoreError: the log is damaged, or the lake does not answer.

        """
        with open_job(self._path) as opened:
            return verify_job(opened, since=since)

    def slices(self) -> tuple[str, ...]:
        """Return the slices of the job: `main` for its topics, and one for each query."""
        with open_job(self._path) as opened:
            return tuple(each.slice for each in opened.slices)

    def read_log(self, slice_name: str = MAIN, *, start: int = 0) -> Iterator[Entry]:
        """Yield the entries of a landing log, oldest first.

        Fields are those of [the log's format](../formats/landing-log.md).

        Arguments:
            slice_name: see `slices`.
            start: the number of the first entry.

        Raises AshoreError: `log-damaged`.

        """
        with open_job(self._path) as opened:
            yield from read_history(opened.storage, SliceName(self.name, slice_name), start)


class _Collected:
    """What the events of a run come to."""

    def __init__(self, on_landed: Callable[[Landed], None] | None) -> None:
        self._on_landed = on_landed
        self._batches = self._rows = self._files = 0
        self._tables: set[str] = set()
        self.warnings: list[str] = []
        self.failed: Failed | None = None

    def take(self, event: Event) -> None:
        match event:
            case Landed():
                self._batches += 1
                self._rows += event.rows
                self._files += event.files
                self._tables.update(event.tables)
                if self._on_landed is not None:
                    self._on_landed(event)
            case WarningEvent():
                self.warnings.append(event.message)
            case Failed():
                self.failed = event

    def result(self, job: str) -> RunResult:
        tables, warnings = tuple(sorted(self._tables)), tuple(self.warnings)
        return RunResult(job, self._batches, self._rows, self._files, tables, warnings)
