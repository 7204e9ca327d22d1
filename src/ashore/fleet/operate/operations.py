"""Long work that survives the server: a command in a process of its own, with files.

What it is: `Operations`: asked for, queued, started, looked at, cancelled, forgotten.
What it promises: progress and result are files that the process itself writes, so a server that
dies loses none; the next one finds what still runs by the lock that the process holds, and starts
what was not started. No operation is started twice.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from ashore.base.clock import Clock, SystemClock
from ashore.base.unique import unique
from ashore.errors import ExitCode, OperationUnknown, ServerBusy
from ashore.fleet.machine.background import END_S, Background
from ashore.fleet.machine.locks import is_locked, take_lock
from ashore.fleet.machine.processes import Children, child_environment, open_process
from ashore.fleet.operate.commands import CommandTwin, Value
from ashore.fleet.records.server_files import (
    OperationEnd,
    OperationFiles,
    OperationProcess,
    OperationProgress,
    OperationRequest,
)
from ashore.fleet.records.store import read_record, write_record

AT_ONCE, WAITING_MAX, KEPT_MAX = 4, 100, 1_000
KEPT_MS = 30 * 86_400_000
KILL_AFTER_S = 15.0
RESULT_BYTES_MAX, TALK_BYTES = 2_000_000, 4_000
CANCELLED = ExitCode.INTERRUPTED
LOOK_S = 0.5


class OperationState(StrEnum):
    """Where an operation is."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"  # its exit code is 0
    ANSWERED = "answered"  # it was done, and its exit code says what was found
    FAILED = "failed"
    CANCELLED = "cancelled"
    LOST = "lost"  # its process is gone and left no exit code


FINAL = frozenset(
    {
        *(OperationState.DONE, OperationState.ANSWERED, OperationState.FAILED),
        *(OperationState.CANCELLED, OperationState.LOST),
    }
)


@dataclass(frozen=True, slots=True)
class OperationView:
    """An operation as it is now."""

    request: OperationRequest
    state: OperationState
    process: OperationProcess | None
    progress: OperationProgress | None
    end: OperationEnd | None
    is_cancelled: bool
    stderr: str  # the newest lines on stderr

    @property
    def is_final(self) -> bool:
        """Whether it has ended."""
        return self.state in FINAL

    @property
    def exit_code(self) -> int | None:
        """The exit code of its command; None: it has not ended, or left none."""
        return self.end.code if self.end and self.is_final else None

    @property
    def outcome(self) -> str:
        """Its state; of one that has answered with what it found: `answered: lost`."""
        if self.state is OperationState.ANSWERED and self.end is not None:
            return f"{self.state}: {self.end.answer}"
        return str(self.state)


Starter = Callable[[OperationFiles, int], list[str]]


def operation_command(files: OperationFiles, lock: int) -> list[str]:
    """Return the command of the process of an operation."""
    return [sys.executable, "-m", "ashore.cli.operation", str(files.root), str(lock)]


class Operations:
    """The operations of a server. May be used by many threads.

    Arguments:
        directory: where their files are.
        base: the directory that commands run in: that of the job files.
        starter: what starts a process.
        clock: of this machine.

    """

    def __init__(
        self,
        directory: Path,
        base: Path,
        starter: Starter = operation_command,
        clock: Clock | None = None,
    ) -> None:
        self._directory = directory
        self._base = base
        self._starter = starter
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._children = Children()
        self._ended: dict[str, OperationView] = {}  # what no longer changes
        self._killing: dict[str, float] = {}
        self._thread = Background("operations", self._look_again)

    # ---- its life

    def start(self) -> None:
        """Begin to start what waits. What an earlier server left is found."""
        self._thread.start()

    def end(self) -> None:
        """Start no more. What runs continues."""
        self._thread.end(END_S)

    # ---- for requests

    def run(
        self,
        command: CommandTwin,
        about: tuple[str, str],
        values: Mapping[str, Value],
        *,
        as_json: bool = True,
        hold: Callable[[str], object] | None = None,
    ) -> str:
        """Ask for a command, and return the id of its operation. Raises as `ask`, RequestInvalid.

        Arguments:
            command: of the command line.
            about: the job, who asks.
            values: of the parameters of the command, by name.
            as_json: whether it prints a document, where it can.
            hold: as `ask` has it.

        """
        line = command.line(values, as_json=as_json)
        is_json = as_json and command.has_json
        return self.ask((command.name, *about), line, is_json=is_json, hold=hold)

    def ask(
        self,
        what: tuple[str, str, str],
        line: list[str],
        *,
        is_json: bool,
        hold: Callable[[str], object] | None = None,
    ) -> str:
        """Write down what is asked for, and return its id. Raises ServerBusy, OSError.

        Arguments:
            what: the command, the job, who asks.
            line: the words of the command line.
            is_json: whether it prints a document.
            hold: called with the id before the operation can be started: what it raises comes from
                here, and nothing is asked for.

        """
        with self._lock:
            waiting = sum(each.state is OperationState.QUEUED for each in self.all())
            if waiting >= WAITING_MAX:
                raise ServerBusy(
                    f"{waiting} operations wait already", hint="cancel some, or ask later"
                )
            now_ms = self._clock.now_ms()
            made = f"{now_ms:013d}-{unique()[:8]}"  # in the order of their names
            command, job, by = what
            request = OperationRequest(made, command, job, tuple(line), by, now_ms, is_json)
            files = self._files(made)
            files.root.mkdir(mode=0o700)
            try:
                if hold is not None:
                    hold(made)
                write_record(files.request, request, 0o600)
            except BaseException:
                shutil.rmtree(files.root, ignore_errors=True)
                raise
        self._thread.wake()
        return made

    def all(self) -> list[OperationView]:
        """Return all operations, the newest first."""
        try:
            names = sorted((path.name for path in self._directory.iterdir()), reverse=True)
        except OSError:
            return []
        found = []
        for name in names:
            with contextlib.suppress(OperationUnknown):
                found.append(self.get(name))
        return found

    def get(self, operation: str) -> OperationView:
        """Return an operation. Raises OperationUnknown."""
        known = self._ended.get(operation)
        if known is not None:
            return known
        files = self._files(operation)
        request = read_record(OperationRequest, files.request)
        if request is None:
            raise OperationUnknown(
                f"there is no operation {operation[:60]!r}", hint="GET /api/operations lists them"
            )
        found = _look(files, request)
        if found.is_final:
            self._ended[operation] = found
        return found

    def is_under_way(self, operation: str) -> bool:
        """Return whether an operation waits or runs. One that is being asked for does."""
        with self._lock:
            try:
                return not self.get(operation).is_final
            except OperationUnknown:
                return False

    def cancel(self, operation: str) -> OperationView:
        """Let an operation end: as Ctrl-C does, then at once. Raises OperationUnknown, OSError."""
        found = self.get(operation)
        if not found.is_final:
            self._files(operation).cancelled.touch()
            self._thread.wake()
        return self.get(operation)

    def output(self, operation: str) -> Path:
        """Return the file of what an operation printed. Raises OperationUnknown."""
        self.get(operation)
        return self._files(operation).output

    def result(self, found: OperationView) -> object:
        """Return the result of an operation that ended, as JSON; None: there is none."""
        if not found.is_final or not found.request.is_json:
            return None
        with contextlib.suppress(OSError, ValueError):
            content = self._files(found.request.id).output.read_bytes()
            if len(content) <= RESULT_BYTES_MAX:
                return json.loads(content)
        return None

    # ---- the thread

    def _look_again(self) -> float:
        self.look()
        return LOOK_S

    def look(self) -> None:
        """Start what waits and may, end what is cancelled, forget what is old."""
        self._children.reap()
        found = self.all()
        running = sum(each.state is OperationState.RUNNING for each in found)
        for each in reversed(found):
            files = self._files(each.request.id)
            if each.state is OperationState.QUEUED and running < AT_ONCE:
                running += self._begin(files)
            elif each.state is OperationState.RUNNING and each.is_cancelled:
                self._interrupt(each)
        self._forget([each for each in found if each.is_final])

    def _begin(self, files: OperationFiles) -> bool:
        """Start the process of an operation, unless it has one."""
        handle = take_lock(files.lock)
        if handle is None:
            return False
        try:
            with files.output.open("wb") as output, files.talk.open("wb") as talk:
                child = subprocess.Popen(
                    self._starter(files, handle),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=talk,
                    pass_fds=(handle,),
                    start_new_session=True,
                    cwd=self._base,
                    env={**_environment(), "ASHORE_PROGRESS": str(files.progress)},
                )
        except OSError as error:
            files.talk.write_text(f"its process cannot be started: {error}\n", "utf-8")
            write_record(files.end, OperationEnd(ExitCode.FAILED, self._clock.now_ms()))
            return False
        finally:
            os.close(handle)
        self._children.take(child)
        return True

    def _interrupt(self, found: OperationView) -> None:
        if found.process is None:
            return
        name, now_s = found.request.id, self._clock.monotonic_s()
        first_s = self._killing.setdefault(name, now_s)
        is_late = now_s - first_s > KILL_AFTER_S
        if is_late or first_s == now_s:
            _signal(found.process, signal.SIGKILL if is_late else signal.SIGTERM)

    def _forget(self, found: list[OperationView]) -> None:
        """Remove the oldest results, and those that are too old."""
        border_ms = self._clock.now_ms() - KEPT_MS
        for number, each in enumerate(found):
            if number >= KEPT_MAX or each.request.created_ms < border_ms:
                self._ended.pop(each.request.id, None)
                shutil.rmtree(self._files(each.request.id).root, ignore_errors=True)

    def _files(self, operation: str) -> OperationFiles:
        is_id = operation.replace("-", "").isalnum() and operation.isascii()
        if not is_id or len(operation) > 60:
            raise OperationUnknown(f"there is no operation {operation[:60]!r}")
        return OperationFiles(self._directory / operation)


def _environment() -> dict[str, str]:
    """Return the environment of an operation: it asks no server."""
    return {name: value for name, value in child_environment().items() if name != "ASHORE_SERVER"}


def _look(files: OperationFiles, request: OperationRequest) -> OperationView:
    """Return an operation as its files show it. Whether it lives is looked at first."""
    is_alive = is_locked(files.lock)
    process = read_record(OperationProcess, files.process)
    end = read_record(OperationEnd, files.end)
    is_cancelled = files.cancelled.exists()
    if end is not None and not is_alive:
        state = _ended_as(end, is_cancelled=is_cancelled)
    elif is_alive:
        state = OperationState.RUNNING
    elif process is not None:
        state = OperationState.CANCELLED if is_cancelled else OperationState.LOST
    else:
        state = OperationState.CANCELLED if is_cancelled else OperationState.QUEUED
    progress = read_record(OperationProgress, files.progress)
    return OperationView(request, state, process, progress, end, is_cancelled, _tail(files.talk))


def _ended_as(end: OperationEnd, *, is_cancelled: bool) -> OperationState:
    if end.code == 0:
        return OperationState.DONE
    if end.answer:
        return OperationState.ANSWERED
    return OperationState.CANCELLED if is_cancelled else OperationState.FAILED


def _tail(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - TALK_BYTES))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


def _signal(process: OperationProcess, number: int) -> None:
    """Send a signal to a process, if it is still the one that was meant."""
    handle = open_process(process)
    if handle is not None:
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(handle, number)
        os.close(handle)
