"""The command `ashore roll-back`.

What it promises: with `--explain` nothing is changed; without it nothing is deleted.
"""

from typing import Annotated

import typer

from ashore.cli.options import AsJson, Debug, Explain, JobFile, TakeOver, Why
from ashore.cli.output import print_answer, reported_errors
from ashore.queries.state.rollback import RolledBack
from ashore.queries.tools.rollback import apply, choose_batch, find_query, plan
from ashore.topics.open_job import open_job


def roll_back(  # noqa: PLR0913, PLR0917 - each parameter is an option of the command
    job_file: JobFile,
    table: Annotated[str, typer.Argument(help="The table that an INSERT of the job fills.")],
    to_batch: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="The batch that stays the last one. By default the last one that the checkpoint "
            "has finished: where an older checkpoint was restored, the table follows it.",
        ),
    ] = None,
    why: Why = "ashore roll-back",
    explain: Explain = False,
    take_over: TakeOver = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Roll a query back to an earlier batch: its checkpoint and its table. Files are kept."""
    with reported_errors(as_json=as_json, debug=debug), open_job(job_file) as opened:
        query = find_query(opened, table)
        batch = choose_batch(query, to_batch)
        if explain:
            went = plan(opened, query, batch)
        else:
            went = apply(opened, query, batch, why, takes_over=take_over)
        document = {
            "table": table,
            "from_batch": went.from_batch,
            "to_batch": went.to_batch,
            "files": went.files,
            "rows": went.rows,
            "done": not explain,
        }
        line = _sentence(table, went, is_done=not explain)
        print_answer([line], document, as_json=as_json)


def _sentence(table: str, went: RolledBack, *, is_done: bool) -> str:
    if went.from_batch == went.to_batch:
        return f"{table} is at batch {went.to_batch}: nothing to roll back"
    verb = "was" if is_done else "would be"
    return (
        f"{table} {verb} rolled back from batch {went.from_batch} to batch {went.to_batch}: "
        f"{went.rows:,} rows in {went.files:,} files {verb.replace('was', 'were')} moved aside; "
        "their offsets are read again"
    )
