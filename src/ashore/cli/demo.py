"""The command `ashore demo`: the live view of its job, its steps, and what to look at next."""

import json
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.text import Text

from ashore.cli.event_lines import print_event
from ashore.cli.options import AsJsonLines, Debug
from ashore.cli.output import out, reported_errors, say, shown_progress, talk
from ashore.cli.run_view import RunState
from ashore.cli.signals import sigterm_does
from ashore.cli.verify import show as show_verdict
from ashore.jobs.events import Event
from ashore_lab.demo import Demo, DemoFormat, DemoResult, DemoStep, queries


def demo(
    records: Annotated[int, typer.Option(min=1, help="Records to produce.")] = 1_200_000,
    directory: Annotated[
        Path | None, typer.Option(help="The working directory; kept afterwards.")
    ] = None,
    table_format: Annotated[
        DemoFormat, typer.Option("--format", help="Of the tables.")
    ] = DemoFormat.PARQUET,
    as_json: AsJsonLines = False,
    debug: Debug = False,
) -> None:
    """Land two topics, kill the job, restart it, prove that nothing is lost or duplicated."""
    reporting = reported_errors(as_json=as_json, debug=debug, in_lines=True)
    with reporting, sigterm_does(signal.default_int_handler):
        raise typer.Exit(show_demo(Demo(directory, records, table_format), as_json=as_json))


def show_demo(demo: Demo, *, as_json: bool) -> int:
    """Run the demo, show it, and return the exit code of its verification."""
    began_s = time.monotonic()
    with _shown(demo, as_json=as_json) as on_event, shown_progress(quiet=True) as progress:
        result = demo.run(on_event, progress)
    if as_json:
        document = result.verdict.to_dict()
        sys.stdout.write(json.dumps({"event": "verdict", **document}, default=str) + "\n")
        return result.verdict.exit_code
    _say_next(result, time.monotonic() - began_s)
    show_verdict(result.verdict)
    return result.verdict.exit_code


class DemoView:
    """Keeps what the demo and its job have reported. `take` alone changes what is shown."""

    def __init__(self, records: int) -> None:
        self._records = records
        self._state = RunState("demo")
        self._steps: list[str] = []

    def take(self, event: Event, now_s: float) -> str | None:
        """Take an event in. Returns a line for a log, where the event is worth one."""
        if isinstance(event, DemoStep):
            if event.killed_at is not None:
                self._steps.append(f"killed the job with SIGKILL after {event.killed_at:,} records")
            self._steps.append(event.step)
            return self._steps[-1] if event.killed_at is None else "; ".join(self._steps[-2:])
        return self._state.take(event, now_s)

    def render(self, produced: int, now_s: float) -> RenderableType:
        """Return what a terminal shows, when `records` records have been produced."""
        reported = f"produced {produced:,} of {self._records:,} records"
        steps = [Text(f"{'>' if step is self._steps[-1] else '.'} {step}") for step in self._steps]
        return Group(*steps, Text(reported, style="dim"), self._state.render(now_s))


@contextmanager
def _shown(demo: Demo, *, as_json: bool) -> Iterator[Callable[[Event], object]]:
    """Show events while inside: live on a terminal, a line each elsewhere, or as JSON."""
    view = DemoView(demo.records)

    def render() -> RenderableType:
        return view.render(demo.produced, time.monotonic())

    def take_live(event: Event) -> None:
        view.take(event, time.monotonic())

    def take_and_report(event: Event) -> None:
        line = view.take(event, time.monotonic())
        if line:
            say(escape(line))

    if as_json:
        yield print_event
    elif talk.is_terminal:
        with Live(get_renderable=render, console=talk, refresh_per_second=4):
            yield take_live
    else:
        yield take_and_report


def _say_next(result: DemoResult, seconds: float) -> None:
    """Say what there is to look at. Before the verdict, which has the last line."""
    lines = [
        f"The demo took {seconds:.0f} s. Next:",
        f"  the tables       {result.directory / 'lake' / 'demo.db'}",
        f"  the landing log  {result.directory / 'lake' / '.ashore' / 'demo' / 'main' / 'log'}",
        f"  the job file     {result.job_file}",
        *(f"  a query          {query}" for query in queries(result)),
        f"  the job          {Path(sys.argv[0])} status {result.job_file}",
        "",
    ]
    for line in lines:
        out.print(escape(line))
