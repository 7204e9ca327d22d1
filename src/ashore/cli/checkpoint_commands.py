"""The commands of `ashore checkpoint`.

What it promises: no JVM is started.
What it must not know: what is in a checkpoint.
"""

from typing import Annotated

import typer

from ashore.base.clock import SystemClock
from ashore.cli import checkpoint_view
from ashore.cli.options import AsJson, Debug, new_group
from ashore.cli.output import print_json, reported_errors
from ashore.control.checkpoints.inspect import inspect

checkpoint = new_group("Checkpoints of queries: look into them, copy them, put them back.")


@checkpoint.callback()
def _group() -> None:
    pass


Where = Annotated[
    str,
    typer.Argument(
        metavar="WHERE",
        help="A job file, or the directory of any checkpoint of Spark: a path or hdfs://...",
    ),
]
Query = Annotated[
    str | None,
    typer.Option(help="Of a job file with several queries: the table or topic that one fills."),
]
Batch = Annotated[int | None, typer.Option(min=0, help="A finished batch. By default the newest.")]


@checkpoint.command("inspect")
def checkpoint_inspect(
    where: Where,
    query: Query = None,
    batch: Batch = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Show offsets, watermark, operators, state by partition, and files of a checkpoint."""
    with reported_errors(as_json=as_json, debug=debug):
        found = inspect(where, query, batch, SystemClock())
        if as_json:
            print_json(checkpoint_view.inspection_document(found))
        else:
            checkpoint_view.show_inspection(found)
