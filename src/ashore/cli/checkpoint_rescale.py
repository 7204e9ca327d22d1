"""The command `ashore checkpoint rescale`.

What it promises: with `--explain` nothing is changed.
What it must not know: how state is rewritten.
"""

from typing import TYPE_CHECKING, Annotated

import typer

from ashore.base.clock import SystemClock
from ashore.base.units import format_duration
from ashore.cli.options import AsJson, Debug, Explain, Query, TakeOver, Where
from ashore.cli.output import print_answer, reported_errors, say
from ashore.log.progress import StateWork

if TYPE_CHECKING:  # the commands beside this one do not load events
    from ashore.jobs.events import StateStep
    from ashore.queries.tools.rescale_process import RescaleResult, Undo

_WORK = {
    StateWork.COUNT: "counting the rows",
    StateWork.WRITE: "rewriting the rows",
    StateWork.COMPARE: "comparing the rows",
}


def checkpoint_rescale(  # noqa: PLR0913, PLR0917 - each parameter is an option of the command
    where: Where,
    partitions: Annotated[
        int | None, typer.Option(min=1, help="How many partitions the state is to have.")
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            help="Where the new checkpoint goes: a directory that does not exist. Needed for a "
            "directory; a job continues with its new one by itself.",
        ),
    ] = None,
    query: Query = None,
    undo: Annotated[bool, typer.Option("--undo", help="Undo the last rescale of a job.")] = False,
    explain: Explain = False,
    take_over: TakeOver = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Give the state of a query another number of partitions. The original is only read."""
    with reported_errors(as_json=as_json, debug=debug):
        from ashore.queries.tools import rescale  # noqa: PLC0415 - loads what opens jobs

        if undo == (partitions is not None):
            raise typer.BadParameter("give either --partitions or --undo")
        asked = rescale.RescaleAsked(where, query, to, explain, take_over, debug)
        if partitions is None:
            went = rescale.undo(asked)
            counts = {"batch": went.batch, "from": went.from_partitions, "to": went.to_partitions}
            document = {**counts, "done": not explain}
            print_answer([_undone(went, is_done=not explain)], document, as_json=as_json)
            return
        found = rescale.rescale(asked, partitions, SystemClock(), _report)
        print_answer(_lines(found), found.to_dict(), as_json=as_json)


def _report(step: "StateStep") -> None:
    say(f"{_WORK[step.work]} of operator {step.operator}, {step.stores}")


def _lines(found: "RescaleResult") -> list[str]:
    change = f"from {found.from_partitions:,} to {found.to_partitions:,} partitions"
    if not found.is_done:
        return [f"{found.path}: the state of batch {found.batch} would be rescaled {change}"]
    took = format_duration(1000 * found.took_s)
    return [
        f"rescaled {change} in {took}: {found.rows:,} rows, compared store by store",
        f"{found.path} is at batch {found.batch}; the previous checkpoint is unchanged",
    ]


def _undone(went: "Undo", *, is_done: bool) -> str:
    verb = "has" if is_done else "would have"
    return (
        f"the query {verb} {went.to_partitions:,} partitions again instead of "
        f"{went.from_partitions:,}, at batch {went.batch}"
    )
