"""Processes that work, one call at a time each, and end with the process that has started them.

What it is: `WorkerPool`, which calls one function in several processes.
What it promises: a worker that dies fails the round that it was in, which says which call it had;
the next round has new workers. However the process that started them ends, workers end with it.
What it must not know: what is worked on.
"""

import multiprocessing
import os
import pickle
import signal
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from typing import Generic, TypeVar, cast

A = TypeVar("A")
R = TypeVar("R")

END_S = 5.0  # for a worker that has nothing to do
# Not `fork`: threads of Kafka's client and of Arrow would be missing in the child.
_CONTEXT = multiprocessing.get_context("forkserver")


class WorkerDied(Exception):
    """A worker ended before it had answered.

    Arguments:
        index: of the argument that it was called with.
        exit_code: of its process; negative: the signal that ended it.

    """

    def __init__(self, index: int, exit_code: int | None) -> None:
        super().__init__(index, exit_code)
        self.index = index
        self.exit_code = exit_code

    def __str__(self) -> str:
        """Return how it ended, in words."""
        if self.exit_code is not None and self.exit_code < 0:
            return f"a worker process was killed by {signal.Signals(-self.exit_code).name}"
        return f"a worker process exited with code {self.exit_code}"


class WorkerPool(Generic[A, R]):
    """Workers that are started when they are needed. `map` by one thread at a time, `kill` by any.

    Arguments:
        work: what they do. A function of a module, which is how a worker finds it.
        size: how many there are at most.

    """

    def __init__(self, work: Callable[[A], R], size: int) -> None:
        self._work = work
        self._size = size
        self._lock = threading.Lock()
        self._workers: list[_Worker[A, R]] = []
        # The server from which workers are forked has imported what they will need.
        _CONTEXT.set_forkserver_preload([work.__module__])

    def map(self, arguments: Sequence[A]) -> list[R]:
        """Return what `work` returns for each argument, in their order.

        Raises WorkerDied, or the first error that `work` has raised. Workers that are still at it
        are killed then: nobody wants what they do.
        """
        waiting = deque(enumerate(arguments))
        results: dict[int, R] = {}
        busy: dict[Connection, tuple[int, _Worker[A, R]]] = {}
        idle = self._take(min(self._size, len(arguments)))
        try:
            while waiting or busy:
                while waiting and idle:
                    index, argument = waiting.popleft()
                    worker = idle.pop()
                    worker.send(argument)
                    busy[worker.pipe] = (index, worker)
                for pipe in wait(list(busy)):
                    index, worker = busy.pop(cast("Connection", pipe))
                    results[index] = worker.receive(index)
                    idle.append(worker)
        except BaseException:
            self.kill()
            raise
        return [results[index] for index in range(len(arguments))]

    def kill(self) -> None:
        """End all workers now. A `map` that is under way raises WorkerDied."""
        for each in self._let_go():
            each.process.kill()

    def close(self) -> None:
        """End workers that have nothing to do, and wait for them. Requires: no `map` under way."""
        workers = self._let_go()
        for each in workers:
            each.pipe.close()
        for each in workers:
            each.process.join(END_S)
            each.process.kill()

    def _take(self, count: int) -> list["_Worker[A, R]"]:
        """Return so many workers that wait for something to do."""
        with self._lock:
            while len(self._workers) < count:
                self._workers.append(_Worker(self._work))
            return self._workers[:count]

    def _let_go(self) -> list["_Worker[A, R]"]:
        with self._lock:
            workers, self._workers = self._workers, []
            return workers


class _Worker(Generic[A, R]):
    """One process, and this side of the pipe to it."""

    def __init__(self, work: Callable[[A], R]) -> None:
        self.pipe, theirs = _CONTEXT.Pipe()
        self.process = _CONTEXT.Process(target=_serve, args=(theirs, work), daemon=True)
        self.process.start()
        theirs.close()  # or the end of the process could not be told from its silence

    def send(self, argument: A) -> None:
        """Give it something to do. That it is dead is heard with its answer."""
        with suppress(BrokenPipeError):
            self.pipe.send(argument)

    def receive(self, index: int) -> R:
        """Return its answer. Raises WorkerDied, or what the work has raised."""
        try:
            is_error, answer = self.pipe.recv()
        except (EOFError, OSError):
            self.process.join()
            raise WorkerDied(index, self.process.exitcode) from None
        if is_error:
            raise answer
        found: R = answer
        return found


def _serve(pipe: Connection, work: Callable[[A], R]) -> None:
    """Work until the other end of the pipe is closed, or its process is gone."""
    threading.Thread(target=_end_with_parent, name="parent", daemon=True).start()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # of the whole group; who started it decides
    with suppress(EOFError, BrokenPipeError):
        while True:
            pipe.send(_answer(work, pipe.recv()))


def _end_with_parent() -> None:
    """End in the midst of whatever it is: nobody will hear of it."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _answer(work: Callable[[A], R], argument: A) -> tuple[bool, object]:
    try:
        return False, work(argument)
    except Exception as error:  # noqa: BLE001 - raised again in the process that has asked
        try:
            pickle.loads(pickle.dumps(error))  # noqa: S301 - some errors cannot be made again
        except Exception:  # noqa: BLE001 - whatever keeps it from travelling
            return True, RuntimeError(repr(error))
        return True, error
