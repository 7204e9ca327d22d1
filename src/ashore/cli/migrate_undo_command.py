"""The command `ashore migrate undo`.

What it promises: with `--explain` nothing is changed; nothing is deleted.
What it must not know: how a migration is taken back.
"""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from ashore.cli.options import AsJson, Debug, Explain, JobFile, TakeOver, Why
from ashore.cli.output import print_answer, reported_errors, shown_progress

if TYPE_CHECKING:  # the commands beside this one do not load the log
    from ashore.queries.state.migration import UndonePlan


class LandedOutput(StrEnum):
    """What becomes of what the new SQL has landed."""

    ROLL_BACK = "roll-back"


def migrate_undo(  # noqa: PLR0913, PLR0917 - each parameter is an option of the command
    job_file: JobFile,
    query: Annotated[
        str | None,
        typer.Option(metavar="TABLE", help="The query that fills this table or topic."),
    ] = None,
    output: Annotated[
        LandedOutput | None,
        typer.Option(
            help="What becomes of the output that was landed since: its files are moved aside, "
            "and its offsets are read again by the SQL from before."
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
        from ashore.topics.open_job import open_job  # noqa: PLC0415

        with open_job(job_file) as opened:
            found = undo.find_migrated(opened, query)
            rolls_back = output is LandedOutput.ROLL_BACK
            if explain:
                undone = undo.plan_undo(opened, found, rolls_back=rolls_back)
            else:
                asked = undo.UndoAsked(why, rolls_back, take_over)
                with shown_progress(quiet=as_json) as progress:
                    undone = undo.undo(
                        opened, found, asked, lambda done, total: progress("copying", done, total)
                    )
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
