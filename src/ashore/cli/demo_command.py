"""The command `ashore demo`.

What it must not know: how the demonstration goes.
"""

import signal
from pathlib import Path
from typing import Annotated

import typer

from ashore.cli import demo_view
from ashore.cli.options import AsJsonLines, Debug
from ashore.cli.output import reported_errors
from ashore.cli.signals import sigterm_does
from ashore_lab.demo import Demo


def demo(
    records: Annotated[int, typer.Option(min=1, help="Records to produce.")] = 1_200_000,
    directory: Annotated[
        Path | None, typer.Option(help="The working directory; kept afterwards.")
    ] = None,
    as_json: AsJsonLines = False,
    debug: Debug = False,
) -> None:
    """Land two topics, kill the job, restart it, prove that nothing is lost or duplicated."""
    reporting = reported_errors(as_json=as_json, debug=debug, in_lines=True)
    with reporting, sigterm_does(signal.default_int_handler):
        raise typer.Exit(demo_view.show_demo(Demo(directory, records), as_json=as_json))
