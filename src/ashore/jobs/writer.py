"""`EventWriter`: the job process writes its events to stdout; `watch_parent` watches its parent.

What it promises: an event is one line, written whole, also by several threads. The end of the
parent is no error of the job's work.
"""

import json
import os
import sys
import threading
from collections.abc import Callable, Mapping

from ashore.base.clock import SystemClock
from ashore.jobs.events import (
    Beat,
    Event,
    Landed,
    Note,
    PartitionsRegistered,
    PartitionsSealed,
    QueryProgressed,
    Recovered,
    Retired,
    StepBegun,
    WarningEvent,
    encode_event,
)
from ashore.jobs.heartbeat import WorkerBeat
from ashore.log.progress import (
    STOPPED,
    BatchLanded,
    CallsCounted,
    Measure,
    PartitionsRetired,
    QueryProgress,
    Step,
    TablePartitions,
)

CALLS_EVERY_BEATS = 5


class EventWriter:
    """Writes events to stdout. It is the Progress of the slices of its process.

    Arguments:
        count_hanging: returns how many calls to the lake have been given up and not heard of since.
        count_calls: returns how many calls there were, by kind and result.

    """

    def __init__(
        self,
        count_hanging: Callable[[], int],
        count_calls: Callable[[], Mapping[tuple[str, str], int]] = dict,
    ) -> None:
        self._count_hanging = count_hanging
        self._count_calls = count_calls
        self._beats = 0
        self._lock = threading.Lock()
        self._clock = SystemClock()
        self._began_ms = self._clock.now_ms()
        # By slice, with when it began: by the wall clock, and by one that is never set.
        self._steps: dict[str, tuple[Step, int, float]] = {}
        self._workers: dict[str, WorkerBeat] = {}  # by slice

    def at_work(self) -> tuple[str, int]:
        """Return the step at work that began first and when, in ms; `idle` where none is."""
        steps = list(self._steps.values())
        if not steps:
            return "starting", self._began_ms
        working = [(began_ms, step) for step, began_ms, _ in steps if step is not Step.IDLE]
        if working:
            began_ms, step = min(working)
            return str(step), began_ms
        return str(Step.IDLE), max(began_ms for _, began_ms, _ in steps)

    def workers(self) -> tuple[WorkerBeat, ...]:
        """Return the last reports of queries, and of workers that stopped."""
        return tuple(sorted(self._workers.copy().values(), key=lambda each: each.slice))

    def beat(self) -> None:
        """Report that the process is there; now and then, what it has asked of the lake."""
        self.send(Beat())
        if self._beats % CALLS_EVERY_BEATS == 0:
            self.report_calls()
        self._beats += 1

    def report_calls(self) -> None:
        """Report the calls to the lake so far."""
        counts = sorted(self._count_calls().items())
        calls = tuple((call, result, count) for (call, result), count in counts)
        self.send(CallsCounted(calls, self._count_hanging()))

    def send(self, event: Event) -> None:
        """Write one event."""
        line = json.dumps(encode_event(event), default=str)
        with self._lock:
            try:
                sys.stdout.write(line + "\n")
                sys.stdout.flush()
            except (BrokenPipeError, ValueError):
                return  # the parent is gone; watch_parent stops the job

    def step(self, slice_name: str, step: Step) -> None:
        """See Progress."""
        known = self._steps.get(slice_name)
        if known is not None and known[0] is step is Step.IDLE:
            self.send(StepBegun(slice_name, step))
            return
        now_s = self._clock.monotonic_s()
        took_ms = round(1000 * (now_s - known[2])) if known else None
        self._steps[slice_name] = (step, self._clock.now_ms(), now_s)
        self.send(StepBegun(slice_name, step, known[0] if known else None, took_ms))

    def landed(self, slice_name: str, batch: BatchLanded) -> None:
        """See Progress."""
        sizes = (batch.rows, batch.files, batch.lag)
        hanging = self._count_hanging()
        self.send(Landed(slice_name, *sizes, hanging, batch.batch, batch.entry, batch.tables))

    def retired(self, slice_name: str, retired: PartitionsRetired) -> None:
        """See Progress."""
        counts = (retired.entry, retired.partitions, retired.files)
        self.send(Retired(slice_name, *counts, retired.tables))

    def sealed(self, slice_name: str, entry: int, sealed: TablePartitions) -> None:
        """See Progress."""
        self.send(PartitionsSealed(slice_name, entry, sealed.count, sealed.names))

    def registered(self, slice_name: str, registered: TablePartitions) -> None:
        """See Progress."""
        self.send(PartitionsRegistered(slice_name, registered.count, registered.names))

    def recovered(self, slice_name: str, after_ms: int, tries: int) -> None:
        """See Progress."""
        self.send(Recovered(slice_name, after_ms, tries))

    def warn(self, slice_name: str, message: str) -> None:
        """See Progress."""
        self.send(WarningEvent(slice_name, message))

    def note(self, slice_name: str, message: str) -> None:
        """See Progress."""
        self.send(Note(slice_name, message))

    def query(self, slice_name: str, progress: QueryProgress) -> None:
        """See Progress."""
        self._workers[slice_name] = WorkerBeat(slice_name, self._clock.now_ms(), query=progress)
        self.send(QueryProgressed(slice_name, progress))

    def stopped(self, slice_name: str, message: str) -> None:
        """See Progress."""
        self._steps.pop(slice_name, None)  # what it was at is no step that does not end
        known = self._workers.get(slice_name)
        query, since_ms = known.query if known else None, self._clock.now_ms()
        self._workers[slice_name] = WorkerBeat(slice_name, since_ms, message, query)
        self.send(WarningEvent(slice_name, f"{STOPPED}{message}"))

    def measured(self, measure: Measure) -> None:
        """See Progress."""
        self.send(measure)


def watch_parent(on_gone: Callable[[], None], on_line: Callable[[str], None]) -> None:
    """Call `on_gone` once stdin ends: the parent holds its other end open as long as it lives.

    `on_line`: called with each line that the parent writes there, without its end.
    """

    def wait() -> None:
        # The descriptor, not sys.stdin: its lock would be taken when the interpreter ends.
        rest = b""
        while data := os.read(0, 1 << 16):
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                on_line(line.decode())
        on_gone()

    threading.Thread(target=wait, name="parent", daemon=True).start()
