"""The commands `ashore recover`, `rejoin` and `clean`: what a dead job has left.

What it promises: with `--explain` nothing is changed.
What it must not know: what may be moved or deleted.
"""

from typing import Annotated

import typer

from ashore.base.units import format_size
from ashore.cli import run_view
from ashore.cli.options import AsJson, Debug, Explain, JobFile, TakeOver
from ashore.cli.output import print_answer, reported_errors
from ashore.control import jobs
from ashore.jobs.launch import JobLaunch, LaunchOptions


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
    with reported_errors(as_json=as_json, debug=debug), jobs.open_job(job_file) as opened:
        if reland and accept_loss:
            raise typer.BadParameter("--reland and --accept-loss are mutually exclusive")
        steps = jobs.plan_recover(opened)
        if explain:
            seen = jobs.explain_recover(opened, steps)
            print_answer([*seen.lines] or ["nothing to do"], {"steps": seen.lines}, as_json=as_json)
            raise typer.Exit(0 if seen.is_possible else 4)
        if reland:
            if not jobs.is_relandable(opened, takes_over=take_over):
                print_answer(["no file is lost"], {"rows": 0, "files": 0}, as_json=as_json)
                return
            options = LaunchOptions(opened.job.spark is not None, debug=debug, name=opened.job.job)
            launch = JobLaunch("reland", job_file, options)
            raise typer.Exit(run_view.show_reland(launch, as_json=as_json))
        if accept_loss:
            given = jobs.accept_losses(opened, why, takes_over=take_over)
            line = f"gave up {given.rows:,} rows of {given.files} files"
            print_answer([line], {"files": given.files, "rows": given.rows}, as_json=as_json)
            return
        moved = jobs.recover_dead(opened, steps)
        line = f"moved {moved.moved}, already moved {moved.already_moved}"
        counts = {"moved": moved.moved, "already_moved": moved.already_moved}
        print_answer([line], counts, as_json=as_json)


def rejoin(
    job_file: JobFile,
    topic: Annotated[str, typer.Argument(help="The topic that was created again.")],
    take_over: TakeOver = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Continue with a topic that was deleted and created again, from its beginning."""
    with reported_errors(as_json=as_json, debug=debug), jobs.open_job(job_file) as opened:
        joined = jobs.rejoin_topic(opened, topic, takes_over=take_over)
        line = f"{topic}: {joined} partitions joined" if joined else f"{topic}: nothing to rejoin"
        print_answer([line], {"topic": topic, "partitions": joined}, as_json=as_json)


def clean(
    job_file: JobFile, explain: Explain = False, as_json: AsJson = False, debug: Debug = False
) -> None:
    """Delete in-progress files that are no longer referenced."""
    with reported_errors(as_json=as_json, debug=debug), jobs.open_job(job_file) as opened:
        steps = jobs.plan_clean_job(opened)
        if explain:
            lines = [f"delete {step.file.path}: {step.why}" for step in steps]
            print_answer(lines or ["nothing to delete"], {"steps": lines}, as_json=as_json)
            return
        size = jobs.clean_job(opened, steps)
        line = f"deleted {len(steps)} files, {format_size(size)}"
        print_answer([line], {"files": len(steps), "bytes": size}, as_json=as_json)
