"""Processes that are measured: started, talked to, looked at from outside, ended.

What it is: `Child`, a process with a pipe to and from it; `Meter`, CPU time and memory from /proc;
`tell` and `hear`, the child's end of the pipe.
What it promises: nothing that was started stays behind, whatever happens; a child that hangs is
ended after a deadline, and a child ends when its parent does. CPU time of processes that have ended
meanwhile is counted if their parent waited for them. Memory is the sum of resident sets, sampled;
pages that processes share count for each.
What it must not know: what they do.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self

GRACE_S = 20.0
LOG_TAIL_LINES = 25
SAMPLE_EVERY_S = 0.1
TICK_S = 1 / os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class ChildFailed(Exception):
    """A child ended, or said something else than was expected."""


class Child:
    """A process in a session of its own. A context manager: all of the session is gone after it.

    Arguments:
        command: what to run; what it says on stdout is one JSON object a line.
        log_path: where its stderr goes; its end is told when the child fails.
        deadline_s: after so long it is killed.

    """

    def __init__(self, command: Sequence[str], log_path: Path, deadline_s: float) -> None:
        self._command = list(command)
        self._log_path = log_path
        self._deadline_s = deadline_s
        self._watchdog = threading.Timer(deadline_s, self._signal, (signal.SIGKILL,))
        self._watchdog.daemon = True
        self._process: subprocess.Popen[str] | None = None

    @property
    def name(self) -> str:
        """What is run, for messages."""
        return self._command[self._command.index("-m") + 1]

    @property
    def session(self) -> int:
        """The session, which has the id of its first process."""
        return self._running().pid

    def receive(self) -> Mapping[str, object]:
        """Wait for what the child says next. Raises ChildFailed if it has ended."""
        stdout = self._running().stdout
        line = stdout.readline() if stdout else ""
        if not line.startswith("{"):
            raise ChildFailed(f"{self.name}: said {line!r}{self._log_tail()}")
        said: Mapping[str, object] = json.loads(line)
        return said

    def expect(self, event: str) -> Mapping[str, object]:
        """Wait for what the child says next, which must be `event`. Raises ChildFailed."""
        said = self.receive()
        if said.get("event") != event:
            raise ChildFailed(f"{self.name}: no {event!r} but {said}{self._log_tail()}")
        return said

    def answer(self, text: str = "") -> None:
        """Let the child go on, with a line of text."""
        stdin = self._running().stdin
        if stdin:
            stdin.write(f"{text}\n")
            stdin.flush()

    def kill(self) -> None:
        """End all of the session with SIGKILL, as a power cut would."""
        self._signal(signal.SIGKILL)
        self._wait_until_gone()

    def _log_tail(self) -> str:
        lines = self._log_path.read_text("utf-8", "replace").splitlines()[-LOG_TAIL_LINES:]
        return "".join(f"\n  {line}" for line in lines)

    def wait(self) -> None:
        """Wait for an orderly end."""
        code = self._running().wait(self._deadline_s)
        if code:
            raise ChildFailed(f"{self.name} ended with {code}")

    def __enter__(self) -> Self:
        self._log_path.parent.mkdir(parents=True, exist_ok=True)
        with self._log_path.open("wb") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
                env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
            )
        self._watchdog.start()
        return self

    def __exit__(self, *_: object) -> None:
        process = self._running()
        self._watchdog.cancel()
        for number in (signal.SIGTERM, signal.SIGKILL):
            if read_session(process.pid):
                self._signal(number)
                self._wait_until_gone()
        for pipe in (process.stdin, process.stdout):
            if pipe:
                with suppress(BrokenPipeError):
                    pipe.close()

    def _signal(self, number: signal.Signals) -> None:
        for pid in read_session(self._running().pid):
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def _wait_until_gone(self) -> None:
        process = self._running()
        deadline_s = time.monotonic() + GRACE_S
        while time.monotonic() < deadline_s:
            process.poll()
            if not read_session(process.pid):
                return
            time.sleep(0.05)

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None:
            raise ChildFailed(f"{self.name} was not started")
        return self._process


@dataclass(frozen=True, slots=True)
class Usage:
    """What processes used between two moments."""

    cpu_s: float
    rss_peak_bytes: int


class Seen(NamedTuple):
    """What the kernel says of one process."""

    cpu_s: float  # with that of children it has waited for
    rss_bytes: int


class Meter:
    """A context manager that measures all processes of a session but the excluded ones."""

    def __init__(self, session: int, excluded: Collection[int]) -> None:
        self._session = session
        self._excluded = frozenset(excluded)
        self._ended = threading.Event()
        self._rss_peak_bytes = 0
        self._cpu_before_s = self._cpu_after_s = 0.0
        self._sampler = threading.Thread(target=self._sample, name="meter", daemon=True)

    @property
    def usage(self) -> Usage:
        """What was used inside the block."""
        return Usage(self._cpu_after_s - self._cpu_before_s, self._rss_peak_bytes)

    def __enter__(self) -> Self:
        self._cpu_before_s = sum(each.cpu_s for each in self._look())
        self._sampler.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._cpu_after_s = sum(each.cpu_s for each in self._look())
        self._ended.set()
        self._sampler.join()

    def _look(self) -> list[Seen]:
        seen = read_session(self._session)
        return [each for pid, each in seen.items() if pid not in self._excluded]

    def _sample(self) -> None:
        while True:
            now_bytes = sum(each.rss_bytes for each in self._look())
            self._rss_peak_bytes = max(self._rss_peak_bytes, now_bytes)
            if self._ended.wait(SAMPLE_EVERY_S):
                return


def read_session(session: int) -> dict[int, Seen]:
    """Return the processes of a session, by their ids."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            text = (entry / "stat").read_text("utf-8", "replace")
        except (FileNotFoundError, ProcessLookupError):
            continue
        # The second field is the name in parentheses, which may hold anything.
        fields = text.rpartition(")")[2].split()
        if int(fields[3]) == session:
            cpu_s = sum(map(int, fields[11:15])) * TICK_S
            found[int(entry.name)] = Seen(cpu_s, int(fields[21]) * PAGE_BYTES)
    return found


def send(event: str, **fields: object) -> None:
    """Tell the parent."""
    # In one piece: more than one thread may have something to tell.
    sys.stdout.write(f"{json.dumps({'event': event, **fields})}\n")
    sys.stdout.flush()


def receive() -> str:
    """Wait for the parent's next line. Ends the process if the parent is gone."""
    line = sys.stdin.readline()
    if not line:
        sys.exit(1)
    return line.strip()
