"""Several servers, of which one is active.

What it is: a storage over the same lake behind each of some servers, of which one serves at a time.
What it promises: a call goes to the server that served last; where that one does not take it, or
does not answer and asking another is harmless, to the next one, each once. A call that may have
been applied is not made again elsewhere. After a call that failed, the answer of a server is
returned only once the same server has made a change: one that was replaced and does not know it yet
(it was frozen) reports what it had, and what it began and cannot finish.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from ashore.errors import AnswerUnknown, NotApplied, PathExists, StorageError, check
from ashore.storage.base import Confirms, FileWriter, Storage, StorageForwarder

_log = logging.getLogger(__name__)

T = TypeVar("T")
Opener = Callable[[], Storage]  # of one server; its calls end within a deadline


LOOKS = 5  # how often a look is made again because servers change meanwhile


class ActiveServer:
    """Which server served last. Shared by all storages of a process that have the same servers."""

    def __init__(self, index: int = 0) -> None:
        self._lock = threading.Lock()
        self.index = index
        self._failures = 0
        self._settled = 0  # as many failures had been seen when a server was last confirmed

    @property
    def doubt(self) -> int | None:
        """A number while it is in doubt which server serves; None: no call failed lately."""
        with self._lock:
            return None if self._failures == self._settled else self._failures

    def fail(self) -> None:
        """Note that a call was not taken, or not answered."""
        with self._lock:
            self._failures += 1

    def settle(self, doubt: int) -> None:
        """Note that a server was confirmed in this doubt. Later failures make another."""
        with self._lock:
            self._settled = max(self._settled, doubt)

    def set(self, index: int, instead_of: int | None = None) -> None:
        """Ask `index` first; with `instead_of` only where that is still the one."""
        with self._lock:
            if index != self.index and instead_of in (None, self.index):
                self.index = index


class FailoverStorage(StorageForwarder):
    """A Storage that asks the next server where the first does not serve.

    Arguments:
        servers: each opens a storage for one server. It is called again after a call without an
            answer: the connection may be dead without knowing it.
        active: where it is remembered which one serves.

    """

    def __init__(self, servers: Sequence[Opener], active: ActiveServer | None = None) -> None:
        check(len(servers) > 0, "there is a server")
        self._servers = servers
        self._active = active or ActiveServer()
        self._lock = threading.Lock()
        self._storages: dict[int, Storage] = {}

    def open_write(self, path: str) -> FileWriter:
        """See Storage. Also asks on after no answer: what that may leave is an empty file.

        Where that is in the way of the next server, AnswerUnknown says so, and not PathExists.
        """
        return self._ask_where(lambda storage: storage.open_write(path), asks_on=True)[0]

    def describe(self) -> str:
        """See Storage."""
        return self._open(self._active.index).describe()

    def _forward(
        self,
        what: str,  # noqa: ARG002 - see StorageForwarder
        call: Callable[[Storage], T],
        looked_at: str | None = None,
    ) -> T:
        return self._ask_where(call)[0] if looked_at is None else self._look(looked_at, call)

    def _look(self, path: str, call: Callable[[Storage], T]) -> T:
        """Ask what changes nothing: without an answer, nothing was applied."""
        for _ in range(LOOKS):
            reported: StorageError | None = None
            try:
                answer, index = self._ask_where(call, asks_on=True)
            except AnswerUnknown as error:
                raise NotApplied(error.message, hint=error.hint) from error
            except NotApplied:
                raise
            except StorageError as error:  # an answer too: that nothing is there
                reported, index = error, self._active.index
            doubt = self._active.doubt
            if doubt is None or self._is_confirmed(path, index, doubt):
                if reported is not None:
                    raise reported
                return answer
        raise NotApplied(f"the servers of {self.describe()} keep changing: look at {path}")

    def _is_confirmed(self, path: str, index: int, doubt: int) -> bool:
        """Return whether the server that has just answered still serves. May ask others instead.

        Raises NotApplied where none of them may make a change now: to look again at once is vain.
        """

        def confirm(storage: Storage) -> None:
            if isinstance(storage, Confirms):
                storage.confirm(path)

        try:
            _, confirmed = self._ask_where(confirm)
        except AnswerUnknown as error:
            _log.warning("the answer of server %d is ignored: %s", index, error)
            return False
        except NotApplied:
            raise
        except StorageError as error:
            # A user who may not change the lake cannot confirm, and does nothing that needs it.
            _log.debug("server %d is not confirmed: %s", index, error)
            return True
        if confirmed == index:
            self._active.settle(doubt)
        return confirmed == index

    def _ask_where(self, call: Callable[[Storage], T], *, asks_on: bool = False) -> tuple[T, int]:
        """Ask each server once, the active one first, until one answers, if only with an error.

        Returns the answer and which server gave it. `asks_on`: also after a call that may be
        applied. Raises NotApplied where no server took it, AnswerUnknown where one may have.
        """
        first = self._active.index
        failures: list[AnswerUnknown | NotApplied] = []
        for step in range(len(self._servers)):
            index = (first + step) % len(self._servers)
            storage = self._open(index)
            try:
                answer = call(storage)
            except (AnswerUnknown, NotApplied) as error:
                failures.append(error)
                self._pass_on(index, storage, error)
                if isinstance(error, AnswerUnknown) and not asks_on:
                    raise
            except StorageError as error:
                self._active.set(index)
                if isinstance(error, PathExists) and _is_unclear(failures):
                    raise _made_unanswered(error, failures[0]) from error
                raise
            else:
                self._active.set(index)
                return answer, index
        messages = "; ".join(failure.message for failure in failures)
        # One that says what to do was asked, and took nothing: it is not that none is active.
        hint = next((failure.hint for failure in failures if failure.hint), "")
        what = "took the call" if hint else "is active"
        raise (AnswerUnknown if _is_unclear(failures) else NotApplied)(
            f"no server of {self.describe()} {what}: {messages}",
            hint=hint or "check that one of them is active",
        )

    def _open(self, index: int) -> Storage:
        with self._lock:
            if index not in self._storages:
                self._storages[index] = self._servers[index]()
            return self._storages[index]

    def _pass_on(self, index: int, storage: Storage, error: AnswerUnknown | NotApplied) -> None:
        """Ask the next server first from now on, unless another thread has found one meanwhile."""
        _log.warning("server %d of %s is not active: %s", index, storage.describe(), error)
        self._active.set((index + 1) % len(self._servers), instead_of=index)
        self._active.fail()
        with self._lock:
            if isinstance(error, AnswerUnknown) and self._storages.get(index) is storage:
                del self._storages[index]


def _is_unclear(failures: Sequence[StorageError]) -> bool:
    """Return whether a server may have applied the call."""
    return any(isinstance(failure, AnswerUnknown) for failure in failures)


def _made_unanswered(error: PathExists, unanswered: StorageError) -> AnswerUnknown:
    message = f"{error.message}; perhaps by the call that timed out: {unanswered.message}"
    return AnswerUnknown(message, hint="use another name")
