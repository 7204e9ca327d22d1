"""The commands of `ashore migrate`.

What it promises: `check` reads only, and disturbs no running job. Its exit code is 0 where a start
with the new SQL uses the state as it is, 4 where it would stop for a decision.
What it must not know: how a verdict is found, what the other commands do.
"""

from pathlib import Path
from typing import Annotated

import typer

from ashore.cli.migrate_apply_command import migrate_apply
from ashore.cli.migrate_options import (
    Backfill,
    MappingFile,
    NewJobFile,
    OneQuery,
    Rename,
    read_edits,
)
from ashore.cli.migrate_undo_command import migrate_undo
from ashore.cli.options import AsJson, Debug, JobFile, new_group
from ashore.cli.output import STARTING_SPARK, CommandAnswer, print_answer, reported_errors, say
from ashore.errors import ExitCode
from ashore.topics.open_job import open_job


def migrate_check(  # noqa: PLR0913, PLR0917 - each parameter is an option of the command
    job_file: JobFile,
    to: NewJobFile,
    query: OneQuery = None,
    mapping: MappingFile = None,
    rename: Rename = None,
    backfill: Backfill = None,
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
        # The commands beside this one start no process.
        from ashore.queries.change.check import JudgeAsked, judge_change, require_same_job  # noqa: PLC0415
        from ashore.queries.change.insert_matches import read_renames  # noqa: PLC0415

        asked = JudgeAsked(
            read_edits(mapping), query, read_renames(rename or ()), fills=backfill is not None
        )
        with open_job(job_file) as opened:
            with open_job(to) as other:
                require_same_job(opened, other)
            if not as_json:
                say(STARTING_SPARK)
            from ashore.cli import migrate_view as view  # noqa: PLC0415 - once Spark starts
            from ashore.plans.change.verdicts import StateVerdict  # noqa: PLC0415
            from ashore.queries.change.process import MigrationProcess  # noqa: PLC0415

            with MigrationProcess(to, opened.job.job, debug=debug) as process:
                found = judge_change(opened, process.plan, asked).queries
        if written_to is not None:
            written_to.write_text(view.mapping_text(found), "utf-8")
        print_answer(view.judged_lines(found), view.judged_document(found), as_json=as_json)
    worst = max((each.verdict.verdict for each in found), key=lambda each: each.rank, default=None)
    if worst not in {None, StateVerdict.FULL}:
        raise CommandAnswer(ExitCode.DECISION, str(worst))


migrate = new_group("Change the SQL of a job and keep its state.")
migrate.command("check")(migrate_check)
migrate.command("apply")(migrate_apply)
migrate.command("undo")(migrate_undo)
