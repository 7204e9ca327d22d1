"""What a job process tells its parent: one JSON object a line on stdout.

What it promises: an event is one line, written whole, also by several threads. A parent that has
gone away is no error of the job's work: it is noticed by `watch_parent`.
What it must not know: who shows the events.
"""

import json
import os
import sys
import threading
from collections.abc import Callable

from ashore.storage import count_hanging_calls


class EventWriter:
    """Writes events to stdout; the Progress of the slices of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def send(self, event: str, **fields: object) -> None:
        """Write one event."""
        line = json.dumps({"event": event, **fields}, default=str)
        with self._lock:
            try:
                sys.stdout.write(line + "\n")
                sys.stdout.flush()
            except (BrokenPipeError, ValueError):
                return  # the parent is gone; watch_parent stops the job

    def step(self, slice_name: str, step: str) -> None:
        """Tell which step begins."""
        self.send("step", slice=slice_name, step=step)

    def landed(self, slice_name: str, rows: int, files: int, lag: int) -> None:
        """Tell that a batch is readable."""
        hanging = count_hanging_calls()
        self.send("landed", slice=slice_name, rows=rows, files=files, lag=lag, hanging=hanging)

    def trouble(self, slice_name: str, message: str) -> None:
        """Tell of a failure that the loop rides out."""
        self.send("trouble", slice=slice_name, message=message)


def watch_parent(on_gone: Callable[[], None], on_told: Callable[[], None]) -> None:
    """Call `on_gone` once stdin ends: the parent holds its other end open as long as it lives.

    `on_told`: called when the parent writes anything there.
    """

    def wait() -> None:
        # The descriptor, not sys.stdin: its lock would be held when the interpreter ends.
        while os.read(0, 4096):
            on_told()
        on_gone()

    threading.Thread(target=wait, name="parent", daemon=True).start()
