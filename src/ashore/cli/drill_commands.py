"""The commands of `ashore drill`.

What it promises: the exit code is 0 only if every drill that was run is green.
What it must not know: how a drill is played.
"""

import random
import signal
from pathlib import Path
from typing import Annotated

import typer

from ashore.base.clock import SystemClock
from ashore.cli import drill_view
from ashore.cli.options import AsJson, Debug, new_group
from ashore.cli.output import print_json, reported_errors
from ashore.cli.signals import sigterm_does
from ashore.drills import SCENARIOS, Drill, DrillOrder, Length, Verdict, run_drill
from ashore.drills.report import DrillReport, logged, make_run_directory, write_report
from ashore.drills.sites.servers import Servers

ALL = "all"

drill = new_group("Drills: what tries to break exactly-once.")


@drill.command("list")
def drill_list(as_json: AsJson = False) -> None:
    """Show which drills there are, and what each shows."""
    drill_view.show_drills(SCENARIOS, as_json=as_json)


@drill.command("run")
def drill_run(  # noqa: PLR0913, PLR0917 - each parameter is an option of the command
    names: Annotated[list[str], typer.Argument(metavar="NAME", help="Drills, or `all`.")],
    seed: Annotated[
        int | None, typer.Option(help="Decides every fault. Default: a new one, which is shown.")
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option(min=0.1, help="At length, cut to so many minutes or made longer."),
    ] = None,
    long: Annotated[
        bool, typer.Option("--long", help="At length. Default: the short form.")
    ] = False,
    directory: Annotated[
        Path | None, typer.Option(help="Where pages go. Default: ~/.local/state/ashore/drills.")
    ] = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Play drills and say whether anything was lost or doubled."""
    drills = _find(names)
    seed = random.SystemRandom().randrange(1_000_000) if seed is None else seed
    verdicts: list[Verdict] = []
    try:
        # SIGTERM ends a drill as Ctrl-C does, so that no server is left.
        with (
            reported_errors(as_json=as_json, debug=debug),
            sigterm_does(signal.default_int_handler),
        ):
            for each in drills:
                order = DrillOrder(each, seed, _length(each, minutes, is_long=long))
                verdict, report = _run(order, directory, quiet=as_json)
                verdicts.append(verdict)
                if not as_json:
                    drill_view.show_verdict(verdict, report)
    finally:  # who ends it after hours wants to see what there is
        if not as_json and len(verdicts) > 1:
            drill_view.show_summary(verdicts)
    if as_json:
        found = [verdict.to_dict() for verdict in verdicts]
        print_json(found[0] if len(found) == 1 else {"drills": found})
    # Wrong is worse than not proved.
    codes = {verdict.exit_code for verdict in verdicts}
    raise typer.Exit(next((code for code in (5, 6) if code in codes), 0))


def _run(order: DrillOrder, directory: Path | None, *, quiet: bool) -> tuple[Verdict, DrillReport]:
    """Play one drill in a directory of its own, and write down what came of it."""
    home = make_run_directory(order.drill.name, SystemClock().now_ms(), directory)
    title = f"{order.drill.name}, seed {order.seed}: {order.length.text}"
    with logged(home), Servers(home) as servers, drill_view.shown(title, quiet=quiet) as view:
        if order.length.is_real:
            servers.start(order.drill.needs, has_spark=order.length.has_spark)
        verdict = run_drill(order, view.take, servers.site)
    return verdict, write_report(verdict, home)


def _find(names: list[str]) -> list[Drill]:
    """Return the drills of these names. Raises BadParameter."""
    known = {each.name: each for each in SCENARIOS}
    unknown = [name for name in names if name not in known and name != ALL]
    if unknown:
        raise typer.BadParameter(f"no drill {unknown[0]}; known: {', '.join(known)}, {ALL}")
    return list(known.values()) if ALL in names else [known[name] for name in names]


def _length(drill: Drill, minutes: float | None, *, is_long: bool) -> Length:
    if minutes is not None:
        return drill.long.for_minutes(minutes)
    return drill.long.at_length() if is_long else drill.short
