"""The command `ashore run`.

What it promises: errors that need no Spark are reported before Spark starts.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.markup import escape

from ashore.cli import run_view
from ashore.cli.options import AsJsonLines, Debug, JobFile, TakeOver
from ashore.cli.output import STARTING_SPARK, reported_errors, say, shown_progress
from ashore.cli.run_view import Style
from ashore.cli.saving import TakenSavepoint, saving
from ashore.cli.signals import end_in_order, sigterm_does
from ashore.errors import Fenced, NotDone
from ashore.jobs.ask import RunningJob
from ashore.jobs.launch import JobLaunch, LaunchOptions
from ashore.queries.state.later_batches import AnotherTable, OutputSince
from ashore.topics.open_job import OpenJob, open_job
from ashore.topics.use.preflight import Preflight, check_job

if TYPE_CHECKING:
    from ashore.plans.query import PlannedQuery

FromSavepoints = Annotated[
    list[str] | None,
    typer.Option(
        "--from",
        metavar="SAVEPOINT",
        help="Continue from a savepoint instead of the checkpoint, which may be lost. May be "
        "given once for each query. For one start only: omit the option afterwards.",
    ),
]
Output = Annotated[
    OutputSince | None,
    typer.Option(
        help="With --from, how to treat the output landed since: `roll-back` moves it aside "
        "and reads its offsets again, `catch-up` keeps it and rebuilds the state; `another-table` "
        "leaves it unchanged, and a table that is still empty gets the rows of later batches."
    ),
]
OfAnotherJob = Annotated[
    bool,
    typer.Option(
        "--of-another-job",
        help="With another-table: the savepoint may be of another job, or of a query of plain "
        "Spark.",
    ),
]
SameSql = Annotated[
    bool,
    typer.Option(
        "--same-sql",
        help="With another-table: this SQL made the state, where no log here says which SQL did.",
    ),
]


def run(  # noqa: PLR0913, PLR0917 - each parameter is an option of the command
    job_file: JobFile,
    available_now: Annotated[
        bool, typer.Option("--available-now", help="End when everything there has landed.")
    ] = False,
    accept_schema: Annotated[
        bool,
        typer.Option(
            "--accept-schema",
            help="Accept schema changes after which readers may see wrong values.",
        ),
    ] = False,
    from_savepoint: FromSavepoints = None,
    output: Output = None,
    of_another_job: OfAnotherJob = False,
    same_sql: SameSql = False,
    take_over: TakeOver = False,
    savepoint: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            help="Before the command ends, once the job has stopped gracefully, take a savepoint "
            "of each query: a directory, as a path or hdfs://...",
        ),
    ] = None,
    as_json: AsJsonLines = False,
    log_format: Annotated[
        Literal["text", "json"], typer.Option(help="Format of the lines on stderr.")
    ] = "text",
    debug: Debug = False,
) -> None:
    """Run a job until it is stopped. SIGTERM and Ctrl-C stop it gracefully."""
    lines = run_view.Style.LOG if log_format == "json" else run_view.Style.LINES
    style = run_view.Style.EVENTS if as_json else lines
    if (output is not None or take_over) and not from_savepoint:
        raise typer.BadParameter("--output and --take-over go with --from")
    is_elsewhere = output is OutputSince.ANOTHER_TABLE
    if (of_another_job or same_sql) and not is_elsewhere:
        raise typer.BadParameter("--of-another-job and --same-sql go with --output another-table")
    with reported_errors(as_json=as_json, debug=debug, in_lines=True), sigterm_does(end_in_order):
        save = None if savepoint is None else saving(job_file, savepoint, quiet=as_json)
        with open_job(job_file) as opened:
            run_view.show_checking(opened.job, style)
            preflight = check_job(opened, accepts_schema=accept_schema)
            job = opened.job
            if from_savepoint and is_elsewhere:
                request = AnotherTable(tuple(from_savepoint), of_another_job, same_sql, take_over)
                _begin(opened, request, quiet=as_json, debug=debug)
            elif from_savepoint:
                _resume(opened, from_savepoint, output, takes_over=take_over, quiet=as_json)
        _report(preflight)
        warn_running(RunningJob(job.job, str(job.lake), opened.clock, lambda _line: None))
        options = LaunchOptions(
            job.spark is not None, available_now, accept_schema, debug, name=job.job
        )
        launch = JobLaunch("run", job_file, options)
        code = run_view.show_run(job, launch, style)
        if save is not None:
            _take_savepoints(save, code, style)
        raise typer.Exit(code)


def _report(preflight: Preflight) -> None:
    for table, reasons in preflight.slow:
        say(escape(f"note: {table} decodes slowly: {'; '.join(reasons)}"))
    for expression in preflight.unmatched:
        say(f"[yellow]warning[/] {escape(expression)} matches no topic yet")
    for text in preflight.removed:
        say(f"[yellow]warning[/] {escape(text)}")


def warn_running(job: RunningJob) -> None:
    """Warn who is about to start a job that runs: its other process will be fenced."""
    running = job.find_beating()
    if running is not None:
        say(
            f"[yellow]warning[/] job {escape(job.job)} is running on {escape(running.host)}, "
            f"process {running.pid}: this start takes over, and that process ends with exit code "
            f"{Fenced.exit_code} (fenced)"
        )


def _resume(
    opened: OpenJob,
    savepoints: list[str],
    output: OutputSince | None,
    *,
    takes_over: bool,
    quiet: bool,
) -> None:
    """Put savepoints in the place of the checkpoints of queries. Raises as `resume_from`."""
    from ashore.queries.tools.from_savepoint import ResumedQuery, ResumeOptions, resume_from  # noqa: PLC0415 - 0.2 s, where needed

    def show(found: ResumedQuery) -> None:
        since, line = found.since, f"{found.query} continues from the savepoint {found.place}"
        if since.batches:
            line += f"; since then {since.rows:,} rows in {since.batches:,} batches had landed"
        say(escape(line))

    request = ResumeOptions(tuple(savepoints), output, takes_over)
    with shown_progress(quiet=quiet) as progress:
        resume_from(opened, request, partial(progress, "copying"), show)


def _begin(opened: OpenJob, request: AnotherTable, *, quiet: bool, debug: bool) -> None:
    """Let queries begin in other tables. Raises as `begin_in_another_table`."""
    from ashore.queries.tools.another_table import BegunElsewhere, begin_in_another_table  # noqa: PLC0415 - as above
    from ashore.queries.tools.state_process import plan_job  # noqa: PLC0415 - as above

    def plan() -> "Sequence[PlannedQuery]":
        if not quiet:
            say(STARTING_SPARK)
        return plan_job(Path(str(opened.job.path)), opened.job.job, debug=debug)

    def show(found: BegunElsewhere) -> None:
        whose = f" of {found.owner}" if found.owner else ""
        say(escape(f"{found.query} continues from the savepoint {found.place}{whose}"))
        for note in found.notes:
            say(escape(note))

    with shown_progress(quiet=quiet) as progress:
        begin_in_another_table(opened, request, plan, partial(progress, "copying"), show)


def _take_savepoints(save: Callable[[], list[TakenSavepoint]], code: int, style: Style) -> None:
    """Take savepoints of a job that has ended with a code, and show them. Raises NotDone."""
    if code:
        say(f"no savepoint was taken: the job did not stop gracefully ({code})")
        return

    def give_up(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    try:
        with sigterm_does(give_up):
            taken = save()
    except KeyboardInterrupt:
        raise NotDone(
            "the job has stopped, and the command was ended before its savepoints were taken",
            hint="take them with `ashore checkpoint savepoint`; the job need not run",
        ) from None
    run_view.show_taken(taken, style)
