"""The commands of `ashore drill`.

What it promises: the exit code is 0 only if every drill that was run is green.
"""

import random
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

import ashore_lab  # noqa: F401 - where it is not installed, `load` names it
from ashore.cli.options import AsJson, Debug, new_group
from ashore.cli.output import reported_errors, say

drill = new_group("Drills: fault injection that tries to break exactly-once.")


@drill.command("list")
def drill_list(as_json: AsJson = False) -> None:
    """Show which drills there are, and what each shows."""
    from ashore.cli import drill_playing  # noqa: PLC0415 - loads Arrow, and what servers need

    drill_playing.show_list(as_json=as_json)


@drill.command("run")
def drill_run(  # noqa: PLR0913, PLR0917 - each parameter is an option of the command
    names: Annotated[list[str], typer.Argument(metavar="NAME", help="Drills, or `all`.")],
    seed: Annotated[
        int | None, typer.Option(help="Decides every fault. Default: a new one, which is shown.")
    ] = None,
    minutes: Annotated[
        float | None, typer.Option(min=0.1, help="Play the long form, in this many minutes.")
    ] = None,
    long: Annotated[
        bool, typer.Option("--long", help="Play the long form. Default: the short form.")
    ] = False,
    directory: Annotated[
        Path | None, typer.Option(help="Where pages go. Default: ~/.local/state/ashore/drills.")
    ] = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Run drills and report whether anything was lost or duplicated."""
    if not as_json:
        say(f"preparing {escape(', '.join(names))}")
    from ashore.cli import drill_playing  # noqa: PLC0415 - loads Arrow, and what servers need

    seed = random.SystemRandom().randrange(1_000_000) if seed is None else seed
    options = drill_playing.PlayOptions(seed, minutes, long, directory, as_json)
    with reported_errors(as_json=as_json, debug=debug):
        raise typer.Exit(drill_playing.play(names, options))
