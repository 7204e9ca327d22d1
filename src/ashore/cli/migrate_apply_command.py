"""The command `ashore migrate apply`.

What it promises: with `--explain` nothing is changed. What loses state needs a word of the user.
What it must not know: how state is rewritten.
"""

from enum import StrEnum
from typing import Annotated

import typer

from ashore.cli.migrate_options import (
    Backfill,
    MappingFile,
    NewJobFile,
    OneQuery,
    Rename,
    read_edits,
)
from ashore.cli.options import AsJson, Debug, Explain, JobFile, TakeOver, Why
from ashore.cli.output import (
    STARTING_SPARK,
    print_answer,
    print_lines,
    reported_errors,
    say,
    shown_progress,
)
from ashore.topics.open_job import open_job


class Accepted(StrEnum):
    """What a user agrees to lose."""

    CONVERT = "convert"
    PARTIAL = "partial"
    LOST = "lost"


Accept = Annotated[
    Accepted,
    typer.Option(
        help="The worst verdict to accept: `convert` loses nothing, `partial` lets parts of "
        "the state start empty, `lost` drops parts of it."
    ),
]
Begin = Annotated[
    list[str] | None,
    typer.Option(
        metavar="BEGIN",
        help="Where a topic begins that the query has never read, or that a new INSERT reads: "
        "`clicks=latest`, `clicks=earliest`, which is the default, or `clicks/0=1200` for one "
        "partition.",
    ),
]
Savepoints = Annotated[
    str | None,
    typer.Option(
        metavar="DIR",
        help="Where the savepoint of the old state goes. By default beside the job's logs.",
    ),
]
Partitions = Annotated[
    int | None,
    typer.Option(
        metavar="NUMBER",
        help="How many partitions each state that is rewritten is to have. By default as many as "
        "it has.",
    ),
]


def migrate_apply(  # noqa: PLR0913, PLR0917 - each parameter is an option of the command
    job_file: JobFile,
    to: NewJobFile,
    query: OneQuery = None,
    mapping: MappingFile = None,
    rename: Rename = None,
    backfill: Backfill = None,
    accept: Accept = Accepted.CONVERT,
    begin: Begin = None,
    partitions: Partitions = None,
    savepoints: Savepoints = None,
    why: Why = "ashore migrate apply",
    explain: Explain = False,
    take_over: TakeOver = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Rewrite the state of a stopped job for new SQL. The checkpoint from before is only read."""
    with reported_errors(as_json=as_json, debug=debug):
        # The commands beside this one start no process.
        from ashore.queries.change.check import JudgeAsked, require_same_job  # noqa: PLC0415
        from ashore.queries.change.insert_matches import read_renames  # noqa: PLC0415

        compared = JudgeAsked(
            read_edits(mapping), query, read_renames(rename or ()), fills=backfill is not None
        )
        with open_job(job_file) as opened, open_job(to) as other:
            require_same_job(opened, other)
            if not as_json:
                say(STARTING_SPARK)
            from ashore.cli import migrate_apply_view as view  # noqa: PLC0415 - once Spark starts
            from ashore.queries.change import apply  # noqa: PLC0415
            from ashore.queries.change.check import judge_change  # noqa: PLC0415
            from ashore.queries.change.process import MigrationProcess  # noqa: PLC0415

            asked = apply.ApplyAsked(accept.value, tuple(begin or ()), why, partitions)
            apply.require_partitions_free(other, asked)
            with MigrationProcess(to, opened.job.job, debug=debug) as process:
                judged = judge_change(opened, process.plan, compared)
                shown = view.ShownMigration(job_file, judged.queries)
                if not as_json:
                    print_lines(shown.judged_lines())
                shown.planned = apply.plan_change(opened, other, judged, asked)
                if not as_json:
                    print_lines(shown.planned_lines())
                if not shown.planned.is_empty and not explain:
                    with shown_progress(quiet=as_json) as progress:
                        migrator = apply.Migrator(
                            other,
                            savepoints,
                            take_over,
                            process.rewrite,
                            lambda done, total: progress("copying the savepoint", done, total),
                            view.ShownSteps((lambda _: None) if as_json else say, progress).show,
                        )
                        shown.applied = apply.apply_change(opened, shown.planned, migrator)
        print_answer(shown.applied_lines(to), shown.document(), as_json=as_json)
