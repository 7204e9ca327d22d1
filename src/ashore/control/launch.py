"""Starting a job process and listening to it.

What it is: `JobLaunch`, one run of `python -m ashore.spark.main`.
What it promises: the process ends when this one does: its stdin is a pipe that nobody else holds.
Its events come as dictionaries; what is not an event is passed on as talk. What Spark and the JVM
say on stderr goes to a file, whose path is told when the process fails.
What it must not know: how events are shown.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Self

from ashore.services.jars import jar_paths
from ashore.services.java import find_java

Event = Mapping[str, object]


def log_directory() -> Path:
    """Return where logs of job processes go: $ASHORE_HOME/logs, else ~/.local/state/ashore/logs."""
    own = os.environ.get("ASHORE_HOME")
    return (Path(own) if own else Path.home() / ".local" / "state" / "ashore") / "logs"


class JobLaunch:
    """A job process. As a context manager it is stopped and waited for at the end."""

    def __init__(
        self,
        command: str,
        job_file: str | Path,
        *,
        available_now: bool = False,
        debug: bool = False,
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._arguments = [command, str(job_file)] + (["--debug"] if debug else [])
        self._environment = environment
        self._debug = debug
        self.log_path = (
            log_directory() / f"{Path(job_file).stem}-{time.strftime('%Y%m%dT%H%M%S')}.log"
        )
        if available_now:
            self._arguments.append("--available-now")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the process. Raises JavaMissing, JarMismatch, ServiceError."""
        java = find_java()
        jars = [argument for jar in jar_paths("spark-kafka") for argument in ("--jar", str(jar))]
        environment = {**os.environ, **self._environment}
        environment["JAVA_HOME"] = str(Path(java).resolve().parent.parent)
        environment["PYTHONUNBUFFERED"] = "1"
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "ashore.spark.main", *self._arguments, *jars],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=None if self._debug else log,
                env=environment,
                start_new_session=True,
            )

    def events(self) -> Iterator[Event]:
        """Yield what the process tells, until it ends."""
        stdout = self._running().stdout
        if stdout is None or stdout.closed:
            return
        for line in stdout:
            try:
                event = json.loads(line)
            except ValueError:
                event = {"event": "talk", "message": line.decode(errors="replace").rstrip()}
            if isinstance(event, dict):
                yield event

    def start_held(self) -> None:
        """Start the process: it starts Spark and a worker, and waits for `release`."""
        self._arguments.append("--hold")
        self.start()

    def release(self) -> None:
        """Let a held process go on. It reads the job file again."""
        stdin = self._running().stdin
        if stdin is not None:
            with suppress(BrokenPipeError):  # it has ended: `events` and `wait` tell how
                stdin.write(b"\n")
                stdin.flush()

    def stop(self) -> None:
        """Ask for an orderly stop."""
        if self._running().poll() is None:
            self._running().send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the process and the JVM that it started, with SIGKILL."""
        if self._running().poll() is None:
            os.killpg(self._running().pid, signal.SIGKILL)

    def wait(self) -> int:
        """Wait for the end and return the exit code; negative: the signal that ended it.

        Events that were not read are dropped: a process that cannot tell them would not end.
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
