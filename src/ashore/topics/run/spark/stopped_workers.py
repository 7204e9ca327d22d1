"""Python workers of Spark that a signal has stopped are killed, so that their tasks run again.

What it is: `StoppedWorkers`, a thread beside the session of a job process.
What it promises: Spark waits for ever for such a worker, so one that is stopped for `STOPPED_S` is
reported with its process id and killed, which is safe at any moment. Only workers of this machine
are looked at: those below the JVM that this process has started.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

import psutil

from ashore.topics.run.spark.daemon import MODULE, PLAIN

STOPPED_S = 20.0
LOOK_S = 5.0


class StoppedWorkers:
    """Looks while inside. As a context manager.

    Arguments:
        report: called with a sentence for people, by a thread of its own.
        stopped_s: how long a worker may be stopped.
        look_s: how often it looks.

    """

    def __init__(
        self,
        report: Callable[[str], None],
        stopped_s: float = STOPPED_S,
        look_s: float = LOOK_S,
    ) -> None:
        self._report, self._stopped_s, self._look_s = report, stopped_s, look_s
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="stopped-workers", daemon=True)
        self._stopped: dict[int, float] = {}  # for how long, by process id

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        # Each look adds what it has waited for, and no more: this process may be stopped, too.
        while not self._is_over.wait(self._look_s):
            with suppress(psutil.Error):
                self._look()

    def _look(self) -> None:
        stopped = {each.pid: each for each in _list_stopped()}
        self._stopped = {pid: self._stopped.get(pid, 0.0) + self._look_s for pid in stopped}
        for pid, process in stopped.items():
            if self._stopped[pid] >= self._stopped_s:
                self._report(
                    f"Python worker {pid} of Spark was stopped by a signal (SIGSTOP) for "
                    f"{self._stopped[pid]:.0f} s and is killed: its task is tried again"
                )
                process.kill()


def _list_stopped() -> Iterator[psutil.Process]:
    """Yield the stopped ones of Spark's Python processes below this one."""
    for each in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            if each.status() == psutil.STATUS_STOPPED and {MODULE, PLAIN} & set(each.cmdline()):
                yield each
