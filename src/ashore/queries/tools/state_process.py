"""Spark for one verb of `ashore checkpoint`, or for `ashore migrate`.

What it is: `run_state_process`, which starts it and passes on its events; `take_answer`, which
returns its answer; `MigrationProcess`, one Spark that plans the queries of a job file and then
rewrites states for them; `plan_job`, for callers of the plans alone.
What it promises: its error is raised here, as it was raised there. It ends when this one does. What
is planned and what is rewritten come from one reading of the job file.
"""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Self, TypeVar

from ashore.errors import AshoreError, JobProcessEnded, error_of, fail
from ashore.jobs.events import Event, QueriesPlanned, StateMigrated, StateProgress, StateStep
from ashore.jobs.failure import Failed
from ashore.jobs.launch import JobLaunch, LaunchOptions
from ashore.jobs.requests import MigrateRequest, Outline, PlanRequest, write_request
from ashore.plans.query import PlannedQuery

E = TypeVar("E")
Report = Callable[[StateStep | StateProgress], None]
_END = ""  # the line of this process after which nothing more is asked


def run_state_process(
    command: str, where: str, request: object, *, debug: bool = False
) -> Iterator[Event]:
    """Start Spark for a verb, and yield the events of the process, until it has ended.

    Arguments:
        command: of `ashore.queries.spark.state.main`.
        where: the checkpoint, for people who list processes.
        request: of the command.
        debug: what it says on stderr is shown.

    Raises JavaMissing, JarMismatch, ServiceError; the error of the process.

    """
    options = LaunchOptions(
        is_state=True, debug=debug, name=f"checkpoint-{command}", request=write_request(request)
    )
    launch = JobLaunch(command, where, options)
    with launch:
        yield from follow(launch)


def follow(launch: JobLaunch) -> Iterator[Event]:
    """Yield the events of a process, until it has ended. Raises its error, then."""
    failure: Failed | None = None
    for event in launch.events():
        if isinstance(event, Failed):
            failure = event
        else:
            yield event
    code = launch.wait()
    if failure is not None or code:
        raise _error(code, failure, launch)


def take_answer(
    events: Iterable[Event],
    kind: type[E],
    report: Callable[[StateStep], None],
) -> E:
    """Follow a process that rewrites state, and return its answer.

    Arguments:
        events: of the process.
        kind: of the event that is the answer.
        report: called with each step.

    Raises what reading the events raises; JobProcessEnded where there is no answer among them.

    """
    answer: E | None = None
    for event in events:
        if isinstance(event, StateStep):
            report(event)
        elif isinstance(event, kind):
            answer = event
    if answer is None:
        raise _no_answer()
    return answer


def _no_answer() -> JobProcessEnded:
    return JobProcessEnded("the state process has ended without an answer")


def _error(code: int, failure: Failed | None, launch: JobLaunch) -> AshoreError:
    if failure is not None:
        return error_of(failure.code, failure.message, hint=failure.hint or "", **failure.more)
    return JobProcessEnded(
        f"the Spark process exited with {code if code >= 0 else 128 - code} without an error "
        "message; nothing was switched",
        hint="try again; its log says more",
        log=str(launch.log_path),
    )


# ---- of a migration


class MigrationProcess:
    """A Spark that plans the queries of a job file and rewrites states for them.

    As a context manager it is ended and waited for. It is started by `plan`.

    `job_file` has the SQL that is to continue. `name`: of the job, for its log file.
    """

    def __init__(self, job_file: Path, name: str, *, debug: bool = False) -> None:
        self._job_file, self._name, self._debug = job_file, name, debug
        self._launch: JobLaunch | None = None

    def plan(self, outlines: tuple[Outline, ...] = ()) -> tuple[PlannedQuery, ...]:
        """Return what the queries of the job file would do. Call it once, before any rewrite.

        `outlines`: of checkpoints that Spark compares with the queries.

        Raises JavaMissing, JarMismatch, ServiceError; the error of the process.
        """
        request = write_request(PlanRequest(outlines))
        options = LaunchOptions(
            is_state=True, debug=self._debug, name=f"{self._name}-migrate", request=request
        )
        self._launch = JobLaunch("migrate", self._job_file, options)
        self._launch.start()
        return self._answer(QueriesPlanned, lambda _: None).queries

    def rewrite(self, request: MigrateRequest, report: Report) -> StateMigrated:
        """Let the state of a query be written, and return what was. Requires: `plan` was called.

        `report`: called with each step, and how far it is.

        If interrupted: a part of the target is there, and Spark starts no query in it.
        Raises the error of the process; JobProcessEnded where it ends without one.
        """
        self._running().write_line(write_request(request))
        return self._answer(StateMigrated, report)

    def _answer(self, kind: type[E], report: Report) -> E:
        for event in follow(self._running()):
            if isinstance(event, kind):
                return event
            if isinstance(event, StateStep | StateProgress):
                report(event)
        raise _no_answer()

    def _running(self) -> JobLaunch:
        return self._launch or fail("a migration is planned before it rewrites")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if self._launch is not None:
            if kind is not None:
                self._launch.stop()  # what it writes would not be used
            self._launch.write_line(_END)
            self._launch.wait()


def plan_job(job_file: Path, name: str, *, debug: bool = False) -> tuple[PlannedQuery, ...]:
    """Return what the queries of a job file would do, by a Spark of its own.

    Arguments and errors as those of `MigrationProcess` and its `plan`.
    """
    with MigrationProcess(job_file, name, debug=debug) as process:
        return process.plan()
