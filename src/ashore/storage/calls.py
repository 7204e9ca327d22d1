"""How a storage call ends: within a deadline, and made again where that is safe.

What it is: two storages around another one. The calls of `DeadlineStorage` run on threads that can
be left behind; `RetryingStorage` is the one place where calls are repeated.
What it promises: a call answers within the deadline, or AnswerUnknown is raised: it may still be
applied. A thread that hangs is a daemon, is never used again, and is counted; a process in which
too many hang makes no further calls, so that it is replaced. Each call is counted once by kind and
result, tries included; a forked child counts anew. Only calls that change nothing are repeated
(stat, list, read), and such as no server took (NotApplied). An answer (PathMissing, PathExists) is
never asked for again, and a failed sync never repeated.
"""

import logging
import os
import random
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Generic, NamedTuple, TypeVar

from ashore.base.clock import Clock
from ashore.errors import (
    AnswerUnknown,
    CallsHang,
    NotApplied,
    PathExists,
    PathMissing,
    StorageError,
    SyncFailed,
    check,
)
from ashore.storage.base import (
    Confirms,
    FileWriter,
    GuardedWriter,
    Links,
    Storage,
    StorageForwarder,
)

_log = logging.getLogger(__name__)

T = TypeVar("T")
Jitter = Callable[[float, float], float]
any_between: Jitter = random.SystemRandom().uniform

HANGING_MAX = 256  # threads of one process: some failovers with every thread in a call


class DeadlineStatistics(NamedTuple):
    """What became of calls that passed the deadline."""

    abandoned: int  # calls, and threads, that were left behind
    answered_late: int  # of these, calls that came back after all


class DeadlineStorage(StorageForwarder):
    """A Storage that never waits longer than `deadline_s` for one call."""

    def __init__(
        self, inner: Storage, deadline_s: float, *, hanging_max: int = HANGING_MAX
    ) -> None:
        check(deadline_s > 0, "a deadline lies in the future")
        self._inner = inner
        self._deadline_s = deadline_s
        self._hanging_max = hanging_max
        self._lock = threading.Lock()
        self._abandoned = 0
        self._answered_late = 0

    def statistics(self) -> DeadlineStatistics:
        """Return the counts since the start."""
        with self._lock:
            return DeadlineStatistics(self._abandoned, self._answered_late)

    def open_write(self, path: str) -> FileWriter:
        """See Storage."""
        inner = self.call(f"open {path}", lambda: self._inner.open_write(path), late=_abandon)
        return _DeadlineWriter(self, inner, path)

    def _forward(
        self,
        what: str,
        call: Callable[[Storage], T],
        looked_at: str | None = None,  # noqa: ARG002 - see StorageForwarder
    ) -> T:
        return self.call(what, lambda: call(self._inner))

    def link(self, source: str, target: str) -> bool:
        """See Links."""
        inner = self._inner
        if not isinstance(inner, Links):
            return False
        return self.call(f"link {source} to {target}", lambda: inner.link(source, target))

    def confirm(self, path: str) -> None:
        """See Confirms. A storage without servers has nothing to confirm."""
        inner = self._inner
        if isinstance(inner, Confirms):
            self.call(f"confirm {path}", lambda: inner.confirm(path))

    def describe(self) -> str:
        """See Storage."""
        return self._inner.describe()

    def call(
        self, what: str, function: Callable[[], T], late: Callable[[T | None], None] | None = None
    ) -> T:
        """Run `function` on a worker, and return or raise what it does. Counts it as a call.

        `what` begins with the kind of the call.

        `late` gets a result that is no longer waited for (None after an error), on the worker's
        thread, so that it can give back what the call has taken. Raises CallsHang, and calls
        nothing, where too many calls of this process hang.
        """
        if _hanging.count >= self._hanging_max:
            raise CallsHang(
                f"{_hanging.count} storage calls of this process hang: {what} is not attempted",
                hint="start the job again; Spark replaces a Python worker whose task fails",
                hanging=_hanging.count,
            )
        worker = _take_worker()
        answers: SimpleQueue[_Outcome[T]] = SimpleQueue()
        worker.run(lambda: answers.put(_Outcome.of(function)))
        try:
            outcome = self._wait(answers)
        except Empty:
            with self._lock:
                self._abandoned += 1
            _hanging.add(1)
            worker.run(lambda: self._settle(answers, late))
            worker.stop()
            message = f"no answer within {self._deadline_s:g} s: {what}"
            _log.warning("%s; its thread is abandoned", message)
            unknown = AnswerUnknown(
                message, hint="the call may still be applied; check before retrying"
            )
            _counts.add(_kind_of(what), unknown)
            raise unknown  # noqa: B904  # the queue being empty is no cause
        _idle.append(worker)
        _counts.add(_kind_of(what), outcome.error)
        return outcome.get()

    def _wait(self, answers: "SimpleQueue[_Outcome[T]]") -> "_Outcome[T]":
        """Return what comes within the deadline. Raises Empty."""
        return answers.get(timeout=self._deadline_s)

    def _settle(
        self, answers: "SimpleQueue[_Outcome[T]]", late: Callable[[T | None], None] | None
    ) -> None:
        outcome = answers.get()
        _hanging.add(-1)
        with self._lock:
            self._answered_late += 1
        if late is not None:
            late(None if outcome.error else outcome.get())


def _kind_of(what: str) -> str:
    """Return the kind of a call from its description: `move a to b`."""
    verb = what.partition(" ")[0]
    return "stat" if verb == "look" else verb


def _abandon(writer: FileWriter | None) -> None:
    if writer is not None:
        writer.abandon()


class _DeadlineWriter(GuardedWriter):
    """Writes under the deadline of its storage. The inner writer is never used by two threads."""

    def __init__(self, storage: DeadlineStorage, inner: FileWriter, path: str) -> None:
        super().__init__(path)
        self._storage = storage
        self._inner = inner
        self._is_hanging = False

    def _append(self, data: memoryview) -> None:
        # A hung call may look at its bytes long after the caller has used the buffer again.
        payload = bytes(data)
        self._call("write", lambda: self._inner.write(payload))

    def _finish(self) -> None:
        self._call("close", self._inner.close)

    def _release(self) -> None:
        if not self._is_hanging:
            with suppress(AnswerUnknown):  # counted by the storage; closing may hang as well
                self._call("abandon", self._inner.abandon)

    def _call(self, action: str, function: Callable[[], object]) -> None:
        try:
            # A writer that hangs is released by the thread that hangs in it: closing it from here
            # would free a descriptor number that the late call then writes to.
            what = f"{action} {self._path}"
            self._storage.call(what, function, late=lambda _: self._inner.abandon())
        except AnswerUnknown:
            self._is_hanging = True
            raise


@dataclass(frozen=True, slots=True)
class _Outcome(Generic[T]):
    """What a call came to: a result or what it raised, stops of a test included."""

    results: tuple[T, ...]
    error: BaseException | None

    @classmethod
    def of(cls, function: Callable[[], T]) -> "_Outcome[T]":
        try:
            return cls((function(),), None)
        except BaseException as error:  # noqa: BLE001  # it is raised again, where it is waited for
            return cls((), error)

    def get(self) -> T:
        if self.error is not None:
            raise self.error
        return self.results[0]


class _CallThread:
    """A daemon thread that runs what it is handed, in order."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        threading.Thread(target=self._work, name="storage-call", daemon=True).start()

    def run(self, job: Callable[[], None]) -> None:
        self._jobs.put(job)

    def stop(self) -> None:
        self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            outcome = _Outcome.of(job)
            if outcome.error is not None:  # only cleanup of a call that no caller waits for
                _log.debug("after a late answer: %s", outcome.error)
            del job, outcome  # an idle thread keeps no caller's data alive


class _Hanging:
    """How many threads of this process were left behind and have not come back."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.count = 0

    def add(self, change: int) -> None:
        with self._lock:
            self.count += change

    def forget(self) -> None:
        self._lock = threading.Lock()
        self.count = 0


_hanging = _Hanging()  # of all storages of the process: each task opens its own
os.register_at_fork(after_in_child=_hanging.forget)


def count_hanging_calls() -> int:
    """Return how many storage calls of this process were given up and have not come back."""
    return _hanging.count


# Idle workers are shared by all storages of the process: a storage is opened for each task, and
# its threads must not outlive it in ever greater numbers. There are never more than calls at once.
_idle: deque[_CallThread] = deque()
os.register_at_fork(after_in_child=_idle.clear)  # a forked child has none of these threads


def _take_worker() -> _CallThread:
    try:
        return _idle.pop()
    except IndexError:
        return _CallThread()


_RESULTS: dict[type[BaseException], str] = {
    PathMissing: "missing",
    PathExists: "exists",
    AnswerUnknown: "unknown",
    NotApplied: "not_applied",
}


class _Counts:
    """Counts of this process."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[tuple[str, str]] = Counter()

    def add(self, call: str, error: BaseException | None) -> None:
        result = "ok" if error is None else _RESULTS.get(type(error), "failed")
        with self._lock:
            self._counts[call, result] += 1

    def read(self) -> dict[tuple[str, str], int]:
        with self._lock:
            return dict(self._counts)


_counts = _Counts()  # of all storages of the process, as `_hanging`
os.register_at_fork(after_in_child=_counts.forget)


def count_calls() -> Mapping[tuple[str, str], int]:
    """Return how many calls this process has made so far, by kind and result."""
    return _counts.read()


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long to wait between tries: doubling from `first_s` to `max_s`.

    `within_s`: how long a call that no server took is made again, counted from its first try.
    """

    first_s: float = 0.1
    max_s: float = 5.0
    within_s: float = 60.0

    def delays_s(self, jitter: Jitter = any_between) -> Iterator[float]:
        """Yield delays without end, each between half of the doubled one and all of it.

        `jitter` is called with these two bounds, so that many processes that failed together do
        not come back together; a test hands in `max`.
        """
        check(0 < self.first_s <= self.max_s, f"delays cannot grow from {self}")
        delay_s = self.first_s
        while True:
            yield jitter(delay_s / 2, delay_s)
            delay_s = min(2 * delay_s, self.max_s)


class RetryingStorage(StorageForwarder):
    """A Storage that asks again where nothing was changed.

    Of an unclear change the caller looks whether it was made; an unclear `open_write` is made under
    another name. A failed sync is never repeated: the system forgets what it did not write.
    """

    def __init__(
        self,
        inner: Storage,
        clock: Clock,
        *,
        attempts: int = 4,
        backoff: Backoff | None = None,
        jitter: Jitter = any_between,
    ) -> None:
        check(attempts >= 1, "a call needs at least one attempt")
        self._inner = inner
        self._clock = clock
        self._attempts = attempts
        self._backoff = backoff or Backoff()
        self._jitter = jitter

    def link(self, source: str, target: str) -> bool:
        """See Links."""
        inner = self._inner
        return isinstance(inner, Links) and self._again(lambda: inner.link(source, target), 1)

    def describe(self) -> str:
        """See Storage."""
        return self._inner.describe()

    def _forward(
        self,
        what: str,  # noqa: ARG002 - see StorageForwarder
        call: Callable[[Storage], T],
        looked_at: str | None = None,
    ) -> T:
        attempts = 1 if looked_at is None else self._attempts
        return self._again(lambda: call(self._inner), attempts)

    def _again(self, call: Callable[[], T], attempts: int) -> T:
        """Make a call `attempts` times at most, not counting the tries that no server took."""
        delays_s = self._backoff.delays_s(self._jitter)
        end_s = self._clock.monotonic_s() + self._backoff.within_s
        attempt = 0
        while True:
            try:
                return call()
            except (PathMissing, PathExists, SyncFailed):
                raise
            except StorageError as error:
                attempt += not isinstance(error, NotApplied)
                is_late = isinstance(error, NotApplied) and self._clock.monotonic_s() >= end_s
                if is_late or attempt >= attempts:
                    raise
                delay_s = next(delays_s)
                _log.warning("again in %.1f s: %s", delay_s, error)
            self._clock.sleep(delay_s)
