"""What SIGTERM does while a command works.

What it promises: what stood there before is put back at the end.
"""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import typer


@contextmanager
def sigterm_does(handler: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    """Have SIGTERM call `handler` while inside. Ctrl-C's own is `signal.default_int_handler`."""
    before = signal.signal(signal.SIGTERM, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def end_in_order(_number: int, _frame: FrameType | None) -> None:
    """End the command with 0: nothing of a job is under way yet."""
    raise typer.Exit(0)
