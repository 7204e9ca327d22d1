"""A process that reads texts which anybody may have written, within limits.

What it is: `CheckProcesses`, which has a few of them, and `main`, which each runs.
What it promises: a text that takes too long or too much memory costs its process, never the server:
no thread of the server computes meanwhile. More texts than may wait are refused. A process is kept
for the next text, and ends with the server, also one that is checking and whose server was killed.
"""

import pickle
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO, TypeVar, cast

from ashore.errors import AshoreError, JobFileInvalid, RequestInvalid, ServerBusy, error_of
from ashore.jobs.file import Job
from ashore.topics.loop.job import load_job_file

T = TypeVar("T")
CHECK_S = 10.0
PROCESSES = 2
WAITING_MAX = 8
MEMORY_BYTES = 1 << 30
_CODE = "from ashore.fleet.machine.check_process import main; main()"
STARTS_S = 30.0  # before the first check: Python and the loader of job files
ALONE_S = 15  # longer than any check: a process that checks for longer has lost its server


class CheckProcesses:
    """Calls functions in processes of their own. `call` may be called by many threads."""

    def __init__(self, check_s: float = CHECK_S) -> None:
        self._check_s = check_s
        self._free = threading.BoundedSemaphore(PROCESSES)
        self._waiting = threading.BoundedSemaphore(PROCESSES + WAITING_MAX)
        self._lock = threading.Lock()
        self._idle: list[_CheckProcess] = []
        self._busy: set[_CheckProcess] = set()
        self._is_over = False

    def call(self, function: Callable[..., T], *values: object) -> T:
        """Return what a function of a module returns. Raises what it raises of Ashore's errors.

        Raises RequestInvalid where it takes too long or too much memory, ServerBusy where too many
        wait.
        """
        if not self._waiting.acquire(blocking=False):
            raise ServerBusy("other job files are being checked", hint="ask again in a few seconds")
        try:
            return self._call(function, *values)
        finally:
            self._waiting.release()

    def load_job(self, path: Path, *, is_patient: bool = True) -> Job:
        """Return the job in a file. Raises JobFileInvalid.

        `is_patient`: wait for a turn however many do; else ServerBusy is raised as by `call`.
        """
        call = self._call if is_patient else self.call
        try:
            return call(load_job_file, path)
        except RequestInvalid as error:
            raise JobFileInvalid(f"{path.name}: {error.message}", hint=error.hint) from None

    def close(self) -> None:
        """End the processes, also those that check: their callers get an error."""
        with self._lock:
            self._is_over = True
            idle, self._idle = self._idle, []
            for each in self._busy:
                each.end()
        for each in idle:
            each.kill()

    def _call(self, function: Callable[..., T], *values: object) -> T:
        with self._free:
            process = self._take()
            try:
                answer = process.call((function, values), self._check_s)
            finally:
                self._put_back(process)
        if isinstance(answer, _Raised):
            raise error_of(answer.code, answer.message, hint=answer.hint, **answer.fields)
        return cast("T", answer)

    def _take(self) -> "_CheckProcess":
        with self._lock:
            if self._is_over:
                raise ServerBusy("the server is shutting down", hint="ask again once it runs")
            process = self._idle.pop() if self._idle else _CheckProcess()
            self._busy.add(process)
        return process

    def _put_back(self, process: "_CheckProcess") -> None:
        with self._lock:
            self._busy.discard(process)
            is_kept = process.is_alive and not self._is_over
            if is_kept:
                self._idle.append(process)
        if not is_kept:
            process.kill()


class _Raised:
    """An error of Ashore's that a check has raised."""

    def __init__(self, error: AshoreError) -> None:
        self.code, self.message, self.hint = error.code, error.message, error.hint
        self.fields: Mapping[str, Any] = error.fields


class _CheckProcess:
    """One process. Used by one thread at a time."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _CODE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for the server
        )
        self._is_new = True

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def call(self, request: object, check_s: float) -> object:
        stdin, stdout = (cast("BinaryIO", each) for each in self._pipes)
        try:
            if self._is_new:
                with self._killed_after(STARTS_S):
                    pickle.load(stdout)  # noqa: S301 - this program wrote it: it is ready
            self._is_new = False
            with self._killed_after(check_s):
                pickle.dump(request, stdin)
                stdin.flush()
                return pickle.load(stdout)  # noqa: S301 - as above
        except (OSError, EOFError, pickle.UnpicklingError):
            self.kill()
            raise RequestInvalid(
                f"this text takes more than {check_s:.0f} s or too much memory to check",
                hint="make it smaller; `ashore validate` checks a job file without a limit",
            ) from None

    @contextmanager
    def _killed_after(self, seconds: float) -> Iterator[None]:
        watch = threading.Timer(seconds, self._process.kill)
        watch.daemon = True
        watch.start()
        try:
            yield
        finally:
            watch.cancel()

    @property
    def _pipes(self) -> tuple[IO[bytes] | None, IO[bytes] | None]:
        return self._process.stdin, self._process.stdout

    def end(self) -> None:
        """Kill it while another thread waits for its answer."""
        self._process.kill()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        for each in self._pipes:
            if each is not None:
                try:
                    each.close()
                except OSError:
                    continue  # what was left in its buffer is of no use now


def main() -> None:
    """Answer calls until stdin ends."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    answers = sys.stdout.buffer
    pickle.dump(None, answers)  # what it needs is loaded: the time of a check begins with its text
    answers.flush()
    while True:
        try:
            function, values = pickle.load(sys.stdin.buffer)  # noqa: S301 - the server wrote it
        except EOFError:
            return
        answer: Any
        signal.alarm(ALONE_S)  # it kills the process, whatever is under way
        try:
            answer = function(*values)
        except AshoreError as error:
            answer = _Raised(error)
        except Exception as error:  # noqa: BLE001 - the process is kept for others
            problem = f"this text cannot be checked: {type(error).__name__}"
            answer = _Raised(RequestInvalid(problem, hint="`ashore validate` shows the traceback"))
        signal.alarm(0)
        pickle.dump(answer, answers)
        answers.flush()
