"""The commands by which a person decides how a log continues: rejoin, skip, reset-clock, roll-back.

What it promises: with `--explain` nothing is changed; a roll-back deletes nothing.
"""

from typing import Annotated

import typer

from ashore.cli.options import AsJson, Debug, Explain, JobFile, TakeOver, Why
from ashore.cli.output import print_answer, reported_errors
from ashore.log.positions import ShardRange
from ashore.queries.state.rollback import RolledBack
from ashore.queries.tools.roll_back import apply as apply_rollback
from ashore.queries.tools.roll_back import choose_batch
from ashore.queries.tools.roll_back import plan as plan_rollback
from ashore.queries.tools.skip import apply, plan, wish_of
from ashore.queries.tools.stopped_query import find_query
from ashore.topics.open_job import open_job
from ashore.topics.use.reset_clock import apply as apply_reset
from ashore.topics.use.reset_clock import plan as plan_reset
from ashore.topics.use.take_over import rejoin_topic


def rejoin(
    job_file: JobFile,
    topic: Annotated[str, typer.Argument(help="The topic that was created again.")],
    take_over: TakeOver = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Continue with a topic that was deleted and created again, from its beginning."""
    with reported_errors(as_json=as_json, debug=debug), open_job(job_file) as opened:
        joined = rejoin_topic(opened, topic, takes_over=take_over)
        line = f"{topic}: {joined} partitions joined" if joined else f"{topic}: nothing to rejoin"
        print_answer([line], {"topic": topic, "partitions": joined}, as_json=as_json)


def skip(  # noqa: PLR0913, PLR0917 - each parameter is an option of the command
    job_file: JobFile,
    place: Annotated[
        str, typer.Argument(metavar="TOPIC/PARTITION", help="Where the gap is, such as clicks/3.")
    ],
    to: Annotated[
        int,
        typer.Option(
            min=0,
            help="The offset to continue with: the first that Kafka still has, or the first after "
            "what is too large.",
        ),
    ],
    why: Why,
    table: Annotated[
        str | None,
        typer.Option(help="The table or topic that a query fills, where its topic was cut."),
    ] = None,
    explain: Explain = False,
    take_over: TakeOver = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Skip offsets that Kafka no longer has or that exceed `limits`; the log keeps who and why."""
    with reported_errors(as_json=as_json, debug=debug), open_job(job_file) as opened:
        request = wish_of(opened, place, to, why, table)
        found = plan(opened, request) if explain else apply(opened, request, takes_over=take_over)
        offsets = [found.offsets.start, found.offsets.end] if found else None
        document = {"place": place, "skipped": offsets, "done": not explain}
        line = _sentence(place, found, is_done=not explain)
        print_answer([line], document, as_json=as_json)


def _sentence(place: str, found: ShardRange | None, *, is_done: bool) -> str:
    if found is None:
        return f"{place} continues there already: nothing to skip"
    verb = "skipped" if is_done else "would skip"
    return f"{verb} {found.offsets.size:,} offsets: {found}"


def reset_clock(
    job_file: JobFile,
    why: Why = "",
    explain: Explain = False,
    take_over: TakeOver = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Set back the times of a log whose clock was ahead. Rows stay where they are."""
    with reported_errors(as_json=as_json, debug=debug), open_job(job_file) as opened:
        found = plan_reset(opened) if explain else apply_reset(opened, why, takes_over=take_over)
        nothing = "no log of the job is ahead of this machine's clock: nothing to do"
        lines = [line for each in found for line in each.explain()] if found else [nothing]
        document = {"slices": [each.to_dict() for each in found], "done": not explain}
        print_answer(lines, document, as_json=as_json)


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
            went = plan_rollback(opened, query, batch)
        else:
            went = apply_rollback(opened, query, batch, why, takes_over=take_over)
        document = {
            "table": table,
            "from_batch": went.from_batch,
            "to_batch": went.to_batch,
            "files": went.files,
            "rows": went.rows,
            "done": not explain,
        }
        line = _rolled(table, went, is_done=not explain)
        print_answer([line], document, as_json=as_json)


def _rolled(table: str, went: RolledBack, *, is_done: bool) -> str:
    if went.from_batch == went.to_batch:
        return f"{table} is at batch {went.to_batch}: nothing to roll back"
    verb = "was" if is_done else "would be"
    return (
        f"{table} {verb} rolled back from batch {went.from_batch} to batch {went.to_batch}: "
        f"{went.rows:,} rows in {went.files:,} files {verb.replace('was', 'were')} moved aside; "
        "their offsets are read again"
    )
