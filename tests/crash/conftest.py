"""Calls have the same number in every run, and the same bytes are read as an entry once."""

import sys
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

import pytest
from tests.crash.harness import read_entries_once

from ashore.log.store import committer

P = ParamSpec("P")
T = TypeVar("T")


class InlinePool(Executor):
    """Does what it is given at once, in the thread of the caller; an error waits in its future.

    So calls come in one order, and all of them come, also those after one that fails: as where
    threads have begun them.
    """

    def __init__(self, *_: object, **__: object) -> None:
        """Take what a ThreadPoolExecutor takes."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        done: Future[T] = Future()
        try:
            done.set_result(fn(*args, **kwargs))
        except BaseException as error:  # noqa: BLE001 - as a thread of a pool does
            done.set_exception(error)
        return done


@pytest.fixture(autouse=True)
def serial_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committer, "PARALLEL_MOVES", 1)


@pytest.fixture(autouse=True)
def serial_checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of checkpoints are listed, read and written one after the other, without threads."""
    for name, module in list(sys.modules.items()):
        is_named = getattr(module, "ThreadPoolExecutor", None) is ThreadPoolExecutor
        if name.startswith("ashore.queries.state") and is_named:
            monkeypatch.setattr(module, "ThreadPoolExecutor", InlinePool)


@pytest.fixture(autouse=True)
def entries_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read_entries_once(monkeypatch)
