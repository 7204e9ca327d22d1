"""Spark for `ashore migrate`.

What it is: `MigrationProcess`, one Spark that plans the queries of a job file and then rewrites
states for them; `plan_job`, for callers of the plans alone.
What it promises: what is planned and what is rewritten come from one reading of the job file. The
process ends when this one does; its error is raised here, as it was raised there.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Self, TypeVar

from ashore.errors import JobProcessEnded, fail
from ashore.jobs.events import QueriesPlanned, StateMigrated, StateProgress, StateStep
from ashore.jobs.launch import JobLaunch, LaunchOptions
from ashore.jobs.requests import MigrateRequest, PlanRequest, write_request
from ashore.plans.query import PlannedQuery
from ashore.queries.state.outline import NO_OUTLINES, Outlines
from ashore.queries.tools.state_process import follow

E = TypeVar("E")
Report = Callable[[StateStep | StateProgress], None]
_END = ""  # the line after which nothing more is asked


class MigrationProcess:
    """A Spark that plans the queries of a job file and rewrites states for them.

    As a context manager it is ended and waited for. It is started by `plan`.

    `job_file` has the SQL that is to continue. `name`: of the job, for its log file.
    """

    def __init__(self, job_file: Path, name: str, *, debug: bool = False) -> None:
        self._job_file, self._name, self._debug = job_file, name, debug
        self._launch: JobLaunch | None = None

    def plan(self, outlines: Outlines = NO_OUTLINES) -> tuple[PlannedQuery, ...]:
        """Return what the queries of the job file would do. Call it once, before any rewrite.

        `outlines`: of checkpoints that Spark compares with the queries.

        Raises JavaMissing, JarMismatch, ServiceError; the error of the process.
        """
        request = write_request(PlanRequest(outlines.copies))
        options = LaunchOptions(
            is_state=True, debug=self._debug, name=f"{self._name}-migrate", request=request
        )
        self._launch = JobLaunch("migrate", self._job_file, options)
        self._launch.start()
        planned = self._answer(QueriesPlanned, lambda _: None).queries
        return tuple(outlines.explain(each) for each in planned)

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
        raise JobProcessEnded("the state process has ended without an answer")

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
