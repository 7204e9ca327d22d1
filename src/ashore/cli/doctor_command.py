"""The command `ashore doctor`.

What it promises: without `--apply` nothing is changed. The exit code is 4 where something is left
for a person to decide.
What it must not know: how a diagnosis comes about.
"""

from typing import Annotated

import typer

from ashore.cli import doctor_view
from ashore.cli.options import AsJson, Debug, JobFile
from ashore.cli.output import reported_errors
from ashore.control.doctor import Diagnosis, Done, FormerAt, diagnose, treat
from ashore.control.jobs import open_job
from ashore.errors import AshoreError

_SPARK_HELP = (
    "Go on where a query with Spark's file sink stopped: its checkpoint directory, a path or an "
    "address. Its output directory is the table of the job file."
)
_CONNECT_HELP = (
    "Go on where a file sink of Kafka Connect stopped: the table (database.table of the job file) "
    "that holds its files, topic+partition+first+last.extension."
)

_FILES_HELP = (
    "Go on where the job's own log was lost, or its end: files that are whole are listed in new "
    "entries; those that would make records stand twice are moved aside."
)

_MISSING_HELP = (
    "With --from-files: land again what no file holds, although partitions may have been retired."
)


def doctor(  # noqa: PLR0913, PLR0917 - each parameter is an option of the command
    job_file: JobFile,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show what would be done, do nothing. The default.")
    ] = False,
    apply: Annotated[bool, typer.Option("--apply", help="Do it.")] = False,
    from_spark: Annotated[
        str | None, typer.Option("--from-spark", metavar="CHECKPOINT_DIR", help=_SPARK_HELP)
    ] = None,
    from_connect: Annotated[
        str | None, typer.Option("--from-connect", metavar="TABLE", help=_CONNECT_HELP)
    ] = None,
    from_files: Annotated[bool, typer.Option("--from-files", help=_FILES_HELP)] = False,
    land_missing: Annotated[bool, typer.Option("--land-missing", help=_MISSING_HELP)] = False,
    take_over: Annotated[
        bool, typer.Option("--take-over", help="With --apply: do it although somebody writes.")
    ] = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Repair what can be repaired without guessing; report what cannot, and exit with 4."""
    if explain and apply:
        raise typer.BadParameter("--explain and --apply exclude each other")
    if (from_spark is not None) + (from_connect is not None) + from_files > 1:
        raise typer.BadParameter("--from-spark, --from-connect and --from-files exclude each other")
    if land_missing and not from_files:
        raise typer.BadParameter("--land-missing goes with --from-files")
    at = FormerAt(from_spark, from_connect, from_files, land_missing)
    with reported_errors(as_json=as_json, debug=debug), open_job(job_file) as opened:
        found, done = Diagnosis((), (), ()), list[Done]()
        try:
            if apply:
                found = treat(opened, at, done.append, takes_over=take_over)
            else:
                found = diagnose(opened, at)
        except AshoreError as error:  # how to undo what was done must not get lost
            error.fields["done"] = doctor_view.done_to_list(done)
            if not as_json:
                doctor_view.show_done(done)
            raise
        doctor_view.show(found, done, applies=apply, as_json=as_json)
        raise typer.Exit(doctor_view.exit_code(found))
