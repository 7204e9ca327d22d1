"""The commands of `ashore migrate`.

What it promises: `check` reads only, and disturbs no running job. Its exit code is 0 where a start
with the new SQL uses the state as it is, 4 where it would stop for a decision. With `--explain`
nothing is changed; `apply` loses state only where the user agrees, and `undo` deletes nothing.
"""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ashore.cli.options import AsJson, Debug, Explain, JobFile, TakeOver, Why, new_group
from ashore.cli.output import (
    STARTING_SPARK,
    CommandAnswer,
    print_answer,
    print_lines,
    reported_errors,
    say,
    shown_progress,
)
from ashore.errors import ExitCode
from ashore.jobs.file.mapping import load_mapping
from ashore.plans.matching import MappingEdits
from ashore.topics.open_job import open_job

if TYPE_CHECKING:  # the commands beside this one do not load the log
    from ashore.queries.state.migration import UndonePlan


NewJobFile = Annotated[
    Path,
    typer.Option("--to", metavar="NEW.yaml", help="The job file with the new SQL.", exists=True),
]
OneQuery = Annotated[
    str | None, typer.Option(metavar="TABLE", help="Only the query that fills this table or topic.")
]
MappingFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Which operator is which: pins and forbids pairs. By default what was given at an "
        "earlier `migrate apply` of this change holds.",
    ),
]
Rename = Annotated[
    list[str] | None,
    typer.Option(
        metavar="TABLE=TABLE",
        help="`ods.a=ods.b`: the INSERT into ods.a continues as the one into ods.b, with its "
        "state; `ods.a=` drops it. By default an INSERT continues as the one that has the same "
        "query.",
    ),
]


Backfill = Annotated[
    Literal["topic"] | None,
    typer.Option(
        help="Fill new functions for the groups that are there, and new aggregates, from a replay: "
        "`topic` reads the topics of the query again, up to its last batch. By default they begin "
        "empty."
    ),
]


def read_edits(path: Path | None) -> MappingEdits | None:
    """Return what a mapping file says; None without one. Raises JobFileInvalid."""
    if path is None:
        return None
    read = load_mapping(path)
    pinned, forbidden = (
        tuple((each.old, each.new) for each in some) for some in (read.pin, read.forbid)
    )
    return MappingEdits(pinned, forbidden)


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
    """Show whether new SQL keeps, rewrites or loses each state. Nothing is stopped or written."""
    with reported_errors(as_json=as_json, debug=debug):
        # The commands beside this one start no process.
        from ashore.queries.change.check import (  # noqa: PLC0415
            JudgeOptions,
            judge_change,
            read_renames,
            require_same_job,
        )

        renames = read_renames(rename or ())
        request = JudgeOptions(read_edits(mapping), query, renames, fills=backfill is not None)
        with open_job(job_file) as opened:
            with open_job(to) as other:
                require_same_job(opened, other)
            if not as_json:
                say(STARTING_SPARK)
            from ashore.cli import migrate_view as view  # noqa: PLC0415 - once Spark starts
            from ashore.plans.change.verdicts import StateVerdict  # noqa: PLC0415
            from ashore.queries.tools.state_process import MigrationProcess  # noqa: PLC0415

            with MigrationProcess(to, opened.job.job, debug=debug) as process:
                found = judge_change(opened, process.plan, request).queries
        if written_to is not None:
            written_to.write_text(view.mapping_text(found), "utf-8")
        print_answer(view.judged_lines(found), view.judged_document(found), as_json=as_json)
    worst = max((each.verdict.verdict for each in found), key=lambda each: each.rank, default=None)
    if worst not in {None, StateVerdict.FULL}:
        raise CommandAnswer(ExitCode.DECISION, str(worst))
    if view.find_worst_change(found) is not None:
        raise CommandAnswer(ExitCode.DECISION, "table")


Accept = Annotated[
    Literal["convert", "partial", "lost"],
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
    accept: Accept = "convert",
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
        from ashore.queries.change import check  # noqa: PLC0415

        renames = check.read_renames(rename or ())
        compared = check.JudgeOptions(
            read_edits(mapping), query, renames, fills=backfill is not None
        )
        with open_job(job_file) as opened, open_job(to) as other:
            check.require_same_job(opened, other)
            if not as_json:
                say(STARTING_SPARK)
            from ashore.cli import migrate_view as view  # noqa: PLC0415 - once Spark starts
            from ashore.queries.change import apply, plan  # noqa: PLC0415
            from ashore.queries.tools.state_process import MigrationProcess  # noqa: PLC0415

            request = plan.ApplyOptions(accept, tuple(begin or ()), why, partitions)
            plan.require_partitions_free(other, request)
            with MigrationProcess(to, opened.job.job, debug=debug) as process:
                judged = check.judge_change(opened, process.plan, compared)
                if not as_json:
                    print_lines(view.judged_lines(judged.queries))
                planned = plan.plan_change(opened, other, judged, request)
                shown = view.ShownMigration(job_file, judged.queries, planned)
                if not as_json:
                    print_lines(shown.planned_lines())
                if not planned.is_empty and not explain:
                    with shown_progress(quiet=as_json) as progress:
                        steps = view.ShownSteps((lambda _: None) if as_json else say, progress)
                        migrator = apply.Migrator(
                            opened=opened,
                            other=other,
                            savepoints=savepoints,
                            takes_over=take_over,
                            rewrite=process.rewrite,
                            advance=partial(progress, "copying the savepoint"),
                            report=steps.show,
                        )
                        shown.applied = apply.apply_change(planned, migrator)
        print_answer(shown.applied_lines(to), shown.document(), as_json=as_json)


def migrate_undo(  # noqa: PLR0913, PLR0917 - each parameter is an option of the command
    job_file: JobFile,
    query: Annotated[
        str | None, typer.Option(metavar="TABLE", help="The query that fills this table or topic.")
    ] = None,
    output: Annotated[
        Literal["roll-back"] | None,
        typer.Option(
            help="How to treat the output landed since: `roll-back` moves its files aside, and the "
            "SQL from before reads its offsets again."
        ),
    ] = None,
    why: Why = "ashore migrate undo",
    explain: Explain = False,
    take_over: TakeOver = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Return to the SQL, the state and the offsets from before the last migration of a query."""
    with reported_errors(as_json=as_json, debug=debug):
        from ashore.queries.change import undo  # noqa: PLC0415 - loads the log

        with open_job(job_file) as opened:
            found = undo.find_migrated(opened, query)
            rolls_back = output is not None
            if explain:
                undone = undo.plan_undo(opened, found, rolls_back=rolls_back)
            else:
                request = undo.UndoOptions(why, rolls_back, take_over)
                with shown_progress(quiet=as_json) as progress:
                    undone = undo.undo(opened, found, request, partial(progress, "copying"))
        document = {
            "query": found.fills,
            "batch": undone.rolled.to_batch,
            "from_batch": undone.rolled.from_batch,
            "files": undone.rolled.files,
            "rows": undone.rolled.rows,
            "savepoint": undone.migration.savepoint,
            "done": not explain,
        }
        print_answer(_lines(found.fills, undone, is_done=not explain), document, as_json=as_json)


def _lines(query: str, undone: "UndonePlan", *, is_done: bool) -> list[str]:
    rolled = undone.rolled
    batches = rolled.from_batch - rolled.to_batch
    verb = "has" if is_done else "would have"
    lines = [f"{query} {verb} the SQL and the state of batch {rolled.to_batch} again"]
    if batches:
        moved = "were" if is_done else "would be"
        lines.append(
            f"{rolled.rows:,} rows in {rolled.files:,} files of the {batches:,} batches since "
            f"{moved} moved aside; their offsets are read again"
        )
    else:
        lines.append("nothing was landed since the migration")
    if is_done:
        lines.append("next: `ashore run` with the job file from before the migration")
    return lines


migrate = new_group("Change the SQL of a job and keep its state.")
migrate.command("check")(migrate_check)
migrate.command("apply")(migrate_apply)
migrate.command("undo")(migrate_undo)
