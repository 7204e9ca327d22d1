"""Noticing that a job process is frozen, or hangs.

What it is: `Watch`, a thread beside the reader of a job process's events.
What it promises: silence is reported within seconds, once, unless the process has reported its end;
after `patience_s` of it the process is killed, which is safe at any moment. Time in which this
process was frozen itself is no silence.
"""

import threading
from collections.abc import Callable
from typing import Protocol

LOOK_S = 1.0
REPORTED_AFTER_S = 5.0  # the process beats each second


class WatchedProcess(Protocol):
    """A process that is listened to."""

    lines_read: int
    has_ended: bool  # it has reported its end: until it exits, it has nothing to report

    def kill(self) -> None:
        """Kill the process."""
        ...


class Watch:
    """Watches a process while inside. As a context manager.

    Arguments:
        process: whose events another thread reads.
        patience_s: how long it may be silent.
        report: called with a sentence for people, by the thread of the watch.

    """

    def __init__(
        self, process: WatchedProcess, patience_s: float, report: Callable[[str], None]
    ) -> None:
        self._process = process
        self._patience_s = patience_s
        self._report = report
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._look, name="watch", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _look(self) -> None:
        seen, silent_s, is_reported = 0, 0.0, False
        # Each look adds what it has waited for, and no more, however late it comes.
        while not self._is_over.wait(LOOK_S):
            now = self._process.lines_read
            if now != seen:
                if is_reported:
                    self._report("the job process responds again")
                seen, silent_s, is_reported = now, 0.0, False
                continue
            silent_s += LOOK_S
            # Before its first word it imports and starts, which may take a while.
            is_due = bool(seen) and silent_s >= REPORTED_AFTER_S and not self._process.has_ended
            if is_due and not is_reported:
                self._report(f"the job process has been silent for {silent_s:.0f} s: {self._end()}")
                is_reported = True
            if silent_s >= self._patience_s:
                self._report(f"the job process was silent for {silent_s:.0f} s: it is killed")
                self._process.kill()
                return

    def _end(self) -> str:
        return f"frozen, or it hangs; it will be killed after {self._patience_s:.0f} s"
