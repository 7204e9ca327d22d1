"""What a run writes of itself: where it is, what it reported, rate and lag over time.

What it is: `RunRecorder`, which is handed the events of a job process.
What it promises: each line of the log has job, slice, epoch and batch; logs and samples rotate; a
file that cannot be written keeps no job from running. What is seen is at most a second old while
anything changes.
"""

import contextlib
import json
from collections import deque
from dataclasses import dataclass, field, replace

from ashore.base import codec
from ashore.base.clock import Clock
from ashore.base.units import format_time
from ashore.fleet.records.layout import RunFiles
from ashore.fleet.records.store import append_line, write_hint
from ashore.fleet.records.values import BatchSeen, RunSeen, SliceSeen, StepTaken
from ashore.jobs.events import (
    BatchSteps,
    Beat,
    Ended,
    Event,
    Landed,
    QueryProgressed,
    Recovered,
    Started,
    Starting,
    StepBegun,
    WarningEvent,
    encode_event,
)
from ashore.jobs.failure import KIND, Failed
from ashore.log.progress import MEASURES, STOPPED, Retrying, SliceMeasured

SEEN_EVERY_MS, SAMPLE_EVERY_MS = 1_000, 15_000
SEEN_AGAIN_MS = 10_000  # where nothing has changed
LOG_BYTES, LOGS_KEPT = 10_000_000, 5
SAMPLES_BYTES = 1_000_000
WARNED_MS = 300_000  # a warning that does not come again is over after so long
PHASES = {Starting: "starting", Started: "running", Ended: "stopping", Failed: "stopping"}
BATCHES_SEEN, WARNINGS_SEEN, RATE_BATCHES = 20, 5, 12


@dataclass
class _SliceState:
    """What is known of a slice: `seen`, as it is written but for its rate, and what makes it."""

    seen: SliceSeen
    under_way: BatchSteps = field(default_factory=BatchSteps)
    recent: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=RATE_BATCHES))

    def rate(self, now_ms: int) -> int | None:
        """Return records per second over the last batches; None: there were none."""
        if not self.recent:
            return None
        span_ms = max(now_ms - self.recent[0][0], 1)
        return sum(rows for _, rows in self.recent) * 1000 // span_ms

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
        self._written_ms = self._sampled_ms = 0
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
            case SliceMeasured() | QueryProgressed() | Retrying():
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
        with contextlib.suppress(OSError):
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
            counts = (landed.batch, landed.entry, landed.rows, landed.files)
            batch = BatchSeen(*counts, now_ms, steps, landed.tables[:20])
            state.set(batches=(*state.seen.batches, batch)[-BATCHES_SEEN:])
        if state.seen.step != event.step:
            state.set(step=str(event.step), step_since_ms=now_ms)

    def _land(self, event: Landed, now_ms: int) -> None:
        state = self._slice(event.slice)
        self._forget_tries(state)
        if not state.recent:
            state.recent.append((now_ms - state.under_way.took_ms, 0))
        state.recent.append((now_ms, event.rows))
        state.under_way.land(event)
        state.read_lag(event.lag, now_ms)
        rows = state.seen.rows + event.rows
        state.set(batch=event.batch, entry=event.entry, last_commit_ms=now_ms, rows=rows)

    def _measure(self, event: SliceMeasured | QueryProgressed | Retrying, now_ms: int) -> None:
        state = self._slice(event.slice)
        match event:
            case Retrying():
                since_ms = state.seen.retrying_since_ms or now_ms
                state.set(state="retrying", retrying_since_ms=since_ms)
                mine = [each for each in self._warnings if each.slice == event.slice]
                for each in mine[-1:]:
                    each.is_tried_again = True
            case QueryProgressed():
                state.set(watermark_ms=event.progress.watermark_ms)
                state.read_lag(event.progress.lag, now_ms)
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
        age_ms = now_ms - self._written_ms
        if age_ms < 0 or age_ms >= (SEEN_EVERY_MS if self._has_changed else SEEN_AGAIN_MS):
            self._write(now_ms)
        if not 0 <= now_ms - self._sampled_ms < SAMPLE_EVERY_MS:
            self._sample(now_ms)

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

    def _sample(self, now_ms: int) -> None:
        self._sampled_ms = now_ms
        slices = {
            name: [state.seen.rows, state.seen.lag, state.rate(now_ms)]
            for name, state in sorted(self._slices.items())
        }
        with contextlib.suppress(OSError):
            line = {"at_ms": now_ms, "slices": slices}
            append_line(self._files.samples, line, SAMPLES_BYTES, 1)
