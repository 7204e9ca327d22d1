"""The process that runs one job for a server: `python -m ashore.fleet.machine.run`.

What it is: what `ashore run` is to a person: preflight, the job process, a watch for a job that
hangs; what happens is written to files instead of a terminal. `RunRecorder`, which is
handed the events of the job process, writes where the run is, what it reported, rate and lag over
time.
What it promises: it holds the job's lock for its life. Which process it is is written before
anything else, and how it ended last: a server may come and go meanwhile. SIGTERM ends the job in
order, SIGKILL leaves no process behind. Each line of the log has job, slice, epoch and batch; logs
and samples rotate; a file that cannot be written keeps no job from running. What is seen is at most
a second old while anything changes.
"""

import json
import os
import signal
import sys
import traceback
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from types import FrameType

from ashore.base import codec
from ashore.base.clock import Clock, SystemClock
from ashore.base.units import format_time
from ashore.errors import AshoreError, ExitCode
from ashore.fleet.machine.background import Background
from ashore.fleet.machine.processes import StartOrder, own_start_ms
from ashore.fleet.records.history import SampleMaker, write_sample
from ashore.fleet.records.job_files import JobFile, read_job_file
from ashore.fleet.records.server_files import (
    BatchSeen,
    ExitRecord,
    ProcessRecord,
    RunFiles,
    RunSeen,
    SliceSeen,
    StepTaken,
)
from ashore.fleet.records.store import append_line, write_hint, write_record
from ashore.jobs.events import (
    BatchSteps,
    Beat,
    Ended,
    Event,
    Landed,
    Note,
    QueryProgressed,
    Recovered,
    Started,
    Starting,
    StepBegun,
    WarningEvent,
    encode_event,
)
from ashore.jobs.failure import KIND, Failed
from ashore.jobs.file import Job
from ashore.jobs.file.metrics import Metrics
from ashore.jobs.launch import JobLaunch, LaunchOptions
from ashore.jobs.metrics.export import exported
from ashore.jobs.metrics.job_metrics import JobMetrics
from ashore.log.progress import MEASURES, STOPPED, BatchCounted, Retrying, SliceMeasured
from ashore.proof.status.status import add_lags
from ashore.topics.use.run_job import SIGNALLED, failure_of, running

METRICS_EVERY = "10s"
OUTPUT_BYTES = 5_000_000  # of Spark's own log, and of this process's output
LOOK_AT_OUTPUT_S = 2.0
SEEN_EVERY_MS = 1_000
SEEN_AGAIN_MS = 10_000  # where nothing has changed
LOG_BYTES, LOGS_KEPT = 10_000_000, 5
WARNED_MS = 300_000  # a warning that does not come again is over after so long
PHASES = {Starting: "starting", Started: "running", Ended: "stopping", Failed: "stopping"}
BATCHES_SEEN, WARNINGS_SEEN, RATE_BATCHES = 20, 5, 12
RATE_MS = 60_000


@dataclass
class _SliceState:
    """What is known of a slice: `seen`, as it is written but for its rate, and what makes it."""

    seen: SliceSeen
    under_way: BatchSteps = field(default_factory=BatchSteps)
    recent: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=RATE_BATCHES))
    read: int | None = None  # offsets that a query has read since it was started; None: no query

    def rate(self, now_ms: int) -> int | None:
        """Return records per second in the last minute; None: there was no batch.

        A batch counts from the end of the one before to its own. Where that is more than half a
        minute, the window is twice as long as it.
        """
        if not self.recent:
            return None
        ends = [at_ms for at_ms, _ in self.recent]
        lengths = [max(after - before, 1) for before, after in pairwise(ends)]
        window_ms = max(RATE_MS, 2 * lengths[-1] if lengths else 0)
        first = max(now_ms - window_ms, ends[0])
        rows = sum(
            rows * max(0, at_ms - max(at_ms - length, first)) / length
            for (at_ms, rows), length in zip(list(self.recent)[1:], lengths, strict=True)
        )
        return round(rows * 1000 / max(now_ms - first, 1))

    def count(self, rows: int, now_ms: int) -> None:
        """Count what a batch has read that has just ended."""
        if not self.recent:
            self.recent.append((now_ms - self.under_way.took_ms, 0))
        self.recent.append((now_ms, rows))

    def count_query(self, read: int, now_ms: int) -> None:
        """Count what a query has read by now, since it was started."""
        before, self.read = self.read, read
        if before is None:
            self.recent.clear()
        if before is None or read != before:
            # A query that was started again counts from 0.
            self.count(read - before if before is not None and read > before else read, now_ms)

    def set(self, **changed: object) -> None:
        """Change what is seen."""
        self.seen = replace(self.seen, **changed)  # type: ignore[arg-type]

    def read_lag(self, lag: int | None, now_ms: int) -> None:
        """Take a lag as that of this moment; None: Kafka was not asked."""
        if lag is not None:
            self.set(lag=lag, lag_at_ms=now_ms)


@dataclass
class _Warning:
    """Something that a job process has warned of."""

    slice: str
    message: str
    at_ms: int
    is_tried_again: bool = False  # it is over with the next try that succeeds


class RunRecorder:
    """Writes what a run reports. Used by one thread.

    Arguments:
        files: where.
        run: of the run.
        job: its name.
        clock: of this machine.

    """

    def __init__(self, files: RunFiles, run: str, job: str, clock: Clock) -> None:
        self._files = files
        self._run = run
        self._job = job
        self._clock = clock
        self._phase = "starting"
        self._slices: dict[str, _SliceState] = {}
        self._warnings: deque[_Warning] = deque(maxlen=WARNINGS_SEEN)
        self._written_ms = 0
        self._samples = SampleMaker()
        self._has_changed = True
        self.job_pid: int | None = None
        self.job_log = ""

    def take(self, event: Event) -> None:
        """Take an event in, and write what is due."""
        now_ms = self._clock.now_ms()
        match event:
            case Starting() | Started() | Ended() | Failed():
                self._phase = PHASES[type(event)]
            case StepBegun():
                self._step(event, now_ms)
            case Landed():
                self._land(event, now_ms)
            case Recovered():
                self._forget_tries(self._slice(event.slice))
            case BatchCounted() | SliceMeasured() | QueryProgressed() | Retrying():
                self._measure(event, now_ms)
            case WarningEvent():
                self._warn(event, now_ms)
        if not isinstance(event, Beat):
            self._has_changed = True
        if not isinstance(event, (Beat, StepBegun, *MEASURES)):
            self.log(event)
        self._write_due(now_ms)

    def set_phase(self, phase: str) -> None:
        """Say where the run is in its life, at once."""
        self._phase = phase
        self._write(self._clock.now_ms())

    def log(self, event: Event) -> None:
        """Append an event to the log."""
        document = encode_event(event)
        kind, name = document.pop(KIND), str(document.pop("slice", ""))
        state = self._slices.get(name)
        document.pop("batch", None)
        line: dict[str, object] = {
            "at": format_time(self._clock.now_ms()),
            "job": self._job,
            "slice": name,
            "epoch": state.seen.epoch if state else None,
            "batch": state.seen.batch if state else None,
            "kind": kind,
        }
        with suppress(OSError):
            append_line(self._files.log, {**line, **document}, LOG_BYTES, LOGS_KEPT)

    def _slice(self, name: str) -> _SliceState:
        return self._slices.setdefault(name, _SliceState(SliceSeen(name, "running", "starting", 0)))

    def _step(self, event: StepBegun, now_ms: int) -> None:
        state = self._slice(event.slice)
        if state.seen.retrying_since_ms is None:
            state.set(state="running")
        ended = state.under_way.begin(event)
        if ended is not None:
            landed, steps = (
                ended.landed,
                tuple(StepTaken(str(step), ms) for step, ms in ended.steps),
            )
            self._samples.end_batch(sum(step.took_ms for step in steps))
            counts = (landed.batch, landed.entry, landed.rows, landed.files)
            batch = BatchSeen(*counts, now_ms, steps, landed.tables[:20])
            state.set(batches=(*state.seen.batches, batch)[-BATCHES_SEEN:])
        if state.seen.step != event.step:
            state.set(step=str(event.step), step_since_ms=now_ms)

    def _land(self, event: Landed, now_ms: int) -> None:
        state = self._slice(event.slice)
        self._forget_tries(state)
        if state.read is None:  # of a query not its rows are counted, but what it reads
            state.count(event.rows, now_ms)
        state.under_way.land(event)
        state.read_lag(event.lag, now_ms)
        rows = state.seen.rows + event.rows
        state.set(batch=event.batch, entry=event.entry, last_commit_ms=now_ms, rows=rows)

    def _measure(
        self, event: BatchCounted | SliceMeasured | QueryProgressed | Retrying, now_ms: int
    ) -> None:
        state = self._slice(event.slice)
        match event:
            case BatchCounted():
                for table in event.tables:
                    self._samples.count(table.outcome, table.records)
            case Retrying():
                since_ms = state.seen.retrying_since_ms or now_ms
                state.set(state="retrying", retrying_since_ms=since_ms)
                mine = [each for each in self._warnings if each.slice == event.slice]
                for each in mine[-1:]:
                    each.is_tried_again = True
            case QueryProgressed():
                state.set(watermark_ms=event.progress.watermark_ms)
                state.read_lag(event.progress.lag, now_ms)
                if event.progress.read is not None:
                    state.count_query(event.progress.read, now_ms)
            case SliceMeasured():
                deferred = sum(count for _, count in event.deferred)
                state.set(epoch=event.epoch, deferred=deferred)
                state.read_lag(event.lag, now_ms)
                if event.newest_ms is not None:
                    state.set(newest_ms=event.newest_ms)

    def _warn(self, event: WarningEvent, now_ms: int) -> None:
        self._warnings.append(_Warning(event.slice, event.message, now_ms))
        if event.slice and event.message.startswith(STOPPED):
            why = event.message.removeprefix(STOPPED)
            ended = {"state": "stopped", "step": "stopped", "retrying_since_ms": None, "why": why}
            self._slice(event.slice).set(**ended)

    def _forget_tries(self, state: _SliceState) -> None:
        """Warn no longer of what has passed: a slice has done what it tried again."""
        for each in tuple(self._warnings):
            if each.slice == state.seen.slice and each.is_tried_again:
                self._warnings.remove(each)
        if state.seen.retrying_since_ms is not None:
            state.set(state="running", retrying_since_ms=None)

    def _write_due(self, now_ms: int) -> None:
        slices = self._slices.values()
        age_ms = now_ms - self._written_ms
        if age_ms < 0 or age_ms >= (SEEN_EVERY_MS if self._has_changed else SEEN_AGAIN_MS):
            self._write(now_ms)
        if self._samples.is_due(now_ms):
            sample = self._samples.take(now_ms, add_lags(each.seen.lag for each in slices))
            with suppress(OSError):
                write_sample(self._files.history, sample)

    def _write(self, now_ms: int) -> None:
        self._written_ms, self._has_changed = now_ms, False
        seen = RunSeen(
            self._run,
            self._job,
            now_ms,
            self._phase,
            self.job_pid,
            tuple(
                replace(state.seen, rate=state.rate(now_ms))
                for _, state in sorted(self._slices.items())
            ),
            tuple(each.message for each in self._warnings if self._lasts(each, now_ms)),
            self.job_log,
        )
        write_hint(self._files.seen, json.dumps(codec.encode_object(seen)))

    def _lasts(self, warning: _Warning, now_ms: int) -> bool:
        """Return whether a warning is of now: of a slice that is retrying, or stopped, it lasts."""
        state = self._slices.get(warning.slice)
        is_down = state is not None and state.seen.state != "running"
        return is_down or now_ms - warning.at_ms < WARNED_MS


@dataclass
class _Ending:
    """Whether the end was asked for, and the job process, once there is one."""

    is_asked: bool = False
    launch: JobLaunch | None = None

    def ask(self, _number: int, _frame: FrameType | None) -> None:
        self.is_asked = True
        if self.launch is not None:
            self.launch.stop()

    def was_asked(self) -> bool:
        """Return whether the end has been asked for by now."""
        return self.is_asked

    def begin(self, launch: JobLaunch) -> None:
        """Take a job process that was started: if the end was asked for, it is passed on."""
        self.launch = launch
        if self.is_asked:
            launch.stop()


class JobRun:
    """One run of a job.

    Arguments:
        order: what was asked of this process.

    """

    def __init__(self, order: StartOrder) -> None:
        self._order = order
        self._files = RunFiles(order.directory)
        self._clock = SystemClock()
        self._file: JobFile = read_job_file(order.job_file)
        self._ending = _Ending()
        self._recorder = RunRecorder(self._files, order.run, self._file.name, self._clock)

    def run(self) -> int:
        """Run the job to its end and return its exit code."""
        os.set_inheritable(self._order.lock, False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._ending.ask)
        started_ms = own_start_ms()
        order, file = self._order, self._file
        numbers = (order.generation, order.attempt, os.getpid(), started_ms)
        record = ProcessRecord(order.run, file.name, *numbers, file.digest)
        write_record(self._files.process, record)
        self._recorder.set_phase("starting")
        code, failed = self._play()
        self._write_exit(code, failed)
        return code

    def _play(self) -> tuple[int, Failed | None]:
        try:
            return self._run_job(self._file.valid())
        except AshoreError as error:
            failed = Failed.of(error)
        except Exception as error:  # noqa: BLE001 - the last line of a process: it is reported
            traceback.print_exc()
            message = f"the process that runs the job failed: {error!r}"
            failed = Failed(
                ExitCode.BUG, "invariant-broken", message, f"please report {self._files.output}"
            )
        self._recorder.take(failed)
        return failed.exit_code, failed

    def _run_job(self, job: Job) -> tuple[int, Failed | None]:
        self._check(job)
        if self._ending.was_asked():
            return 0, None
        metrics = JobMetrics(job.job)
        launch = JobLaunch(
            "run", self._order.job_file, LaunchOptions(job.spark is not None, name=job.job)
        )
        errors: list[Failed] = []
        with ExitStack() as stack:
            where = Metrics.model_validate(
                {"file": str(self._files.metrics), "every": METRICS_EVERY}
            )
            stack.enter_context(exported(metrics.registry, where, self._warn))
            run = stack.enter_context(running(job, launch, self._warn))
            self._recorder.job_pid, self._recorder.job_log = launch.pid, str(launch.log_path)
            self._ending.begin(launch)
            stack.enter_context(_bounded(launch.log_path, self._files.output))
            for event in run.events():
                errors += [event] if isinstance(event, Failed) else []
                metrics.take(event)
                self._recorder.take(event)
            code = run.wait()
            metrics.end(code)
        reported = errors[-1] if errors else None
        if self._ending.was_asked() and reported is None and code in (0, -signal.SIGTERM):
            return 0, None  # it may have been stopped before it could stop in order
        failed = failure_of(code, reported, launch)
        return (0, None) if failed is None else (failed.exit_code, failed)

    def _check(self, job: Job) -> None:
        """Find what can be known without Spark. Raises as `check_job`."""
        from ashore.topics.open_job import open_job  # noqa: PLC0415 - after the process is recorded
        from ashore.topics.use.preflight import check_job  # noqa: PLC0415

        with open_job(self._order.job_file) as opened:
            found = check_job(opened)
        for table, reasons in found.slow:
            self._recorder.take(Note("", f"{table} decodes slowly: {'; '.join(reasons)}"))
        for expression in found.unmatched:
            self._recorder.take(Note("", f"{expression} matches no topic yet ({job.job})"))
        for text in found.removed:
            self._recorder.take(Note("", text))

    def _warn(self, message: str) -> None:
        self._recorder.log(WarningEvent("", message))

    def _write_exit(self, code: int, failed: Failed | None) -> None:
        code = code if code >= 0 else SIGNALLED - code
        message = ("", "", "")
        if failed is not None:
            message = failed.code, failed.message, failed.hint or ""
        marks = (self._order.run, self._order.attempt, self._file.digest, code)
        with suppress(OSError):  # then it counts as killed, and is started again
            write_record(self._files.exit, ExitRecord(*marks, self._clock.now_ms(), *message))


@contextmanager
def _bounded(*paths: Path) -> Iterator[None]:
    """Keep files that others append to from growing for ever: too large ones are emptied."""

    def look() -> float:
        for path in paths:
            with suppress(OSError):
                _empty(path)
        return LOOK_AT_OUTPUT_S

    thread = Background("output", look)
    thread.start()
    try:
        yield
    finally:
        thread.end()


def _empty(path: Path) -> None:
    """Keep the newest part of a file beside it, and empty it, where it has grown too large."""
    if path.stat().st_size < OUTPUT_BYTES:
        return
    with path.open("rb") as full, path.with_name(f"{path.name}.1").open("wb") as kept:
        full.seek(-OUTPUT_BYTES, os.SEEK_END)
        kept.write(full.read())
    os.truncate(path, 0)  # its writers append


def main(arguments: list[str] | None = None) -> int:
    """Run a job and return its exit code."""
    order = StartOrder.read(sys.argv[1:] if arguments is None else arguments)
    return JobRun(order).run()


if __name__ == "__main__":
    sys.exit(main())
