"""What the demo looks like.

What it is: the live view of the job, with the demo's own steps above it, and what to look at next.
What it must not know: how the demo works.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from ashore.cli import verify_view
from ashore.cli.output import escape, out, print_event, shown_progress, talk
from ashore.cli.run_view import RunState
from ashore.control.demo import Demo, DemoResult, DemoStep, queries
from ashore.jobs.events import Event


def show_demo(demo: Demo, *, as_json: bool) -> int:
    """Run the demo, show it, and return the exit code of its verification."""
    began_s = time.monotonic()
    view = _DemoView(demo)
    with view.shown(as_json=as_json) as on_event, shown_progress(quiet=True) as progress:
        result = demo.run(on_event, progress)
    if as_json:
        document = result.verdict.to_dict()
        sys.stdout.write(json.dumps({"event": "verdict", **document}, default=str) + "\n")
        return result.verdict.exit_code
    _say_next(result, time.monotonic() - began_s)
    verify_view.show(result.verdict)
    return result.verdict.exit_code


class _DemoView:
    """Keeps what the demo and its job have told."""

    def __init__(self, demo: Demo) -> None:
        self._demo = demo
        self._state = RunState("demo")
        self._steps: list[str] = []

    @contextmanager
    def shown(self, *, as_json: bool) -> Iterator[Callable[[Event], object]]:
        """Show events while inside: live on a terminal, a line each elsewhere, or as JSON."""
        if as_json:
            yield print_event
        elif talk.is_terminal:
            with Live(get_renderable=self._render, console=talk, refresh_per_second=4):
                yield self._take
        else:
            yield self._take_and_tell

    def _take(self, event: Event) -> str | None:
        if isinstance(event, DemoStep):
            if event.killed_at is not None:
                self._steps.append(f"killed the job with SIGKILL after {event.killed_at:,} records")
            self._steps.append(event.step)
            return self._steps[-1] if event.killed_at is None else "; ".join(self._steps[-2:])
        return self._state.take(event, time.monotonic())

    def _take_and_tell(self, event: Event) -> None:
        line = self._take(event)
        if line:
            talk.print(escape(line))

    def _render(self) -> RenderableType:
        produced = f"produced {self._demo.produced:,} of {self._demo.records:,} records"
        steps = [Text(f"{'>' if step is self._steps[-1] else '.'} {step}") for step in self._steps]
        return Group(*steps, Text(produced, style="dim"), self._state.render())


def _say_next(result: DemoResult, seconds: float) -> None:
    """Say what there is to look at. Before the verdict, which has the last line."""
    lines = [
        f"The demo took {seconds:.0f} s. Look at next:",
        f"  the tables       {result.directory / 'lake' / 'demo.db'}",
        f"  the landing log  {result.directory / 'lake' / '.ashore' / 'demo' / 'main' / 'log'}",
        f"  the job file     {result.job_file}",
        *(f"  a query          {query}" for query in queries(result)),
        f"  the job          {Path(sys.argv[0])} status {result.job_file}",
        "",
    ]
    for line in lines:
        out.print(escape(line))
