"""A thread that does one thing again and again, until it is ended.

What it promises: who wakes it while it works has it work once more. An exception does not end it:
it is reported on stderr, and the work is tried again after a growing pause.
"""

import threading
import traceback
from collections.abc import Callable

END_S = 5.0  # how long the end of a server waits for work under way
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0  # after exceptions in a row


class Background:
    """Does something again and again. `wake` and `end` may be called by any thread.

    Arguments:
        name: of the thread.
        work: is called again and again; returns after how many seconds at the latest it is to be
            called again.

    """

    def __init__(self, name: str, work: Callable[[], float]) -> None:
        self._work = work
        self._is_over = threading.Event()
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.failure = ""  # the exception that the last call has raised

    @property
    def is_over(self) -> bool:
        """Whether it is ended, or about to be: work that takes long asks."""
        return self._is_over.is_set()

    @property
    def is_alive(self) -> bool:
        """Whether its thread runs."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Begin to work."""
        self._thread.start()

    def wake(self) -> None:
        """Have it work soon."""
        self._wake.set()

    def end(self, timeout_s: float | None = None) -> None:
        """End it, and wait for the work under way, at most `timeout_s` seconds."""
        self._is_over.set()
        self._wake.set()
        if self._thread.ident:
            self._thread.join(timeout_s)

    def _run(self) -> None:
        pause_s = FIRST_PAUSE_S
        while not self.is_over:
            self._wake.clear()
            try:
                wait_s, self.failure = self._work(), ""
            except Exception as error:  # noqa: BLE001 - a thread that dies would not be noticed
                traceback.print_exc()
                self.failure = f"{type(error).__name__}: {error}"
                self._is_over.wait(pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
            else:
                pause_s = FIRST_PAUSE_S
                if not self.is_over:
                    self._wake.wait(wait_s)
