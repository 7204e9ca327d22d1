"""What signals do while a command works.

What it promises: what stood there before is put back at the end.
"""

import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import FrameType

import typer

Handler = Callable[[int, FrameType | None], object]


@contextmanager
def signals_call(handler: Handler, *numbers: signal.Signals) -> Iterator[None]:
    """Have signals call `handler` while inside."""
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


def sigterm_does(handler: Handler) -> AbstractContextManager[None]:
    """Have SIGTERM call `handler` while inside. Ctrl-C's own is `signal.default_int_handler`."""
    return signals_call(handler, signal.SIGTERM)


def end_in_order(_number: int, _frame: FrameType | None) -> None:
    """End the command with 0: nothing of a job is under way yet."""
    raise typer.Exit(0)
