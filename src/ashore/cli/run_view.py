"""The live view of a running job.

What it is: what the events of a job process look like: on a terminal a table that is kept up to
date, elsewhere a line for each thing that matters.
What it promises: `RunState.take` alone changes what is shown, `render` shows it.
What it must not know: how a job works.
"""

import json
import signal
import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from ashore.base.units import format_duration
from ashore.cli.output import escape, out, print_json, say, talk
from ashore.control.launch import JobLaunch


@dataclass
class SliceState:
    """What is known of one slice."""

    step: str = "starting"
    since_s: float = 0.0
    batch_began_s: float = 0.0
    rows: int = 0
    files: int = 0
    batches: int = 0
    lag: int | None = None
    recent: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=12))

    def rate(self, now_s: float) -> float:
        """Return records per second over the last batches."""
        if not self.recent:
            return 0.0
        span_s = max(now_s - self.recent[0][0], 1e-3)
        return sum(rows for _, rows in self.recent) / span_s


@dataclass
class RunState:
    """What is known of a run."""

    job: str
    slices: dict[str, SliceState] = field(default_factory=dict)
    talk: deque[str] = field(default_factory=lambda: deque(maxlen=5))
    error: Mapping[str, object] | None = None

    def take(self, event: Mapping[str, object], now_s: float) -> str | None:
        """Take an event in. Returns a line for a log, where the event is worth one."""
        kind = event.get("event")
        state = self.slices.setdefault(str(event.get("slice", "main")), SliceState())
        if kind == "step":
            if state.step != event["step"]:
                state.step, state.since_s = str(event["step"]), now_s
            if event["step"] == "plan":
                state.batch_began_s = now_s
            return None
        if kind == "landed":
            return self._landed(state, event, now_s)
        if kind == "error":
            self.error = event
            return None
        if kind in ("trouble", "talk"):
            self.talk.append(str(event.get("message", "")))
            return self.talk[-1]
        if kind == "started":
            state.step, state.since_s = "started", now_s
            state.recent.clear()  # a restarted job: its rate is its own
        return {"starting": "starting Spark", "started": "started", "ended": "ended"}.get(str(kind))

    def _landed(self, state: SliceState, event: Mapping[str, object], now_s: float) -> str:
        rows, files = _int(event, "rows"), _int(event, "files")
        if not state.recent:
            state.recent.append((state.batch_began_s or now_s, 0))
        state.recent.append((now_s, rows))
        state.rows += rows
        state.files += files
        state.batches += 1
        state.lag = _int(event, "lag")
        rate = state.rate(now_s)
        return f"landed {rows:,} records in {files} files, {rate:,.0f}/s, lag {state.lag:,}"

    def render(self, now_s: float | None = None) -> RenderableType:
        """Return what a terminal shows now."""
        now_s = time.monotonic() if now_s is None else now_s
        table = Table(title=f"job {self.job}", title_justify="left", header_style="bold")
        for name in ("slice", "step", "for"):
            table.add_column(name)
        for name in ("records landed", "records/s", "lag", "files", "batches"):
            table.add_column(name, justify="right")
        for name, state in sorted(self.slices.items()):
            table.add_row(
                name,
                state.step,
                format_duration(1000 * (now_s - state.since_s)) if state.since_s else "",
                f"{state.rows:,}",
                f"{state.rate(now_s):,.0f}",
                "" if state.lag is None else f"{state.lag:,}",
                f"{state.files:,}",
                f"{state.batches:,}",
            )
        return Group(table, *(Text(line, style="dim", overflow="ellipsis") for line in self.talk))


def _int(event: Mapping[str, object], key: str) -> int:
    value = event.get(key)
    return value if isinstance(value, int) else 0


def show_run(job: str, launch: JobLaunch, *, as_json: bool) -> int:
    """Show a run to its end and return its exit code. Ctrl-C and SIGTERM stop it in order."""
    state = RunState(job)
    with launch, _signals_stop(launch):
        for line in _watch(state, launch, as_json=as_json):
            say(escape(line))
        code = launch.wait()
    return _ended(state, code, launch, as_json=as_json)


def show_reland(launch: JobLaunch, *, as_json: bool) -> int:
    """Show the reading again of lost files and return the exit code."""
    state = RunState("recover")
    relanded: Mapping[str, object] = {}
    with launch, _signals_stop(launch):
        for event in launch.events():
            state.take(event, time.monotonic())
            if event.get("event") == "relanded":
                relanded = event
        code = launch.wait()
    if code == 0 and as_json:
        print_json({"rows": relanded.get("rows"), "files": relanded.get("files")})
    elif code == 0:
        out.print(
            f"landed {relanded.get('rows'):,} rows of {relanded.get('files')} lost files again"
        )
    return _ended(state, code, launch, as_json=as_json)


def _watch(state: RunState, launch: JobLaunch, *, as_json: bool) -> Iterator[str]:
    """Take events in until the process ends. On a terminal the view is live, else lines come."""
    if as_json:
        for event in launch.events():
            state.take(event, time.monotonic())
            sys.stdout.write(json.dumps(event) + "\n")
            sys.stdout.flush()
    elif talk.is_terminal:
        with Live(get_renderable=state.render, console=talk, refresh_per_second=4):
            for event in launch.events():
                state.take(event, time.monotonic())
    else:
        for event in launch.events():
            line = state.take(event, time.monotonic())
            if line:
                yield line


def _ended(state: RunState, code: int, launch: JobLaunch, *, as_json: bool) -> int:
    """Say how a job process ended. Returns the exit code for the shell."""
    if state.error is not None and not as_json:
        message, kind = str(state.error.get("message")), state.error.get("code")
        say(f"[bold red]error[/] {escape(message)}  [dim]({kind})[/]")
        if state.error.get("hint"):
            say(f"[bold]next[/]  {escape(str(state.error['hint']))}")
        say(f"[bold]log[/]   {launch.log_path}")
    elif state.error is None and code != 0:
        say(
            f"[bold red]error[/] the job process ended with {code} and said nothing; start it "
            f"again: it goes on from its landing log. What Spark said: {launch.log_path}"
        )
    return code if code >= 0 else 128 - code


@contextmanager
def _signals_stop(launch: JobLaunch) -> Iterator[None]:
    """Pass SIGTERM and SIGINT on as an orderly stop while inside."""
    before = {
        number: signal.signal(number, lambda _number, _frame: launch.stop())
        for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
