"""The command `ashore stop`.

What it promises: with exit code 0 the job has stopped, now or before, and its process is
gone; `--now` says that it was ended at once.
What it must not know: how a job is asked.
"""

import math
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ashore.base.clock import SystemClock
from ashore.cli.options import AsJson, Debug, JobFile, parse_duration
from ashore.cli.output import escape, print_answer, reported_errors, say
from ashore.config import load_job
from ashore.control.ask import RunningJob
from ashore.control.stop import JobStopped, Look, kill_job, stop_job
from ashore.errors import AshoreError, JobNotRunning, error_of
from ashore.jobs.requests import StopRequest

if TYPE_CHECKING:
    from ashore.cli.saving import TakenSavepoint

BEYOND_GRACE_S = 30.0  # Spark's end, beside the batch


def stop(  # noqa: PLR0913, PLR0917 - each parameter is an option of the command
    job_file: JobFile,
    finish_batch: Annotated[
        bool,
        typer.Option(
            "--finish-batch",
            help="Never cancel the batch under way, however long it takes. Without: at half of "
            "the job file's grace.",
        ),
    ] = False,
    now: Annotated[
        bool, typer.Option("--now", help="End the process at once, with SIGKILL: that is safe.")
    ] = False,
    timeout: Annotated[
        str | None,
        typer.Option(
            help="How long to wait for the end: `90s`. By default 30 s more than the job file's "
            "grace, and with --finish-batch as long as it takes."
        ),
    ] = None,
    savepoint: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            help="Then take a savepoint of each query: a directory, as a path or hdfs://...",
        ),
    ] = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Stop a running job gracefully, and wait until it has stopped."""
    if now and (finish_batch or timeout is not None or savepoint is not None):
        raise typer.BadParameter("--now excludes --finish-batch, --timeout and --savepoint")
    asked_s = None if timeout is None else parse_duration(timeout) / 1000
    with reported_errors(as_json=as_json, debug=debug):
        job = load_job(job_file)  # whether it can be run does not matter
        running = RunningJob(job.job, str(job.lake), SystemClock(), lambda line: say(escape(line)))
        look = _looking(job_file)
        save = None if savepoint is None else _saving(job_file, savepoint, quiet=as_json)
        if now:
            stopped = kill_job(running, look)
        else:
            usual_s = math.inf if finish_batch else job.grace_ms / 1000 + BEYOND_GRACE_S
            stopped = stop_job(
                running,
                StopRequest(finish_batch),
                usual_s if asked_s is None else asked_s,
                look,
            )
        ends = [f"{each.slice}: its log ends with entry {each.entry:,}" for each in stopped.logs]
        lines, document = [stopped.sentence, *ends], {"job": job.job, **asdict(stopped)}
        if save is not None:
            try:
                saved = save()
            except AshoreError as error:
                message = f"{stopped.sentence}; there is no savepoint of it: {error.message}"
                raise error_of(error.code, message, hint=error.hint) from error
            lines += [line for each in saved for line in each.lines]
            document["savepoints"] = [each.document for each in saved]
        print_answer(lines, document, as_json=as_json)


def _saving(job_file: Path, to: str, *, quiet: bool) -> "Callable[[], list[TakenSavepoint]]":
    from ashore.cli.saving import saving  # noqa: PLC0415 - loads events, for this option

    return saving(job_file, to, quiet=quiet)


def _looking(job_file: Path) -> Look:
    """Return what looks at the logs of a job, where no process answers for it."""

    def look(found: JobNotRunning) -> JobStopped:
        from ashore.control.jobs import open_job  # noqa: PLC0415 - 0.5 s, where it is needed
        from ashore.control.stopped import look_at_logs  # noqa: PLC0415

        with open_job(job_file) as opened:
            return look_at_logs(opened, found)

    return look
