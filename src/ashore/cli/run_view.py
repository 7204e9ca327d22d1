"""The live view of a running job.

What it is: what the events of a job process look like: on a terminal a table that is kept up to
date, elsewhere a line for each thing that matters.
What it promises: `RunState.take` alone changes what is shown, `render` shows it.
"""

import os
import signal
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from types import FrameType

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from ashore.base.units import format_count, format_duration
from ashore.cli.event_lines import print_event, print_log
from ashore.cli.output import (
    STARTING_SPARK,
    failure_document,
    now_text,
    out,
    print_failure,
    print_json,
    print_lines,
    say,
    talk,
    width_of,
)
from ashore.cli.saving import TakenSavepoint
from ashore.cli.signals import signals_call
from ashore.errors import ExitCode
from ashore.jobs.events import (
    Beat,
    Ended,
    Event,
    Landed,
    Note,
    PartitionsRegistered,
    PartitionsSealed,
    Recovered,
    Relanded,
    Retired,
    Started,
    Starting,
    StepBegun,
    Talk,
    WarningEvent,
)
from ashore.jobs.failure import Failed
from ashore.jobs.file import Job
from ashore.jobs.launch import JobLaunch
from ashore.log.progress import MEASURES, STOPPED, Step
from ashore.topics.use.run_job import failure_of, running

STOPPING = "finishing the batch, Ctrl-C again to stop now"
TABLES_SHOWN = 3  # of a batch, in a line


class Style(Enum):
    """How a run is shown."""

    LINES = "a table on a terminal, lines elsewhere"
    LOG = "lines of JSON on stderr"
    EVENTS = "events as lines of JSON on stdout"


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

    def end(self, step: str, now_s: float) -> None:
        """Say where it is once it is at no step."""
        self.step, self.since_s = step, now_s

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
    pid: int | None = None  # of the job process
    uses_spark: bool = True
    stopping: str | None = None  # what is being waited for, once the end was asked for
    launched_s: float | None = None  # None: not yet
    slices: dict[str, SliceState] = field(default_factory=dict)
    talk: deque[str] = field(default_factory=lambda: deque(maxlen=5))
    error: Failed | None = None
    has_begun: bool = False

    def take(self, event: Event, now_s: float) -> str | None:
        """Take an event in. Returns a line for a log, where the event is worth one."""
        match event:
            case StepBegun():
                self._begin(self._slice(event.slice), event.step, now_s)
            case Landed():
                return self._landed(self._slice(event.slice), event, now_s)
            case PartitionsSealed() | PartitionsRegistered() | Retired() | Recovered():
                return self._say(_reported(event))
            case Failed():
                self.error = event
            case WarningEvent() | Note() | Talk():
                if isinstance(event, WarningEvent) and event.message.startswith(STOPPED):
                    self._slice(event.slice).end("stopped", now_s)
                return self._say(event.message)
            case Starting() | Started() | Ended():
                return self._live(event, now_s)
        return None

    @property
    def _starting(self) -> str:
        return STARTING_SPARK if self.uses_spark else "starting"

    def _live(self, event: Starting | Started | Ended, now_s: float) -> str:
        """Take in where the process is in its life."""
        process = "" if self.pid is None else f", process {self.pid}"
        match event:
            case Starting():
                self.launched_s = now_s
                return f"{self._starting}{process}"
            case Started():
                self._start(now_s)
                return f"started{process}{f'; reader: {event.reader}' if event.reader else ''}"
            case Ended():
                for each in self.slices.values():
                    each.end("ended", now_s)
                return "ended"

    def _say(self, line: str) -> str:
        self.talk.append(line)
        return line

    def _slice(self, name: str) -> SliceState:
        return self.slices.setdefault(name, SliceState())

    def _start(self, now_s: float) -> None:
        self.has_begun = True
        for each in self.slices.values():  # a job that was started again: its rate is its own
            each.end("started", now_s)
            each.recent.clear()

    def _begin(self, state: SliceState, step: Step, now_s: float) -> None:
        if state.step != step:
            state.step, state.since_s = step, now_s
        if step is Step.PLAN:
            state.batch_began_s = now_s

    def _landed(self, state: SliceState, event: Landed, now_s: float) -> str:
        if not state.recent:
            state.recent.append((state.batch_began_s or now_s, 0))
        state.recent.append((now_s, event.rows))
        state.rows += event.rows
        state.files += event.files
        state.batches += 1
        state.lag = event.lag
        reported = (
            f"landed {format_count(event.rows, 'record')} in {format_count(event.files, 'file')}"
        )
        if event.tables:
            reported += f" into {_some(event.tables)}"
        if event.batch is not None:
            reported = f"batch {event.batch:,}, entry {event.entry:,}: {reported}"
        return f"{reported}, {state.rate(now_s):,.0f}/s, lag {state.lag:,}"

    def render(self, now_s: float | None = None) -> RenderableType:
        """Return what a terminal shows now."""
        now_s = time.monotonic() if now_s is None else now_s
        below = [line for line in (self._doing(now_s), self.stopping) if line]
        shown = [Text(line, style="bold") for line in below]
        return Group(
            _Fitting(self, now_s), *shown, *(Text(line, style="dim") for line in self.talk)
        )

    def table(self, now_s: float, columns: Sequence[str]) -> Table:
        """Return the slices, with these columns."""
        title = f"job {self.job}" if self.pid is None else f"job {self.job}, process {self.pid}"
        table = Table(title=title, title_justify="left", header_style="bold", box=SIMPLE_HEAD)
        for name in columns:
            is_text = name in {"slice", "step", "for"}
            table.add_column(name, justify="left" if is_text else "right", no_wrap=True)
        for name, state in sorted(self.slices.items()):
            cells = {
                "slice": name,
                "step": state.step,
                "for": format_duration(1000 * (now_s - state.since_s)) if state.since_s else "",
                "records": f"{state.rows:,}",
                "records/s": f"{state.rate(now_s):,.0f}",
                "lag": "" if state.lag is None else f"{state.lag:,}",
                "files": f"{state.files:,}",
                "batches": f"{state.batches:,}",
            }
            table.add_row(*[escape(cells[column]) for column in columns])
        return table

    def _doing(self, now_s: float) -> str | None:
        """Return what a job is at that has not begun; None: it has."""
        if self.has_begun or self.error is not None:
            return None
        if self.launched_s is None:
            return self._starting
        return f"{self._starting} ({max(0, now_s - self.launched_s):.0f} s)"


COLUMNS = ("slice", "step", "for", "records", "records/s", "lag", "files", "batches")
RARE = ("batches", "files", "for")  # left out, one after the other, where a terminal is narrow


@dataclass(frozen=True)
class _Fitting:
    """The table of a run, with as many columns as fit: none is folded."""

    state: RunState
    now_s: float

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for count in range(len(RARE) + 1):
            columns = [name for name in COLUMNS if name not in RARE[:count]]
            table = self.state.table(self.now_s, columns)
            if width_of(console, table) <= options.max_width:
                break
        yield table


def _reported(event: PartitionsSealed | PartitionsRegistered | Retired | Recovered) -> str:
    match event:
        case Retired():
            retired = f"retired {format_count(event.partitions, 'partition')} of "
            deleted = f"{format_count(event.files, 'file')} deleted"
            return f"entry {event.entry:,}: {retired}{_some(event.tables)}, {deleted}"
        case PartitionsSealed():
            sealed = f"sealed {format_count(event.partitions, 'partition')}"
            return f"entry {event.entry:,}: {sealed}: {_some(event.names)}"
        case PartitionsRegistered():
            registered = f"registered {format_count(event.partitions, 'partition')}"
            return f"{registered}: {_some(event.names)}"
        case Recovered():
            after = format_duration(event.after_ms)
            return f"{event.slice}: recovered after {after} and {event.tries:,} failed tries"


def _some(tables: tuple[str, ...]) -> str:
    more = len(tables) - TABLES_SHOWN
    shown = ", ".join(tables[:TABLES_SHOWN])
    return f"{shown} and {more} more" if more > 0 else shown


def show_checking(job: Job, style: Style) -> None:
    """Say that a job is looked at, which takes as long as its servers take to answer."""
    if style is Style.LINES:
        at = "" if talk.is_terminal else f"{now_text()} "
        say(f"{at}checking lake, log and topics of job {escape(job.job)}")


def show_run(job: Job, launch: JobLaunch, style: Style, state: RunState | None = None) -> int:
    """Show a run to its end and return its exit code. Ctrl-C and SIGTERM stop it in order.

    A second Ctrl-C kills the job process, which is safe at any moment.

    A job process that is silent for the job's `patience` is killed.

    `state`: what takes the events in; None: one of its own.
    """
    state = state or RunState(job.job)
    state.uses_spark, state.launched_s = job.spark is not None, time.monotonic()
    as_json = style is Style.EVENTS

    def report(message: str) -> None:
        _show(WarningEvent("", message), state, style)

    with running(job, launch, report) as run:
        state.pid = run.launch.pid
        with _signals_stop(launch, state, style) as caught, _live(state, style):
            for event in run.events():
                _show(event, state, style)
            code = run.wait()
    if caught.is_now and state.error is None:
        say("stopped at once: the next start finishes what was started")
        return ExitCode.INTERRUPTED
    if caught.signals and not state.has_begun and state.error is None:
        say("stopped before the job had started")
        return ExitCode.INTERRUPTED if caught.signals[0] == signal.SIGINT else 0
    failed = failure_of(code, state.error, launch)
    if failed is not None and as_json and state.error is None:
        print_event(failed)  # the process could not report it
    elif failed is not None and not as_json:
        _show_failure(failed, launch)
    return 0 if failed is None else failed.exit_code


def show_taken(taken: Sequence[TakenSavepoint], style: Style) -> None:
    """Print the savepoints of a job that has ended."""
    for each in taken:
        match style:
            case Style.EVENTS:
                print_event(each.event)
            case Style.LOG:
                print_log(each.lines[0], each.event)
            case Style.LINES:
                print_lines(each.lines)


def show_reland(launch: JobLaunch, *, as_json: bool) -> int:
    """Show the reading again of lost files and return the exit code."""
    state = RunState("recover")
    relanded = Relanded(0, 0)
    with launch, _signals_stop(launch, state, Style.LINES):
        for event in launch.events():
            state.take(event, time.monotonic())
            if isinstance(event, Relanded):
                relanded = event
        code = launch.wait()
    failed = failure_of(code, state.error, launch)
    if failed is not None and as_json:
        print_json(failure_document(failed))
    elif failed is not None:
        _show_failure(failed, launch)
    elif as_json:
        print_json({"rows": relanded.rows, "files": relanded.files})
    else:
        out.print(f"landed {relanded.rows:,} rows of {relanded.files} lost files again")
    return 0 if failed is None else failed.exit_code


def _show_failure(failed: Failed, launch: JobLaunch) -> None:
    print_failure(failed)
    say(f"[bold]log[/]   {launch.log_path}")


@contextmanager
def _live(state: RunState, style: Style) -> Iterator[None]:
    """On a terminal, show a table that is kept up to date while inside."""
    if style is not Style.LINES or not talk.is_terminal:
        yield
        return
    with Live(get_renderable=state.render, console=talk, refresh_per_second=4):
        yield


def _show(event: Event, state: RunState, style: Style) -> None:
    """Take an event in, and show it as a line of its own where there is no table."""
    line = state.take(event, time.monotonic())
    match style:
        case Style.EVENTS:
            if not isinstance(event, (Beat, *MEASURES)):
                print_event(event)
        case Style.LOG:
            if line:
                print_log(line, event)
        case Style.LINES:
            if line and not talk.is_terminal:
                say(f"{escape(now_text())} {escape(line)}")


@dataclass
class _Signals:
    """The signals that have come, and whether the end was to come at once."""

    signals: list[int] = field(default_factory=list)
    is_now: bool = False


@contextmanager
def _signals_stop(launch: JobLaunch, state: RunState, style: Style) -> Iterator[_Signals]:
    """Pass SIGTERM and SIGINT on as an orderly stop while inside; a second SIGINT kills."""
    caught = _Signals()

    def stop(number: int, _frame: FrameType | None) -> None:
        if caught.signals and number == signal.SIGINT:
            caught.is_now = True
            state.stopping = "stopping now"
            launch.kill()
            return
        caught.signals.append(number)
        state.stopping = STOPPING if state.has_begun else "stopping, Ctrl-C again to stop now"
        if style is Style.LINES and not talk.is_terminal:
            # Not by way of the console: it may be in the midst of a line.
            os.write(2, f"{now_text()} {state.stopping}\n".encode())
        launch.stop()

    with signals_call(stop, signal.SIGTERM, signal.SIGINT):
        yield caught
