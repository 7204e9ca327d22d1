"""Processes that work, one call at a time each, and end with the process that has started them.

What it is: `WorkerPool`, which calls one function in several processes.
What it promises: a worker that dies fails the round that it was in, which says which call it had;
the next round has new workers. So does one that is frozen: each beats while it works, and one that
neither beats nor computes for `frozen_s` is killed; a call may take as long as it likes. However
the process that started them ends, workers end with it.
"""

import multiprocessing
import os
import pickle
import signal
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Generic, TypeVar, cast

from ashore.base.clock import Clock, SystemClock

A = TypeVar("A")
R = TypeVar("R")

END_S = 5.0  # for a worker that has nothing to do
BEAT_S = 1.0
FROZEN_S = 20.0
# Not `fork`: threads of Kafka's client and of Arrow would be missing in the child.
_CONTEXT = multiprocessing.get_context("forkserver")


class _Message(Enum):
    """What a worker says."""

    ANSWER = "answer"
    ERROR = "error"
    BEAT = "beat"


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


class WorkerFrozen(WorkerDied):
    """A worker was killed as it did not respond. Arguments as of WorkerDied; then its process."""

    def __init__(self, index: int, pid: int | None, frozen_s: float) -> None:
        super().__init__(index, None)
        self.pid = pid
        self._frozen_s = frozen_s

    def __str__(self) -> str:
        """Return what was so, in words."""
        return (
            f"worker process {self.pid} did not respond for {self._frozen_s:.0f} s and was killed: "
            "it was stopped (SIGSTOP), or a system call of it did not return"
        )


class WorkerPool(Generic[A, R]):
    """Workers that are started when they are needed. `map` by one thread at a time, `kill` by any.

    Arguments:
        work: what they do. A function of a module, which is how a worker finds it.
        size: how many there are at most.
        frozen_s: see above.
        clock: measures that; a moment in which this process was frozen too does not count.

    """

    def __init__(
        self,
        work: Callable[[A], R],
        size: int,
        frozen_s: float = FROZEN_S,
        clock: Clock | None = None,
    ) -> None:
        self._work = work
        self._frozen_s = frozen_s
        self._clock = clock or SystemClock()
        self._size = size
        self._lock = threading.Lock()
        self._workers: list[_Worker[A, R]] = []
        # The server from which workers are forked has imported what they will need.
        _CONTEXT.set_forkserver_preload([work.__module__])

    def map(self, arguments: Sequence[A]) -> list[R]:
        """Return what `work` returns for each argument, in their order.

        Raises WorkerDied, WorkerFrozen, or the first error that `work` has raised. Workers that
        still work are killed then: what they do is of no use.
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
                for pipe in self._wait(busy):
                    index, worker = busy[pipe]
                    answers = worker.receive(index)
                    if answers:
                        del busy[pipe]
                        results[index] = answers[0]
                        idle.append(worker)
        except BaseException:
            self.kill()
            raise
        return [results[index] for index in range(len(arguments))]

    def _wait(self, busy: Mapping[Connection, tuple[int, "_Worker[A, R]"]]) -> list[Connection]:
        """Return the pipes that something came by. Raises WorkerFrozen."""
        began_s = self._clock.monotonic_s()
        found = [cast("Connection", each) for each in wait(list(busy), BEAT_S)]
        waited_s = min(self._clock.monotonic_s() - began_s, 2 * BEAT_S)
        for pipe, (index, worker) in busy.items():
            is_alive = pipe in found or worker.has_computed()
            worker.silent_s = 0.0 if is_alive else worker.silent_s + waited_s
            if worker.silent_s >= self._frozen_s:
                raise WorkerFrozen(index, worker.process.pid, worker.silent_s)
        return found

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
        """Return `count` workers that wait for a task."""
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
        theirs.close()  # or the end of the process would look like its silence
        self.silent_s = 0.0  # since it was heard, or computed, last
        self._computed = ""

    def send(self, argument: A) -> None:
        """Give it something to do. That it is dead is heard with its answer."""
        self.silent_s = 0.0
        with suppress(BrokenPipeError):
            self.pipe.send(argument)

    def receive(self, index: int) -> list[R]:
        """Return its answer; empty: it works. Raises WorkerDied, or what the work has raised."""
        try:
            what, answer = self.pipe.recv()
        except (EOFError, OSError):
            self.process.join()
            raise WorkerDied(index, self.process.exitcode) from None
        if what is _Message.BEAT:
            return []
        if what is _Message.ERROR:
            raise answer
        return [answer]

    def has_computed(self) -> bool:
        """Return whether it has used a processor since this was asked last.

        One that computes in C, and lets no other thread beat, has.
        """
        try:
            stat = Path(f"/proc/{self.process.pid}/stat").read_text("utf-8")
        except OSError:
            return False  # it is gone, which its pipe shows next
        used = " ".join(stat.rpartition(")")[2].split()[11:13])
        before, self._computed = self._computed, used
        return used != before


def _serve(pipe: Connection, work: Callable[[A], R]) -> None:
    """Work until the other end of the pipe is closed, or its process is gone."""
    threading.Thread(target=_end_with_parent, name="parent", daemon=True).start()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # of the whole group; who started it decides
    sending, working = threading.Lock(), threading.Event()
    beating = threading.Thread(target=_beat, args=(pipe, sending, working), daemon=True)
    beating.start()
    with suppress(EOFError, BrokenPipeError):
        while True:
            argument = pipe.recv()
            working.set()
            answer = _answer(work, argument)
            with sending:
                working.clear()
                pipe.send(answer)


def _beat(pipe: Connection, sending: threading.Lock, working: threading.Event) -> None:
    """Say again and again that this process runs, while it works; no beat follows an answer."""
    pause = threading.Event()
    with suppress(OSError):
        while working.wait():
            pause.wait(BEAT_S)
            with sending:
                if working.is_set():
                    pipe.send((_Message.BEAT, None))


def _end_with_parent() -> None:
    """End this worker with its parent, at any point: no process reads its result."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _answer(work: Callable[[A], R], argument: A) -> tuple[_Message, object]:
    try:
        return _Message.ANSWER, work(argument)
    except Exception as error:  # noqa: BLE001 - raised again in the process that has asked
        try:
            pickle.loads(pickle.dumps(error))  # noqa: S301 - some errors cannot be made again
        except Exception:  # noqa: BLE001 - whatever keeps it from travelling
            return _Message.ERROR, RuntimeError(repr(error))
        return _Message.ERROR, error
