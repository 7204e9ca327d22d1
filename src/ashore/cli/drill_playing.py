"""Playing drills: what `ashore drill` does and shows once its arguments are read.

What it promises: Ctrl-C and SIGTERM leave no server, and show what has been found until then. With
`--json` stdout is one document, the verdict or a list of them.
"""

import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from ashore.base.clock import SystemClock
from ashore.base.units import format_duration
from ashore.cli.output import out, print_json, print_table, say, talk
from ashore.cli.signals import sigterm_does
from ashore.errors import worst_code
from ashore_lab.drills import SCENARIOS, Drill, DrillOrder, Length, Verdict, run_drill
from ashore_lab.drills.recorder import Snapshot
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
    show_drills(SCENARIOS, as_json=as_json)


def play(names: list[str], options: PlayOptions) -> int:
    """Play drills, show their verdicts, and return the exit code. Raises BadParameter."""
    drills = _find(names)
    verdicts: list[Verdict] = []
    try:
        # SIGTERM ends a drill as Ctrl-C does, so that no server is left.
        with sigterm_does(signal.default_int_handler):
            for each in drills:
                length = _length(each, options.minutes, is_long=options.is_long)
                order = DrillOrder(each, options.seed, length)
                verdict, report = _run(order, options.directory, quiet=options.as_json)
                verdicts.append(verdict)
                if not options.as_json:
                    show_verdict(verdict, report)
    finally:  # after an interruption the results so far are shown
        if not options.as_json and len(verdicts) > 1:
            show_summary(verdicts)
    if options.as_json:
        found = [verdict.to_dict() for verdict in verdicts]
        print_json(found[0] if len(found) == 1 else {"drills": found})
    return worst_code(verdict.exit_code for verdict in verdicts)


def _run(order: DrillOrder, directory: Path | None, *, quiet: bool) -> tuple[Verdict, DrillReport]:
    """Play one drill in a directory of its own, and write down what came of it."""
    home = make_run_directory(order.drill.name, SystemClock().now_ms(), directory)
    title = f"{order.drill.name}, seed {order.seed}: {order.length.text}"
    with logged(home), Servers(home) as servers, shown_drill(title, quiet=quiet) as view:
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


LINE_EVERY_S = 5.0  # where there is no terminal


def show_drills(drills: Sequence[Drill], *, as_json: bool) -> None:
    """Print the drills that there are."""
    if as_json:
        print_json({"drills": [_describe(drill) for drill in drills]})
        return
    columns = dict.fromkeys(("drill", "shows", "short form", "at length"), "left")
    rows = [[each.name, each.shows, each.short.text, each.long.text] for each in drills]
    print_table("", columns, rows)


def _describe(drill: Drill) -> dict[str, object]:
    lengths = {
        name: {"text": length.text, "is_real": length.is_real, "rounds": length.rounds}
        for name, length in (("short", drill.short), ("long", drill.long))
    }
    return {"name": drill.name, "title": drill.title, "shows": drill.shows, **lengths}


@dataclass
class LiveDrill:
    """Keeps the last report of the drill. Any thread may report."""

    title: str
    snapshot: Snapshot | None = None
    reported_s: float = 0.0
    reported: str = ""

    def take(self, snapshot: Snapshot) -> None:
        """Take in how far the drill is."""
        self.snapshot = snapshot
        now_s, line = time.monotonic(), self._line(snapshot)
        if (
            not talk.is_terminal
            and now_s - self.reported_s >= LINE_EVERY_S
            and line != self.reported
        ):
            self.reported_s, self.reported = now_s, line
            say(escape(line))

    def render(self) -> RenderableType:
        """Return what a terminal shows now."""
        found = self.snapshot
        if found is None:
            return Text(f"{self.title}: starting")
        table = Table(title=self.title, title_justify="left", header_style="bold")
        cells = {
            "time": format_duration(1000 * found.at_s),
            "produced": f"{found.produced:,}",
            "landed": f"{found.landed:,}",
            "lag": f"{found.lag:,}",
            "faults": f"{found.faults:,}",
            "restarts": f"{found.restarts:,}",
        }
        for name in cells:
            table.add_column(name, justify="right")
        table.add_row(*cells.values())
        last = found.last
        return Group(table, Text(f"{last.kind}: {last.text}" if last else "", style="dim"))

    def _line(self, found: Snapshot) -> str:
        what = f"; {found.last.kind}: {found.last.text}" if found.last else ""
        return f"{found.landed:,} of {found.produced:,} landed, {found.faults} faults{what}"


@contextmanager
def shown_drill(title: str, *, quiet: bool) -> Iterator[LiveDrill]:
    """Show a drill while inside: live on a terminal, a line now and then elsewhere."""
    view = LiveDrill(title)
    if quiet:
        view.reported_s = float("inf")
        yield view
    elif talk.is_terminal:
        with Live(get_renderable=view.render, console=talk, refresh_per_second=4):
            yield view
    else:
        say(escape(f"{title} ..."))
        yield view


def show_verdict(verdict: Verdict, report: DrillReport) -> None:
    """Print one verdict to stdout. The last line is the verdict in words."""
    figures = verdict.figures
    out.print(f"[bold]{escape(verdict.drill)}[/]  {escape(verdict.title)}")
    out.print(f"{escape(verdict.length.text)}; seed {verdict.seed}")
    columns = dict.fromkeys(_cells(verdict), "right")
    print_table("", columns, [list(_cells(verdict).values())])
    if figures.read_twice is not None:
        out.print(f"read twice, at most: {figures.read_twice:,} of {figures.records:,}")
    for problem in verdict.problems:
        out.print(f"[bold]wrong[/] {escape(problem)}")
    for doubt in verdict.doubts:
        out.print(f"[bold]not proved[/] {escape(doubt)}")
    for note in verdict.notes:
        out.print(f"note: {escape(note)}")
    out.print(f"page: {report.page_path}")
    out.print(escape(verdict.summary))


def show_summary(verdicts: Sequence[Verdict]) -> None:
    """Print a row for each verdict to stdout."""
    rows = [[each.drill, *_cells(each).values(), each.colour] for each in verdicts]
    names = list(_cells(verdicts[0])) if verdicts else []
    columns = {"drill": "left", **dict.fromkeys(names, "right"), "verdict": "left"}
    print_table("", columns, rows)


def _cells(verdict: Verdict) -> dict[str, str]:
    return {**verdict.figures.to_texts(), "took": format_duration(1000 * verdict.took_s)}
