"""The process that runs one job for a server: `python -m ashore.fleet.machine.run`.

What it is: what `ashore run` is to a person: preflight, the job process, a watch for
a job that hangs; what happens is written to files instead of a terminal.
What it promises: it holds the job's lock for its life. Which process it is is written before
anything else, and how it ended last: a server may come and go meanwhile. SIGTERM ends the job in
order, SIGKILL leaves no process behind.
"""

import os
import signal
import sys
import traceback
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from ashore.base.clock import SystemClock
from ashore.errors import AshoreError, ExitCode
from ashore.fleet.machine.background import Background
from ashore.fleet.machine.processes import StartOrder, own_start_ms
from ashore.fleet.machine.recorder import RunRecorder
from ashore.fleet.records.job_files import JobFile, read_job_file
from ashore.fleet.records.layout import RunFiles
from ashore.fleet.records.store import write_record
from ashore.fleet.records.values import ExitRecord, ProcessRecord
from ashore.jobs.events import Note, WarningEvent
from ashore.jobs.failure import Failed
from ashore.jobs.file import Job
from ashore.jobs.file.metrics import Metrics
from ashore.jobs.launch import JobLaunch, LaunchOptions
from ashore.jobs.metrics.export import exported
from ashore.jobs.metrics.job_metrics import JobMetrics
from ashore.topics.use.run_job import SIGNALLED, failure_of, running

METRICS_EVERY = "10s"
OUTPUT_BYTES = 5_000_000  # of Spark's own log, and of this process's output
LOOK_AT_OUTPUT_S = 2.0


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
