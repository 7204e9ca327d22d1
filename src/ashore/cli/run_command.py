"""The command `ashore run`.

What it promises: what can be known without Spark is told before Spark starts.
What it must not know: what a job does.
"""

from typing import Annotated, Literal

import typer

from ashore.cli import run_view
from ashore.cli.options import AsJsonLines, Debug, JobFile
from ashore.cli.output import escape, reported_errors, say, talk
from ashore.cli.signals import end_in_order, sigterm_does
from ashore.control import jobs
from ashore.control.preflight import check_job
from ashore.jobs.launch import JobLaunch, LaunchOptions


def run(
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
    as_json: AsJsonLines = False,
    log_format: Annotated[
        Literal["text", "json"], typer.Option(help="Format of the lines on stderr.")
    ] = "text",
    debug: Debug = False,
) -> None:
    """Run a job until it is stopped. SIGTERM and Ctrl-C stop it gracefully."""
    lines = run_view.Style.LOG if log_format == "json" else run_view.Style.LINES
    style = run_view.Style.EVENTS if as_json else lines
    with reported_errors(as_json=as_json, debug=debug, in_lines=True), sigterm_does(end_in_order):
        with jobs.open_job(job_file) as opened:
            run_view.show_checking(opened.job, style)
            preflight = check_job(opened, accepts_schema=accept_schema)
            job = opened.job
        for table, reasons in preflight.slow:
            talk.print(f"note: {table} decodes slowly: {'; '.join(reasons)}")
        for expression in preflight.unmatched:
            say(f"[yellow]warning[/] {escape(expression)} matches no topic yet")
        options = LaunchOptions(
            job.spark is not None, available_now, accept_schema, debug, name=job.job
        )
        launch = JobLaunch("run", job_file, options)
        raise typer.Exit(run_view.show_run(job, launch, style))
