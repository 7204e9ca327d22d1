"""A command whose whole tree of processes is measured.

What it is: `Tree`, a command with all that it starts, in whatever session.
What it promises: nothing of it stays behind. CPU time of a process counts as it was seen last: a
tenth of a second of each may be missing.
What it must not know: what runs.
"""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Self

from bench.processes import PAGE_BYTES, TICK_S, ChildFailed

LOOK_EVERY_S = 0.1
GRACE_S = 20.0
TAIL_LINES = 25


class Looked(NamedTuple):
    """What the kernel says of one process."""

    parent: int
    cpu_s: float
    rss_bytes: int


def read_processes() -> dict[int, Looked]:
    """Return the processes of this machine that are no zombies."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(FileNotFoundError, ProcessLookupError):
                text = (entry / "stat").read_text("utf-8", "replace")
                # The second field is the name in parentheses, which may hold anything.
                fields = text.rpartition(")")[2].split()
                if fields[0] != "Z":
                    cpu_s = (int(fields[11]) + int(fields[12])) * TICK_S
                    rss_bytes = int(fields[21]) * PAGE_BYTES
                    found[int(entry.name)] = Looked(int(fields[1]), cpu_s, rss_bytes)
    return found


class Tree:
    """A command and all that it starts. A context manager.

    Arguments:
        command: what is run.
        environment: beside that of this process.
        log: where its output goes, added.
        deadline_s: after so long it has failed.
        look: called at each look, for other things to be sampled.

    """

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        deadline_s: float,
        *,
        environment: Mapping[str, str] | None = None,
        look: Callable[[], None] = lambda: None,
    ) -> None:
        self._command = list(command)
        self._environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", **(environment or {})}
        self._log = log
        self._deadline_s = deadline_s
        self._look = look
        self._cpu_s: dict[int, float] = {}
        self._ended = threading.Event()
        self._sampler = threading.Thread(target=self._sample, name="tree", daemon=True)
        self._process: subprocess.Popen[bytes] | None = None
        self.rss_peak_bytes = 0

    @property
    def cpu_s(self) -> float:
        """CPU time of all processes so far."""
        return sum(self._cpu_s.values())

    def wait(self) -> None:
        """Wait until the command has ended. Raises ChildFailed if it fails or takes too long."""
        try:
            code = self._running().wait(self._deadline_s)
        except subprocess.TimeoutExpired:
            raise ChildFailed(f"not ended after {self._deadline_s:g} s{self._tail()}") from None
        if code:
            raise ChildFailed(f"ended with {code}{self._tail()}")

    def check(self) -> None:
        """Raise ChildFailed if the command has ended."""
        if (code := self._running().poll()) is not None:
            raise ChildFailed(f"ended with {code}{self._tail()}")

    def kill(self) -> None:
        """Kill all at once, as a power cut would."""
        for pid in self._find():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._wait_until_gone()

    def _tail(self) -> str:
        lines = self._log.read_text("utf-8", "replace").splitlines()[-TAIL_LINES:]
        return "".join(f"\n  {line}" for line in lines)

    def _find(self) -> dict[int, Looked]:
        """Return the processes of the tree; one that was of it stays of it."""
        every = read_processes()
        mine = {self._running().pid, *self._cpu_s} & every.keys()
        found = 0
        while found != len(mine):
            found = len(mine)
            mine |= {pid for pid, each in every.items() if each.parent in mine}
        return {pid: every[pid] for pid in mine}

    def _sample(self) -> None:
        while not self._ended.is_set():
            found = self._find()
            self._cpu_s.update({pid: each.cpu_s for pid, each in found.items()})
            now_bytes = sum(each.rss_bytes for each in found.values())
            self.rss_peak_bytes = max(self.rss_peak_bytes, now_bytes)
            self._look()
            self._ended.wait(LOOK_EVERY_S)

    def _wait_until_gone(self) -> bool:
        until_s = time.monotonic() + GRACE_S
        while time.monotonic() < until_s:
            self._running().poll()
            if not self._find():
                return True
            time.sleep(0.02)
        return False

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise ChildFailed("not started")
        return self._process

    def __enter__(self) -> Self:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env=self._environment,
            )
        self._sampler.start()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(ProcessLookupError):
            self._running().terminate()
        if not self._wait_until_gone():
            self.kill()
        self._ended.set()
        self._sampler.join()
