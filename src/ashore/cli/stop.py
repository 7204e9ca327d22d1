"""The command `ashore stop`.

What it promises: with exit code 0 the job has stopped, now or before, and its process is
gone; `--now` says that it was ended at once. With `--drain` everything has landed that was there.
"""

import math
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from ashore.base.clock import SystemClock
from ashore.cli.options import AsJson, Debug, JobFile, parse_duration
from ashore.cli.output import print_answer, reported_errors, say
from ashore.errors import AshoreError, JobNotRunning, error_of
from ashore.jobs.ask import RunningJob
from ashore.jobs.file import load_job
from ashore.jobs.requests import StopRequest
from ashore.topics.use.stop import JobStopped, Look, kill_job, stop_job

if TYPE_CHECKING:
    from ashore.cli.saving import TakenSavepoint
    from ashore.jobs.file import Job
    from ashore.jobs.lake_mailbox import LakeMailbox

BEYOND_GRACE_S = 30.0  # Spark's end, beside the batch
NOT_NOW = "--finish-batch, --drain, --timeout and --savepoint"


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
    drain: Annotated[
        bool,
        typer.Option(
            "--drain", help="First land everything that is in the topics now, by another process."
        ),
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
    if now and (finish_batch or drain or timeout is not None or savepoint is not None):
        raise typer.BadParameter(f"--now excludes {NOT_NOW}")
    asked_s = None if timeout is None else parse_duration(timeout) / 1000
    with reported_errors(as_json=as_json, debug=debug):
        job = load_job(job_file)  # whether it can be run does not matter
        running = _running(job)
        look = _taking_its_place if drain else _looking(job_file)
        save = None if savepoint is None else _saving(job_file, savepoint, quiet=as_json)
        usual_s = math.inf if finish_batch else job.grace_ms / 1000 + BEYOND_GRACE_S
        timeout_s = usual_s if asked_s is None else asked_s
        request = StopRequest(finish_batch)
        stopped = kill_job(running, look) if now else stop_job(running, request, timeout_s, look)
        lines, document = _described(job.job, stopped)
        if drain:
            rows, batches = _drain(job_file, as_json=as_json)
            lines.append(f"landed {rows:,} records in {batches:,} batches: drained")
            document["drained"] = {"rows": rows, "batches": batches}
        if save is not None:
            saved = _saved(save, stopped)
            lines += [line for each in saved for line in each.lines]
            document["savepoints"] = [each.document for each in saved]
        print_answer(lines, document, as_json=as_json)


def _described(job: str, stopped: JobStopped) -> tuple[list[str], dict[str, object]]:
    ends = [f"{each.slice}: its log ends with entry {each.entry:,}" for each in stopped.logs]
    return [stopped.sentence, *ends], {"job": job, **asdict(stopped)}


def _saved(
    save: "Callable[[], list[TakenSavepoint]]", stopped: JobStopped
) -> "list[TakenSavepoint]":
    """Return the savepoints of a job that has stopped. What fails says that it has."""
    try:
        return save()
    except AshoreError as error:
        message = f"{stopped.sentence}; there is no savepoint of it: {error.message}"
        raise error_of(error.code, message, hint=error.hint) from error


def _saving(job_file: Path, to: str, *, quiet: bool) -> "Callable[[], list[TakenSavepoint]]":
    from ashore.cli.saving import saving  # noqa: PLC0415 - loads events, for this option

    return saving(job_file, to, quiet=quiet)


def _running(job: "Job") -> RunningJob:
    def in_lake() -> "LakeMailbox | None":
        from ashore.topics.loop.job import mailbox_in_lake  # noqa: PLC0415 - opens the lake

        return mailbox_in_lake(job)

    report, clock = lambda line: say(escape(line)), SystemClock()
    return RunningJob(job.job, str(job.lake), clock, report, in_lake)


def _drain(job_file: Path, *, as_json: bool) -> tuple[int, int]:
    from ashore.cli.draining import drain  # noqa: PLC0415 - starts a job process, for this option

    return drain(job_file, as_json=as_json)


def _taking_its_place(found: JobNotRunning) -> JobStopped:
    """Say that nothing is to be stopped: whatever became of the last process, another follows."""
    return JobStopped(None, None, (), found.message)


def _looking(job_file: Path) -> Look:
    """Return what looks at the logs of a job, where no process answers for it."""

    def look(found: JobNotRunning) -> JobStopped:
        from ashore.topics.open_job import open_job  # noqa: PLC0415 - 0.5 s, where it is needed
        from ashore.topics.use.stop_check import look_at_logs  # noqa: PLC0415

        with open_job(job_file) as opened:
            return look_at_logs(opened, found)

    return look
