"""Running a job until everything that was there has landed, for `ashore stop --drain`.

What it promises: it returns only where all of that has landed. Ctrl-C and SIGTERM stop the job in
order, as they stop any run.
"""

from dataclasses import dataclass, field
from pathlib import Path

import typer

from ashore.cli.output import failure_document, print_json, progress_keeper
from ashore.cli.run_view import RunState, Style, show_run
from ashore.errors import ExitCode
from ashore.jobs.events import Event
from ashore.jobs.launch import JobLaunch, LaunchOptions
from ashore.topics.open_job import open_job
from ashore.topics.use.preflight import check_job
from ashore.topics.use.run_job import failure_of


@dataclass
class _DrainState(RunState):
    """A run whose progress is kept: records that have landed, of those and what is left."""

    shown: tuple[int, int] = field(default=(-1, -1))

    def __post_init__(self) -> None:
        self._keep = progress_keeper()
        self._keep("starting", 0, 0)

    def take(self, event: Event, now_s: float) -> str | None:
        line = super().take(event, now_s)
        slices = self.slices.values()
        rows, left = sum(each.rows for each in slices), sum(each.lag or 0 for each in slices)
        if self.has_begun and (rows, left) != self.shown:
            self.shown = rows, left
            self._keep("records landed", rows, rows + left)
        return line


def drain(job_file: Path, *, as_json: bool) -> tuple[int, int]:
    """Run a job that has stopped until everything that was there has landed.

    Return how many rows landed, and in how many batches.

    Raises AshoreError where it cannot be run; typer.Exit, once it is said why, where the run has
    failed, or was interrupted.
    """
    with open_job(job_file) as opened:
        check_job(opened)
        job = opened.job
    state = _DrainState(job.job)
    options = LaunchOptions(job.spark is not None, available_now=True, name=job.job)
    launch = JobLaunch("run", job_file, options)
    code = show_run(job, launch, Style.LINES, state)
    if state.stopping is not None and state.error is None:
        raise typer.Exit(ExitCode.INTERRUPTED)
    if code:
        failed = failure_of(code, state.error, launch)
        if as_json and failed is not None:
            print_json(failure_document(failed))
        raise typer.Exit(code)
    slices = state.slices.values()
    return sum(each.rows for each in slices), sum(each.batches for each in slices)
