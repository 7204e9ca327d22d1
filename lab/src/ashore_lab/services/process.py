"""A server as a process: started in a session of its own, watched, stopped by its id.

What it is: one server process and the note about it (`<name>.process.json`: pid, start time),
which lets another process stop it later.
What it promises: a process is signalled only if pid and start time are those of the note, so a
reused pid is never hit; nothing is ever looked up by name; a server that does not come up is
stopped, and the error holds the end of its log.
"""

import os
import signal
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from ashore.base.clock import SystemClock
from ashore.errors import ServiceError
from ashore_lab.services.notes import read_note, write_note

CLOCK = SystemClock()
POLL_S = 0.05
KILL_DEADLINE_S = SIGNAL_DEADLINE_S = 10
LOG_TAIL_LINES = 25
SAY_EVERY_S = 20.0
NOTE_SUFFIX = ".process.json"

# A child must be reaped by its parent; until then it is a zombie. Other processes see no difference
# between a zombie and a dead one (see _runs).
_CHILDREN: dict[int, subprocess.Popen[bytes]] = {}


@dataclass(frozen=True, slots=True)
class ProcessId:
    """A process for ever: the pid, and when it started, which distinguishes reused pids.

    `started` is in milliseconds after the boot: no change of the clock changes it.
    """

    pid: int
    started: int

    def is_alive(self) -> bool:
        """Return whether this very process runs. A zombie does not."""
        _reap(self.pid)
        return _start_ms(self.pid) == self.started

    def is_frozen(self) -> bool:
        """Return whether this very process is stopped by SIGSTOP: alive, and doing nothing."""
        with suppress(psutil.NoSuchProcess):
            return self.is_alive() and psutil.Process(self.pid).status() == psutil.STATUS_STOPPED
        return False


@dataclass(frozen=True, slots=True)
class Command:
    """What to start. The log and the note are written to `directory`, which it also runs in."""

    name: str
    arguments: tuple[str, ...]
    directory: Path
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SlowStart:
    """How to wait for a server that takes the longer the more it has: while its log grows.

    `most_s`: after that it is ended all the same. `say`: called now and then with what is waited
    for.
    """

    most_s: float
    say: Callable[[str], None]


class ServerProcess:
    """One server. Any number of objects, in any process, may stand for the same one."""

    def __init__(self, name: str, directory: Path) -> None:
        self.name = name
        self.log_path = directory / f"{name}.log"
        self._note = directory / f"{name}{NOTE_SUFFIX}"

    def id(self) -> ProcessId | None:
        """Return what was started last, dead or alive, or None after a stop."""
        note = read_note(self._note, ("pid", "started"))
        return ProcessId(int(note["pid"]), int(note["started"])) if note else None

    def is_alive(self) -> bool:
        """Return whether the process runs."""
        known = self.id()
        return known is not None and known.is_alive()

    def start(
        self,
        command: Command,
        is_ready: Callable[[str], bool],
        *,
        deadline_s: float = 60,
        slow: SlowStart | None = None,
    ) -> None:
        """Start and wait until `is_ready`, which is given the log of this start.

        With `slow` the deadline is put off each time that the log has grown.
        Raises ServiceError with the end of the log if the process ends or the deadline passes.
        If interrupted: the process is killed, unless we are: then the note names it.
        """
        if self.is_alive():
            raise ServiceError(
                f"{self.name} is already running, pid {self.id()}", hint="stop it first"
            )
        log_start = self.log_path.stat().st_size if self.log_path.exists() else 0
        self._spawn(command)
        try:
            self._wait_until_ready(is_ready, log_start, deadline_s, slow)
        except BaseException:
            self.kill()
            raise

    def stop(self, *, grace_s: float = 15) -> None:
        """End the process and its session: SIGTERM, after `grace_s` SIGKILL. Nothing if gone."""
        known = self.id()
        if known is not None:
            _signal_session(known, signal.SIGTERM)
            _signal_session(known, signal.SIGCONT)  # a frozen one hears the first only then
            if not _wait_until_gone(known, grace_s):
                self.kill()
        self._note.unlink(missing_ok=True)

    def kill(self) -> None:
        """End the process and its session with SIGKILL, as a power cut would."""
        known = self.id()
        if known is not None:
            _signal_session(known, signal.SIGKILL)
            if not _wait_until_gone(known, KILL_DEADLINE_S):
                raise ServiceError(f"{self.name}, pid {known.pid}, is still running after SIGKILL")
        self._note.unlink(missing_ok=True)

    def freeze(self) -> None:
        """Stop the process and its session by SIGSTOP: its sockets stay open, without answers."""
        self._signal(signal.SIGSTOP)
        self._wait_until(self.is_frozen)

    def thaw(self) -> None:
        """Let a frozen process continue."""
        self._signal(signal.SIGCONT)
        self._wait_until(lambda: not self.is_frozen())

    def is_frozen(self) -> bool:
        """Return whether the process is frozen."""
        known = self.id()
        return known is not None and known.is_frozen()

    def _signal(self, number: signal.Signals) -> None:
        known = self.id()
        if known is None or not known.is_alive():
            raise ServiceError(f"{self.name} is not running", hint="start it first")
        _signal_session(known, number)

    def _wait_until(self, is_so: Callable[[], bool]) -> None:
        deadline = CLOCK.monotonic_s() + SIGNAL_DEADLINE_S
        while not is_so():
            if CLOCK.monotonic_s() > deadline:
                raise ServiceError(f"{self.name} does not react to a signal")
            CLOCK.sleep(POLL_S / 10)

    def _spawn(self, command: Command) -> None:
        command.directory.mkdir(parents=True, exist_ok=True)
        with self.log_path.open("ab") as log:
            child = subprocess.Popen(
                command.arguments,
                cwd=command.directory,
                env={**os.environ, **command.environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        _CHILDREN[child.pid] = child
        write_note(self._note, {"pid": child.pid, "started": _start_ms(child.pid) or 0})

    def _wait_until_ready(
        self,
        is_ready: Callable[[str], bool],
        log_start: int,
        deadline_s: float,
        slow: SlowStart | None,
    ) -> None:
        began = CLOCK.monotonic_s()
        deadline, next_said, size = began + deadline_s, began + SAY_EVERY_S, 0
        while not is_ready(log := self._read_log(log_start)):
            now = CLOCK.monotonic_s()
            if slow is not None and len(log) > size:
                size, deadline = len(log), min(now, began + slow.most_s) + deadline_s
            if slow is not None and now > next_said:
                next_said = now + SAY_EVERY_S
                slow.say(
                    f"{self.name} has been starting for {now - began:.0f} s, and its log grows: "
                    f"{self.log_path}"
                )
            ended = not self.is_alive()
            if ended or now > deadline:
                tail = "\n  ".join(log.splitlines()[-LOG_TAIL_LINES:])
                what = "ended" if ended else f"was not ready after {now - began:.0f} s"
                raise ServiceError(
                    f"{self.name} {what}; its log ends with\n  {tail}", hint=f"see {self.log_path}"
                )
            CLOCK.sleep(POLL_S)

    def _read_log(self, start: int) -> str:
        with self.log_path.open("rb") as log:
            log.seek(start)
            return log.read().decode("utf-8", "replace")


def session_members(leader: ProcessId) -> list[ProcessId]:
    """Return the running processes of the session that `leader` began, itself among them.

    A session outlives its leader, and its id is not given away while it has members; so members
    that are younger than the leader belong to it, unless a new process has the pid.
    """
    if (started := _start_ms(leader.pid)) is not None and started != leader.started:
        return []
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.NoSuchProcess, ProcessLookupError, PermissionError):
            if os.getsid(process.pid) == leader.pid and _runs(process):
                found.append(ProcessId(process.pid, _started(process)))
    return [each for each in found if each.started >= leader.started]


def children_of(parent: ProcessId) -> list[ProcessId]:
    """Return the running children of a process."""
    with suppress(psutil.NoSuchProcess):
        children = psutil.Process(parent.pid).children() if parent.is_alive() else []
        return [ProcessId(each.pid, _started(each)) for each in children if _runs(each)]
    return []


def signal_process(process: ProcessId, number: signal.Signals) -> None:
    """Signal this very process, if it still runs."""
    if process.is_alive():
        with suppress(ProcessLookupError):
            os.kill(process.pid, number)


def _signal_session(leader: ProcessId, number: signal.Signals) -> None:
    for member in session_members(leader):
        signal_process(member, number)


def _wait_until_gone(leader: ProcessId, deadline_s: float) -> bool:
    deadline = CLOCK.monotonic_s() + deadline_s
    while session_members(leader):
        if CLOCK.monotonic_s() > deadline:
            return False
        CLOCK.sleep(POLL_S)
    _reap(leader.pid)
    return True


def _reap(pid: int) -> None:
    child = _CHILDREN.get(pid)
    if child is not None and child.poll() is not None:
        del _CHILDREN[pid]


def _start_ms(pid: int) -> int | None:
    """Return when a running process started, in milliseconds after the boot, or None."""
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        return _started(process) if _runs(process) else None
    return None


def _started(process: psutil.Process) -> int:
    after_boot_s: float = process.create_time() - psutil.boot_time()
    return round(after_boot_s * 1_000)


def _runs(process: psutil.Process) -> bool:
    # A killed JVM is a zombie first, while its threads still end and hold its sockets.
    return bool(process.status() != psutil.STATUS_ZOMBIE or process.num_threads() > 1)
