"""The command `ashore recover`: what a dead job has left.

What it promises: with `--explain` nothing is changed.
"""

from typing import Annotated

import typer

from ashore.base.units import format_count
from ashore.cli.options import AsJson, Debug, Explain, JobFile, TakeOver
from ashore.cli.output import CommandAnswer, print_answer, reported_errors
from ashore.errors import ExitCode
from ashore.topics.open_job import open_job
from ashore.topics.use.recover import explain_recover, plan_recover, recover_dead


def recover(  # noqa: PLR0913, PLR0917 - each parameter is an option of the command
    job_file: JobFile,
    explain: Explain = False,
    reland: Annotated[
        bool, typer.Option("--reland", help="Read lost files again from Kafka. Takes over.")
    ] = False,
    accept_loss: Annotated[
        bool, typer.Option("--accept-loss", help="Give lost files up for good. Takes over.")
    ] = False,
    why: Annotated[
        str, typer.Option(help="With --accept-loss: the reason, kept in the log.")
    ] = "ashore recover --accept-loss",
    take_over: TakeOver = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Finish the moves of a job that died, from its log alone."""
    with reported_errors(as_json=as_json, debug=debug), open_job(job_file) as opened:
        if reland and accept_loss:
            raise typer.BadParameter("--reland and --accept-loss are mutually exclusive")
        steps = plan_recover(opened)
        if explain:
            seen = explain_recover(opened, steps)
            print_answer([*seen.lines] or ["nothing to do"], {"steps": seen.lines}, as_json=as_json)
            raise (
                typer.Exit if seen.is_possible else CommandAnswer(ExitCode.DECISION, "not possible")
            )
        if reland or accept_loss:
            # Loads what writes a log; to look, and to finish moves, it is not needed.
            from ashore.topics.use.take_over import accept_losses, is_relandable  # noqa: PLC0415
        if reland:
            if not is_relandable(opened, takes_over=take_over):
                print_answer(["no file is lost"], {"rows": 0, "files": 0}, as_json=as_json)
                return
            from ashore.cli import run_view  # noqa: PLC0415 - with what a launch needs
            from ashore.jobs.launch import JobLaunch, LaunchOptions  # noqa: PLC0415 - as above

            options = LaunchOptions(opened.job.spark is not None, debug=debug, name=opened.job.job)
            launch = JobLaunch("reland", job_file, options)
            raise typer.Exit(run_view.show_reland(launch, as_json=as_json))
        if accept_loss:
            accepted = accept_losses(opened, why, takes_over=take_over)
            files = format_count(accepted.files, "file")
            line = f"gave up {format_count(accepted.rows, 'row')} of {files}"
            print_answer([line], {"files": accepted.files, "rows": accepted.rows}, as_json=as_json)
            return
        moved = recover_dead(opened, steps)
        line = f"moved {moved.moved}, already moved {moved.already_moved}"
        counts = {"moved": moved.moved, "already_moved": moved.already_moved}
        print_answer([line], counts, as_json=as_json)
