"""Running a job: its process, the watch that notices a hang, and its metrics.

What it is: `running`, for callers that show or collect the events of a run: the command, a library.
What it promises: metrics are served before the process is started and until it has ended; a process
that is silent for the job's `patience` is killed.
"""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Protocol

from ashore.errors import JobProcessEnded
from ashore.jobs.events import Event
from ashore.jobs.failure import Failed
from ashore.jobs.file import Job
from ashore.jobs.launch import JobLaunch

TRACES = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
NO_TRACES = (("OTEL_SDK_DISABLED", "true"), ("OTEL_TRACES_EXPORTER", "none"))
SIGNALLED = 128  # and the number of a signal: the exit code of what it has ended
AGAIN = "start it again: it resumes from its landing log"


@dataclass(frozen=True, slots=True)
class Running:
    """A job process that runs. Used by one thread."""

    launch: JobLaunch
    take: Callable[[Event], None]  # counts an event
    end: Callable[[int], None]  # counts the exit code

    def events(self) -> Iterator[Event]:
        """Yield what the process reports, until it ends."""
        for event in self.launch.events():
            self.take(event)
            yield event

    def wait(self) -> int:
        """Wait for the end and return the exit code; negative: the signal that ended it."""
        code = self.launch.wait()
        self.end(code)
        return code


def failure_of(code: int, reported: Failed | None, launch: JobLaunch) -> Failed | None:
    """Return how a job process failed: by its report, else by its exit code; None: it did not.

    `code`: as `JobLaunch.wait` returns it.
    """
    if reported is not None or code == 0:
        return reported
    code = code if code >= 0 else SIGNALLED + -code
    message, hint = _describe_end(code, is_killed=launch.is_killed)
    error = JobProcessEnded(message, hint=hint, log=str(launch.log_path))
    return replace(Failed.of(error), exit_code=code)


def _describe_end(code: int, *, is_killed: bool) -> tuple[str, str]:
    """Return how a process ended that reported no error, and what to do."""
    if code != SIGNALLED + signal.SIGKILL:
        numbers = {SIGNALLED + each: each.name for each in signal.Signals}
        how = f"was ended by {numbers[code]}" if code in numbers else f"exited with {code}"
        return f"the job process {how} without an error message", AGAIN
    if is_killed:
        return "the job process was killed with SIGKILL by this command", AGAIN
    message = (
        "the job process was killed with SIGKILL: by the system because memory ran out, by "
        "`ashore stop --now`, or by someone else"
    )
    return (
        message,
        f"`dmesg` or the container's status says whether memory ran out; then {AGAIN}",
    )


@contextmanager
def running(job: Job, launch: JobLaunch, warn: Callable[[str], None]) -> Iterator[Running]:
    """Run a job process while inside. Raises MetricsNotExported, JavaMissing, JarMismatch.

    `warn` gets sentences for people, by other threads too.
    """
    with ExitStack() as outer:
        takes: list[Callable[[Event], None]] = []
        end: Callable[[int], None] = _ignore
        if job.metrics is not None:
            # 0.1 s, for these jobs
            from ashore.jobs.metrics.export import exported  # noqa: PLC0415 - as above
            from ashore.jobs.metrics.job_metrics import JobMetrics  # noqa: PLC0415 - as above

            metrics = JobMetrics(job.job)
            outer.enter_context(exported(metrics.registry, job.metrics, warn))
            takes, end = [metrics.take], metrics.end
        if _is_traced():
            from ashore.jobs.metrics.traces import traced  # noqa: PLC0415 - as above

            takes.append(outer.enter_context(traced(job.job, warn)))
        outer.enter_context(launch)
        outer.enter_context(Watch(launch, job.patience_ms / 1000, warn))

        def take(event: Event) -> None:
            for each in takes:
                each(event)

        yield Running(launch, take, end)


def _ignore(_value: object) -> None:
    """Count nothing."""


def _is_traced() -> bool:
    """Return whether the environment asks for traces, by OpenTelemetry's own variables."""
    is_off = any(os.environ.get(name, "").casefold() == value for name, value in NO_TRACES)
    return not is_off and any(os.environ.get(name) for name in TRACES)


LOOK_S = 1.0
REPORTED_AFTER_S = 5.0  # the process beats each second


class WatchedProcess(Protocol):
    """A process that is listened to."""

    lines_read: int
    has_ended: bool  # it has reported its end: until it exits, it has nothing to report

    def kill(self) -> None:
        """Kill the process."""
        ...


class Watch:
    """Watches a process while inside. As a context manager.

    `report` gets sentences for people, by the thread of the watch.

    Silence is reported within seconds, once, unless the process has reported its end; after
    `patience_s` of it the process is killed, which is safe at any moment. Time in which this
    process was frozen itself is no silence.
    """

    def __init__(
        self, process: WatchedProcess, patience_s: float, report: Callable[[str], None]
    ) -> None:
        self._process = process
        self._patience_s = patience_s
        self._report = report
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._look, name="watch", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _look(self) -> None:
        seen, silent_s, is_reported = 0, 0.0, False
        # Each look adds what it has waited for, and no more, however late it comes.
        while not self._is_over.wait(LOOK_S):
            now = self._process.lines_read
            if now != seen:
                if is_reported:
                    self._report("the job process responds again")
                seen, silent_s, is_reported = now, 0.0, False
                continue
            silent_s += LOOK_S
            # Before its first word it imports and starts, which may take a while.
            is_due = bool(seen) and silent_s >= REPORTED_AFTER_S and not self._process.has_ended
            if is_due and not is_reported:
                self._report(f"the job process has been silent for {silent_s:.0f} s: {self._end()}")
                is_reported = True
            if silent_s >= self._patience_s:
                self._report(f"the job process was silent for {silent_s:.0f} s: it is killed")
                self._process.kill()
                return

    def _end(self) -> str:
        return f"frozen, or it hangs; it will be killed after {self._patience_s:.0f} s"
