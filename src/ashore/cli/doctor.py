"""The command `ashore doctor`.

What it promises: without `--apply` nothing is changed. The exit code is 4 where something is left
for a person to decide.
"""

from typing import Annotated

import typer
from rich.markup import escape

from ashore.cli.options import AsJson, Debug, JobFile
from ashore.cli.output import CommandAnswer, reported_errors, say
from ashore.topics.open_job import open_job

_SPARK_HELP = (
    "Continue where a query with Spark's file sink stopped: its checkpoint directory, a path or an "
    "address. Its output directory is the table of the job file."
)
_CONNECT_HELP = (
    "Continue where a sink stopped, in this table (database.table of the job file): a file sink of "
    "Kafka Connect with files topic+partition+first+last.extension; in an Iceberg table, Iceberg's "
    "sink for Kafka Connect; in a Delta table, kafka-delta-ingest."
)

_FILES_HELP = (
    "Continue where the job's own log, or its end, was lost: complete files are listed in new "
    "entries; files that would duplicate records are moved aside."
)

_MISSING_HELP = (
    "With --from-files: land again what is in no file, although partitions may have been retired."
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
        bool,
        typer.Option("--take-over", help="With --apply: do it although another process writes."),
    ] = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Repair what can be repaired without guessing; report what cannot, and exit with 4."""
    if explain and apply:
        raise typer.BadParameter("--explain and --apply are mutually exclusive")
    if (from_spark is not None) + (from_connect is not None) + from_files > 1:
        raise typer.BadParameter(
            "--from-spark, --from-connect and --from-files are mutually exclusive"
        )
    if land_missing and not from_files:
        raise typer.BadParameter("--land-missing requires --from-files")
    with reported_errors(as_json=as_json, debug=debug), open_job(job_file) as opened:
        if not as_json:
            say(f"reading log, tables and topics of job {escape(opened.job.job)}")
        from ashore.cli import doctor_view  # noqa: PLC0415 - loads Arrow
        from ashore.proof.doctor.observe import FormerAt  # noqa: PLC0415 - as above

        at = FormerAt(from_spark, from_connect, from_files, land_missing)
        code = doctor_view.show_treatment(
            opened, at, applies=apply, takes_over=take_over, as_json=as_json
        )
        raise CommandAnswer(code, "needs decision" if code else "ok")
