"""The commands of `ashore migrate`.

What it promises: `check` reads only; a running job is not disturbed. Exit code 0: a start with the
new SQL uses the state as it is; 4: it would stop for a decision.
What it must not know: how a verdict is found.
"""

from pathlib import Path
from typing import Annotated

import typer

from ashore.cli.migrate_view import judged_document, judged_lines, mapping_text
from ashore.cli.options import AsJson, Debug, JobFile
from ashore.cli.output import STARTING_SPARK, print_answer, reported_errors, say
from ashore.config.mapping import load_mapping
from ashore.control.jobs import open_job
from ashore.control.migration import (
    judge_job,
    look_at_replays,
    measure_losses,
    plan_job,
    require_same_job,
)
from ashore.control.outlines import copied_outlines
from ashore.migration.verdicts import StateVerdict
from ashore.plans.matching import NO_EDITS, MappingEdits

STOPPED = 4

migrate = typer.Typer(
    help="Change the SQL of a job and keep its state.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@migrate.callback()
def _group() -> None:
    """Make it a group, also with one command."""


@migrate.command("check")
def migrate_check(  # noqa: PLR0913, PLR0917 - each parameter is an option of the command
    job_file: JobFile,
    to: Annotated[
        Path, typer.Option(metavar="NEW.yaml", help="The job file with the new SQL.", exists=True)
    ],
    query: Annotated[
        str | None,
        typer.Option(metavar="TABLE", help="Only the query that fills this table or topic."),
    ] = None,
    mapping: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Which operator is which: pins and forbids pairs."),
    ] = None,
    written_to: Annotated[
        Path | None,
        typer.Option(
            "--write-mapping", metavar="FILE", help="Write the pairs that were found, to edit them."
        ),
    ] = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Say what becomes of the state of each operator and column. Nothing is stopped or written."""
    with reported_errors(as_json=as_json, debug=debug):
        edits = _read_edits(mapping)
        with open_job(job_file) as opened:
            with open_job(to) as other:
                require_same_job(opened, other)
                name = other.job.job
            if not as_json:
                say(STARTING_SPARK)
            with copied_outlines(opened, query) as outlines:
                planned = plan_job(to, name, outlines, debug=debug)
            judged = judge_job(opened, planned, edits, query)
            found = measure_losses(opened, look_at_replays(opened, judged, planned))
        if written_to is not None:
            written_to.write_text(mapping_text(found), "utf-8")
        print_answer(judged_lines(found), judged_document(found), as_json=as_json)
    if any(each.verdict.verdict is not StateVerdict.FULL for each in found):
        raise typer.Exit(STOPPED)


def _read_edits(path: Path | None) -> MappingEdits:
    if path is None:
        return NO_EDITS
    read = load_mapping(path)
    pinned, forbidden = (
        tuple((each.old, each.new) for each in some) for some in (read.pin, read.forbid)
    )
    return MappingEdits(pinned, forbidden)
