"""The command `ashore status`.

What it promises: with `--check` the exit code tells whether all is as it should be: 0, or of all
jobs the gravest of 4 (needs a decision), 1 (not healthy), 6 (could not be looked at).
What it must not know: what health is.
"""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from ashore.cli import status_view
from ashore.cli.options import AsJson, Debug, parse_duration
from ashore.cli.output import CommandAnswer, print_json, reported_errors, waiting
from ashore.errors import ExitCode, LogError
from ashore.proof.status.fleet import FleetRow, read_fleet, read_job
from ashore.proof.status.health import (
    ANSWERS,
    DECIDE,
    UNKNOWN,
    WORST_FIRST,
    Ailment,
    Allowed,
    worst,
)
from ashore.topics import open_job
from ashore.topics.use.table_changes import describe_pending

READING = "reading the log, and offsets from Kafka"


def status(
    job_files: Annotated[list[Path], typer.Argument(metavar="JOB.yaml...", help="The job files.")],
    check: Annotated[
        bool, typer.Option("--check", help="End with 0 only if the job is healthy.")
    ] = False,
    max_lag: Annotated[
        int | None,
        typer.Option(min=0, help="With --check: the highest lag in offsets that is healthy."),
    ] = None,
    max_age: Annotated[
        str | None,
        typer.Option(help="With --check: how old the last entry may be while offsets wait: 5m."),
    ] = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Show state, lag, rates, last entries and warnings. Several jobs: a table. Needs no Spark."""
    if not check and (max_lag is not None or max_age is not None):
        raise typer.BadParameter("--max-lag and --max-age require --check")
    age_ms = None if max_age is None else parse_duration(max_age)
    allowed = Allowed(max_lag, age_ms) if check else None
    if len(job_files) > 1:
        with waiting(READING, quiet=as_json):
            rows = read_fleet(job_files, allowed)
        code = _show_fleet(rows, as_json=as_json)
        raise CommandAnswer(code, ANSWERS[code])
    with reported_errors(as_json=as_json, debug=debug), open_job.open_job(job_files[0]) as opened:
        with waiting(READING, quiet=as_json):
            found, ailments = read_job(opened, allowed)
            changes = describe_pending(opened) if found.is_source_reachable else None
        if as_json:
            health = {"ailments": _plain(ailments), "exit_code": worst(ailments)} if check else {}
            print_json({**found.to_dict(), "changes": changes, **health})
        else:
            status_view.show(found, changes)
            status_view.show_ailments(ailments, found.job)
        code = worst(ailments)
        raise CommandAnswer(code, ANSWERS[code])


def _show_fleet(rows: list[FleetRow], *, as_json: bool) -> ExitCode:
    if as_json:
        print_json({"jobs": [_row(each) for each in rows]})
    else:
        status_view.show_fleet(rows)
    codes = {_code(each) for each in rows}
    return next((code for code in WORST_FIRST if code in codes), ExitCode.DONE)


def _code(row: FleetRow) -> ExitCode:
    """Return what a row is worth: a job that could not be read is never healthy."""
    if row.error is None:
        return worst(row.ailments)
    return DECIDE if isinstance(row.error, LogError) else UNKNOWN


def _row(row: FleetRow) -> dict[str, object]:
    document = {"file": row.name, "ailments": _plain(row.ailments), "exit_code": _code(row)}
    if row.error is not None:
        return {**document, "error": row.error.to_dict()}
    return {**document, **(row.status.to_dict() if row.status else {})}


def _plain(ailments: tuple[Ailment, ...]) -> list[dict[str, object]]:
    return [asdict(each) for each in ailments]
