"""The command `ashore skip`.

What it promises: with `--explain` nothing is changed.
What it must not know: what may be given up.
"""

from typing import Annotated

import typer

from ashore.cli.options import AsJson, Debug, Explain, JobFile, TakeOver, Why
from ashore.cli.output import print_answer, reported_errors
from ashore.log.positions import ShardRange
from ashore.queries.tools.skip import apply, plan, wish_of
from ashore.topics.open_job import open_job


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
        asked = wish_of(opened, place, to, why, table)
        found = plan(opened, asked) if explain else apply(opened, asked, takes_over=take_over)
        offsets = [found.offsets.start, found.offsets.end] if found else None
        document = {"place": place, "skipped": offsets, "done": not explain}
        line = _sentence(place, found, is_done=not explain)
        print_answer([line], document, as_json=as_json)


def _sentence(place: str, found: ShardRange | None, *, is_done: bool) -> str:
    if found is None:
        return f"{place} continues there already: nothing to skip"
    verb = "skipped" if is_done else "would skip"
    return f"{verb} {found.offsets.size:,} offsets: {found}"
