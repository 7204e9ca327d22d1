"""Starting the process that runs a job, finding one that lives, and ending it; and limits of them.

What it is: `Processes`; `ServerLimits`, how many jobs a server runs at once, and how much memory
they may use; and `Memory`, which looks at what processes use.
What it promises: one process of a job lives at a time, also after crashes. A start takes the
job's lock and hands it to the process, which holds it for its life: so between any two steps of a
start the lock shows whether there is a process, and nothing else. A signal reaches the
process that was meant, or none. A limit that is reached keeps further jobs waiting, and says which;
nothing that runs is ended for another. What processes use is looked at now and then: each look
costs time.
"""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass
from pathlib import Path

import psutil

from ashore.base.http_post import ALLOW
from ashore.base.unique import unique
from ashore.fleet.machine.locks import is_locked, take_lock
from ashore.fleet.records.server_files import Desired, OperationProcess, ProcessRecord, ServerFiles
from ashore.fleet.records.store import read_record
from ashore.jobs.heartbeat import SAME_START_S


@dataclass(frozen=True, slots=True)
class StartOrder:
    """The arguments of a process that runs a job.

    Arguments:
        run: unique for this start.
        job_file: of the job.
        directory: where the files of its run are.
        generation: see `Desired`, as the next.
        lock: the descriptor of the lock that it holds.

    """

    run: str
    job_file: Path
    directory: Path
    generation: int
    attempt: int
    lock: int

    def arguments(self) -> list[str]:
        """Return them as text."""
        return [str(each) for each in astuple(self)]

    @classmethod
    def read(cls, arguments: Sequence[str]) -> "StartOrder":
        """Return what `arguments` says. Raises ValueError."""
        run, job_file, directory, *numbers = arguments
        generation, attempt, lock = map(int, numbers)
        return cls(run, Path(job_file), Path(directory), generation, attempt, lock)


Command = Callable[[StartOrder], list[str]]


def run_command(order: StartOrder) -> list[str]:
    """Return the command of the process that runs a job."""
    return [sys.executable, "-m", "ashore.fleet.machine.run", *order.arguments()]


def child_environment() -> dict[str, str]:
    """Return the environment of a child: it posts to inner addresses only if allowed."""
    return {ALLOW: "", **os.environ}


class Children:
    """Processes that this one has started, and that may outlive it."""

    def __init__(self) -> None:
        self._pids: set[int] = set()

    def take(self, child: "subprocess.Popen[bytes]") -> None:
        """Keep a child to reap. Its exit code is in a file: no other code waits for it."""
        self._pids.add(child.pid)
        child.returncode = 0  # else its end would warn that it still runs

    def reap(self) -> None:
        """Take those that have ended from the process table. Never waits."""
        for pid in tuple(self._pids):
            try:
                is_over = os.waitpid(pid, os.WNOHANG)[0] == pid
            except ChildProcessError:
                is_over = True
            if is_over:
                self._pids.discard(pid)


class LivingProcess:
    """A process of a job that lives, or did when it was found.

    Arguments:
        record: what it has written of itself; None: not yet, or it is another's.
        handle: a descriptor that stands for it; None: it is not known which it is.

    """

    def __init__(self, record: ProcessRecord | None, handle: int | None) -> None:
        self.record = record
        self.handle = handle

    def has_ended(self) -> bool:
        """Return whether it has ended. Never waits."""
        if self.handle is None:
            return False
        poll = select.poll()
        poll.register(self.handle, select.POLLIN)
        return bool(poll.poll(0))

    def send(self, number: int) -> bool:
        """Send a signal; return whether there was a process to take it."""
        if self.handle is None:
            return False
        try:
            signal.pidfd_send_signal(self.handle, number)
        except ProcessLookupError:
            return False
        return True

    def close(self) -> None:
        """Close the descriptor; the process continues."""
        if self.handle is not None:
            os.close(self.handle)
            self.handle = None


class Processes:
    """The processes of all jobs. Used by one thread of one server per state directory.

    Arguments:
        layout: where the files of runs are.
        command: how a process is started.
        is_under_way: whether an operation, which may stop or run a job, has not ended.

    """

    def __init__(
        self,
        layout: ServerFiles,
        command: Command = run_command,
        is_under_way: Callable[[str], bool] = lambda _operation: False,
    ) -> None:
        self._layout = layout
        self._command = command
        self.is_under_way = is_under_way
        self._children = Children()

    def start(self, job: str, job_file: Path, desired: Desired) -> bool:
        """Start a process of a job; return False where one lives. Raises OSError."""
        run = self._layout.run_of(job)
        run.root.mkdir(parents=True, exist_ok=True)
        lock = take_lock(run.lock)  # 1. From here on no one else starts it.
        if lock is None:
            return False
        try:
            order = StartOrder(
                unique(), job_file, run.root, desired.generation, desired.attempt, lock
            )
            # 2. The process holds the lock, as soon as there is one.
            with run.output.open("ab") as output:
                child = subprocess.Popen(
                    self._command(order),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    pass_fds=(lock,),
                    start_new_session=True,
                    cwd=job_file.parent,
                    env=child_environment(),
                )
        finally:
            os.close(lock)  # 3. Only the process holds it now.
        self._children.take(child)
        return True

    def find(self, job: str) -> LivingProcess | None:
        """Return the process of a job that lives; None: there is none. Raises OSError."""
        run = self._layout.run_of(job)
        if not is_locked(run.lock):
            return None
        record = read_record(ProcessRecord, run.process)
        handle = None if record is None else open_process(record)
        return LivingProcess(None if handle is None else record, handle)

    def reap(self) -> None:
        """Take the exit codes of children that have ended: they leave the process table."""
        self._children.reap()


def own_start_ms() -> int:
    """Return when this process was started, as the system says."""
    return round(psutil.Process().create_time() * 1000)


def open_process(record: ProcessRecord | OperationProcess) -> int | None:
    """Return a descriptor of the process that a record is of; None: it has ended."""
    try:
        handle = os.pidfd_open(record.pid)
    except OSError:
        return None
    with suppress(psutil.Error):
        # Looked at after the descriptor was had: its number cannot pass to another in between.
        started_ms = psutil.Process(record.pid).create_time() * 1000
        if abs(started_ms - record.started_ms) < SAME_START_S * 1000:
            return handle
    os.close(handle)
    return None


# ---- limits

LOOK_EVERY_MS = 10_000
_PAGE = 4096


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """What a server allows. None: no limit."""

    jobs_max: int | None = None  # at once
    memory_max_bytes: int | None = None  # of all jobs
    job_memory_max_bytes: int | None = None  # of one; one that uses more is started again
    job_memory_bytes: int = 1_500_000_000  # counted for a job that has just been started

    def words_of(self, used_bytes: int) -> str:
        """Return how much a job uses that is above its limit, in words."""
        limit = (
            f" of {self.job_memory_max_bytes / 1e6:,.0f} MB" if self.job_memory_max_bytes else ""
        )
        return f"{used_bytes / 1e6:,.0f} MB, above the limit{limit} (--max-job-memory)"

    def why_full(self, living: int, memory: "Memory") -> str:
        """Return why no further job may start now; empty: one may."""
        if self.jobs_max is not None and living >= self.jobs_max:
            return f"{living} jobs run, as many as --max-jobs allows"
        if self.memory_max_bytes is not None:
            used = memory.used(living)
            if used + self.job_memory_bytes > self.memory_max_bytes:
                limit = self.memory_max_bytes / 1e9
                return f"jobs use {used / 1e9:.1f} GB of the {limit:.1f} GB of --max-memory"
        return ""


class Memory:
    """What the processes of jobs use. Used by one thread."""

    def __init__(self, limits: ServerLimits) -> None:
        self._limits = limits
        self._seen: dict[str, tuple[str, int, int]] = {}  # by job: run, when, bytes

    def look(self, job: str, process: ProcessRecord | None, now_ms: int) -> int | None:
        """Return what the processes of a job use, as of at most ten seconds ago; None: nothing."""
        if process is None:
            self._seen.pop(job, None)
            return None
        known = self._seen.get(job)
        if known is None or known[0] != process.run or not 0 <= now_ms - known[1] < LOOK_EVERY_MS:
            known = process.run, now_ms, tree_bytes(process.pid)
            self._seen[job] = known
        return known[2]

    def is_too_much(self, used_bytes: int) -> bool:
        """Return whether a job uses more than one may."""
        limit = self._limits.job_memory_max_bytes
        return limit is not None and used_bytes > limit

    def used(self, living: int) -> int:
        """Return what all jobs use, those that have just been started by the usual amount."""
        seen = [each for _, _, each in self._seen.values()]
        return sum(seen) + max(0, living - len(seen)) * self._limits.job_memory_bytes


def tree_bytes(pid: int) -> int:
    """Return the resident memory of a process and all that come from it; 0: it is gone."""
    total, todo = 0, [pid]
    while todo:
        found = todo.pop()
        base = Path(f"/proc/{found}")
        try:
            pages = int((base / "statm").read_text().split()[1])
            shared = int((base / "statm").read_text().split()[2])
            total += max(0, pages - shared) * _PAGE
            for thread in (base / "task").iterdir():
                todo += [int(child) for child in (thread / "children").read_text().split()]
        except (OSError, ValueError, IndexError):
            continue
    return total
