"""`JobLaunch`: starts a job process, with or without Spark, and reads its events.

What it promises: the process ends when this one does: its stdin is a pipe that no other process
has. Lines that are no event come as talk. stderr goes to a file, which a failure names.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from ashore.jobs.class_archive import find_options
from ashore.jobs.events import Ended, Event, Talk, decode_event
from ashore.jobs.failure import Failed
from ashore.jobs.heartbeat import state_directory
from ashore.jobs.jars import find_java, jar_paths


def process_logs() -> Path:
    """Return where logs of job processes go: `logs` in the state directory."""
    return state_directory() / "logs"


@dataclass(frozen=True, slots=True)
class LaunchOptions:
    """How a job process is started."""

    uses_spark: bool = True  # else processes of this machine do what its executors would
    available_now: bool = False  # it ends when everything that was there has landed
    accept_schema: bool = False  # what is risky about changed tables is accepted
    debug: bool = False  # what it says on stderr is shown, tracebacks too
    environment: Mapping[str, str] = field(default_factory=dict)  # beside that of this process
    name: str = ""  # of the job, which its log file is named by; else the job file's
    java_options: str = ""  # of Spark's driver; else those that let it use kept classes
    request: str = ""  # what its command is asked, as JSON; see `ashore.jobs.requests`
    is_state: bool = False  # the state process: a verb of `ashore checkpoint`, or `migrate`


DEFAULT = LaunchOptions()


class JobLaunch:
    """A job process. As a context manager it is stopped and waited for at the end.

    Arguments:
        command: run, reland, validate, sql or test; a verb of the state process.
        job_file: of the job.
        options: how it is started.

    """

    def __init__(
        self, command: str, job_file: str | Path, options: LaunchOptions = DEFAULT
    ) -> None:
        flags = {
            "--available-now": options.available_now,
            "--accept-schema": options.accept_schema,
            "--debug": options.debug,
        }
        self._arguments = [
            command,
            str(job_file),
            *(flag for flag, is_on in flags.items() if is_on),
            *([f"--request={options.request}"] if options.request else []),
        ]
        self._options = options
        name = options.name or Path(job_file).stem
        self.log_path = process_logs() / f"{name}-{time.strftime('%Y%m%dT%H%M%S')}.log"
        self.lines_read = 0  # since the process was started
        self.has_ended = False  # it has reported its end; its JVM may take a while to exit
        self.is_killed = False  # by `kill`
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the process. Raises JavaMissing, JarMismatch, ServiceError."""
        environment = {**os.environ, **self._options.environment, "PYTHONUNBUFFERED": "1"}
        module, arguments = "ashore.topics.run.processes.main", self._arguments
        if self._options.uses_spark:
            module = (
                "ashore.queries.spark.state.main"
                if self._options.is_state
                else "ashore.queries.spark.main"
            )
            environment["JAVA_HOME"] = str(find_java().resolve().parent.parent)
            arguments = [*arguments, *(f"--jar={jar}" for jar in jar_paths("spark-kafka"))]
            if options := self._options.java_options or find_options():
                arguments.append(f"--java-options={options}")
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=None if self._options.debug else log,
                env=environment,
                start_new_session=True,
            )

    def events(self) -> Iterator[Event]:
        """Yield the events of the process, until it ends."""
        stdout = self._running().stdout
        if stdout is None or stdout.closed:
            return
        for line in stdout:
            self.lines_read += 1
            event = _read(line)
            self.has_ended |= isinstance(event, Ended | Failed)
            yield event

    def start_waiting(self) -> None:
        """Start the process: it starts Spark and a worker, and waits for `release`."""
        self._arguments.append("--hold")
        self.start()

    def release(self) -> None:
        """Release a process that was started to wait. It reads the job file again."""
        self.write_line("")

    def write_line(self, line: str) -> None:
        """Write a line to the process, if it has not ended."""
        stdin = self._running().stdin
        if stdin is not None and not stdin.closed:
            try:
                stdin.write(f"{line}\n".encode())
                stdin.flush()
            except BrokenPipeError:  # it has ended: `events` and `wait` report how
                with suppress(BrokenPipeError):
                    stdin.close()  # which writes again what could not be written

    def stop(self) -> None:
        """Ask for an orderly stop."""
        if self._running().poll() is None:
            self._running().send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the process and the JVM that it started, with SIGKILL."""
        if self._running().poll() is None:
            self.is_killed = True
            os.killpg(self._running().pid, signal.SIGKILL)

    def wait(self) -> int:
        """Wait for the end and return the exit code; negative: the signal that ended it.

        Events that were not read are dropped: a process that cannot write them would not end.
        """
        process = self._running()
        for _dropped in self.events():
            pass
        code = process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        return code

    @property
    def pid(self) -> int:
        """The process id; also the id of its group."""
        return self._running().pid

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            self.start()
        return self._process or self._running()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self.wait()


def _read(line: bytes) -> Event:
    try:
        event = decode_event(json.loads(line))
    except ValueError:
        event = None
    return event or Talk(line.decode(errors="replace").rstrip())
