"""Playing drills: what `ashore drill` does once its arguments are read.

What it promises: Ctrl-C and SIGTERM leave no server, and show what has been found until then.
What it must not know: how a drill is played.
"""

import signal
from dataclasses import dataclass
from pathlib import Path

import typer

from ashore.base.clock import SystemClock
from ashore.cli import drill_view
from ashore.cli.output import print_json
from ashore.cli.signals import sigterm_does
from ashore.errors import ExitCode
from ashore_lab.drills import SCENARIOS, Drill, DrillOrder, Length, Verdict, run_drill
from ashore_lab.drills.report import DrillReport, logged, make_run_directory, write_report
from ashore_lab.drills.sites.servers import Servers

ALL = "all"


@dataclass(frozen=True, slots=True)
class PlayOptions:
    """What `ashore drill run` is asked for, beside the names."""

    seed: int
    minutes: float | None
    is_long: bool
    directory: Path | None
    as_json: bool


def show_list(*, as_json: bool) -> None:
    """Show which drills there are."""
    drill_view.show_drills(SCENARIOS, as_json=as_json)


def play(names: list[str], asked: PlayOptions) -> int:
    """Play drills, show their verdicts, and return the exit code. Raises BadParameter."""
    drills = _find(names)
    verdicts: list[Verdict] = []
    try:
        # SIGTERM ends a drill as Ctrl-C does, so that no server is left.
        with sigterm_does(signal.default_int_handler):
            for each in drills:
                length = _length(each, asked.minutes, is_long=asked.is_long)
                order = DrillOrder(each, asked.seed, length)
                verdict, report = _run(order, asked.directory, quiet=asked.as_json)
                verdicts.append(verdict)
                if not asked.as_json:
                    drill_view.show_verdict(verdict, report)
    finally:  # who ends it after hours wants to see what there is
        if not asked.as_json and len(verdicts) > 1:
            drill_view.show_summary(verdicts)
    if asked.as_json:
        found = [verdict.to_dict() for verdict in verdicts]
        print_json(found[0] if len(found) == 1 else {"drills": found})
    # Wrong is worse than not proved.
    codes = {verdict.exit_code for verdict in verdicts}
    return next((code for code in (ExitCode.WRONG, ExitCode.UNPROVEN) if code in codes), 0)


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
