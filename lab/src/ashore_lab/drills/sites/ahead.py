"""Processes of a job that are started before it is their turn, so that a drill need not wait.

What it is: `Ahead`, for one real site. Starting Spark is most of what a short form does; here the
next process does it while the one before is at work.
What it promises: a process that waits has read no log and written nothing: it continues, by the job
file as it is then, when it is taken. Whatever happens, none is left.
"""

import threading
from collections import deque
from collections.abc import Mapping
from pathlib import Path

from ashore.jobs.jars import SHORT_LIVED
from ashore.jobs.launch import JobLaunch, LaunchOptions

# A drill's processes end before the second compiler of the JVM pays: they start in half the time.
JVM = " ".join(SHORT_LIVED)
DRIVER_OPTIONS = "spark.driver.extraJavaOptions"


class Ahead:
    """The processes that wait, by the job file that they were started with. Used by any thread."""

    def __init__(self, environment: Mapping[str, str], *, uses_spark: bool = True) -> None:
        self._environment = environment
        self._uses_spark = uses_spark
        self._lock = threading.Lock()
        self._waiting: dict[Path, deque[JobLaunch]] = {}
        self._expected = 0

    def expect(self, lives: int) -> None:
        """Take down how many processes will be taken, one after the other."""
        self._expected = lives

    def start_next(self, job_file: Path) -> None:
        """Start one of those that are expected, if there are any left."""
        if self._expected > 0:
            self._expected -= 1
            self.start(job_file)

    def start(self, job_file: Path) -> None:
        """Start a process that waits. Raises JavaMissing, JarMismatch, ServiceError."""
        launch = self._make(job_file)
        launch.start_waiting()
        with self._lock:
            self._waiting.setdefault(job_file, deque()).append(launch)

    def take(self, job_file: Path) -> JobLaunch:
        """Return a process that continues now: the first that waits, else a new one."""
        with self._lock:
            waiting = self._waiting.get(job_file)
            launch = waiting.popleft() if waiting else None
        if launch is None:
            launch = self._make(job_file)
            launch.start()
        else:
            launch.release()
        return launch

    def close(self) -> None:
        """Kill what still waits."""
        self._expected = 0
        with self._lock:
            left = [launch for waiting in self._waiting.values() for launch in waiting]
            self._waiting.clear()
        for launch in left:
            launch.kill()
        for launch in left:
            launch.wait()

    def _make(self, job_file: Path) -> JobLaunch:
        options = LaunchOptions(
            available_now=True, environment=self._environment, uses_spark=self._uses_spark
        )
        return JobLaunch("run", job_file, options)
