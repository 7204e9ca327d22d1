"""Freezing a process, and being sure of it: `kill` returns before the process has stopped."""

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

STOPPED = ("T", "t")  # proc_pid_stat(5): stopped by a signal, or by a debugger
DEADLINE_S = 10.0


def freeze(pid: int) -> None:
    """Send SIGSTOP to a process, and wait until each of its threads has stopped.

    On a machine that is busy a thread runs on for as long as none of the others is given a core:
    long enough to read a file that was written after the signal.
    """
    os.kill(pid, signal.SIGSTOP)
    deadline_s = time.monotonic() + DEADLINE_S
    while not all(state in STOPPED for state in _states(pid)):
        assert time.monotonic() < deadline_s, f"process {pid} does not stop"
        time.sleep(0.001)


def _states(pid: int) -> list[str]:
    """Return the state of each thread: what follows its name, which is in parentheses."""
    found = []
    for each in Path(f"/proc/{pid}/task").glob("*/stat"):
        with suppress(FileNotFoundError, ProcessLookupError):  # one that ends meanwhile
            found.append(each.read_text("ascii").rpartition(")")[2].split()[0])
    return found
