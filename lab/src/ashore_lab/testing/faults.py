"""Faults as data, and a storage that has them.

What it is: values that say which call fails and how, and `FaultyStorage`, which obeys them.
What it promises: calls are numbered from 1, so that a test can strike at each of them; the same
faults over the same calls do the same.
"""

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, Literal, NamedTuple, TypeVar

from ashore.errors import AnswerUnknown, CatalogError, StorageError, check
from ashore.storage.base import FileStat, FileWriter, GuardedWriter, Staged, Storage

T = TypeVar("T")
When = Literal["before", "after"]

STORAGE_CALLS = frozenset(
    {"create", "open_write", "write", "close", "publish", "stat", "list", "read", "delete", "sync"}
)
CATALOG_CALLS = frozenset(
    {"check_table", "ensure_table", "add_partitions", "mark_sealed", "drop_partitions"}
)


class ProcessStopped(BaseException):
    """The process is gone. No Exception, so that nothing on the way up treats it as an error."""


@dataclass(frozen=True, slots=True)
class _Fault:
    number: int  # from 1: the n-th call of all, or of its kind
    kind: str | None = None

    def __post_init__(self) -> None:
        check(self.number >= 1, "calls are numbered from 1")


@dataclass(frozen=True, slots=True)
class FailBefore(_Fault):
    """The call fails and nothing is applied. The caller cannot know the latter."""


@dataclass(frozen=True, slots=True)
class FailAfterEffect(_Fault):
    """The call is applied and its answer lost."""


@dataclass(frozen=True, slots=True)
class LateEffect(_Fault):
    """The call fails now and is applied later, once or twice, whichever processes are alive then.

    `after`: how many calls later, counted by the PendingEffects over all who share it; the second
    time as many calls later again. None: when the test calls `PendingEffects.release`.
    """

    after: int | None = 1
    times: int = 1

    def __post_init__(self) -> None:
        super(LateEffect, self).__post_init__()
        check(self.after is None or self.after >= 1, "late is at least one call later")
        check(self.times in (1, 2), "a late call is applied once or twice")


@dataclass(frozen=True, slots=True)
class Hang(_Fault):
    """The call does not come back until `FaultyStorage.release_hangs`; then it is applied."""


@dataclass(frozen=True, slots=True)
class StopProcess(_Fault):
    """The process is killed before the call, or when it has been applied."""

    when: When = "before"


@dataclass(frozen=True, slots=True)
class PowerCut(_Fault):
    """As StopProcess, and the machine loses power: the test drops what was not synced."""

    when: When = "before"


Fault = FailBefore | FailAfterEffect | LateEffect | Hang | StopProcess | PowerCut


class Call(NamedTuple):
    """One call as it was made, whatever came of it."""

    number: int
    kind: str
    path: str
    target: str = ""


FaultT = TypeVar("FaultT", bound=_Fault)


class Schedule(Generic[FaultT]):
    """Numbers calls, finds their fault. After a stop all further calls are stopped."""

    def __init__(self, faults: Sequence[FaultT]) -> None:
        self._lock = threading.Lock()
        self._faults = {(fault.kind, fault.number): fault for fault in faults}
        check(len(self._faults) == len(faults), "two faults strike at one call")
        self._counts: dict[str, int] = {}
        self._calls: list[Call] = []
        self._fired: list[FaultT] = []
        self._is_stopped = False

    @property
    def calls(self) -> list[Call]:
        """The calls made so far."""
        with self._lock:
            return list(self._calls)

    @property
    def fired(self) -> list[FaultT]:
        """The faults that have struck. A fault that is not among them tested nothing."""
        with self._lock:
            return list(self._fired)

    @property
    def is_stopped(self) -> bool:
        """Whether the process is gone."""
        return self._is_stopped

    def take(self, kind: str, path: str, target: str = "") -> tuple[Call, FaultT | None]:
        """Number a call. Raises ProcessStopped, and counts nothing, after a stop."""
        with self._lock:
            self.refuse_if_stopped()
            number = len(self._calls) + 1
            self._counts[kind] = self._counts.get(kind, 0) + 1
            call = Call(number, kind, path, target)
            self._calls.append(call)
            fault = self._faults.get((None, number)) or self._faults.get((kind, self._counts[kind]))
            if fault is not None:
                self._fired.append(fault)
            return call, fault

    def stop(self, call: Call) -> ProcessStopped:
        """Stop the process. Returns what the caller raises."""
        self._is_stopped = True
        return ProcessStopped(f"stopped at call {call.number}: {call.kind} {call.path}")

    def refuse_if_stopped(self) -> None:
        """Raise ProcessStopped after a stop."""
        if self._is_stopped:
            raise ProcessStopped("the process is gone")


@dataclass(slots=True)
class _Effect:
    apply: Callable[[], object]
    after: int | None
    times_left: int
    wait_left: int | None


class PendingEffects:
    """Calls on their way to the storage. They outlive the process that made them.

    Hand the same object to the FaultyStorage of a restarted or a second process.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._effects: list[_Effect] = []
        self._matches: Callable[[Call], bool] | None = None

    def __len__(self) -> int:
        with self._lock:
            return len(self._effects)

    def release(self) -> None:
        """Apply each effect once, now. What is to be applied twice stays for the next time."""
        with self._lock:
            self._apply(list(self._effects))

    def release_after(self, matches: Callable[[Call], bool]) -> None:
        """Release when the next call that matches has been made, by any caller."""
        with self._lock:
            self._matches = matches

    def add(self, fault: LateEffect, apply: Callable[[], object]) -> None:
        """Take up the effect of a call. For FaultyStorage."""
        with self._lock:
            self._effects.append(_Effect(apply, fault.after, fault.times, fault.after))

    def before_call(self) -> None:
        """Apply what is due. For FaultyStorage."""
        with self._lock:
            for effect in self._effects:
                if effect.wait_left is not None:
                    effect.wait_left -= 1
            self._apply([effect for effect in self._effects if effect.wait_left == 0])

    def after_call(self, call: Call) -> None:
        """Release if this was the call. For FaultyStorage."""
        with self._lock:
            if self._matches is not None and self._matches(call):
                self._matches = None
                self.release()

    def _apply(self, due: list[_Effect]) -> None:
        for effect in due:
            effect.times_left -= 1
            effect.wait_left = effect.after
            with suppress(StorageError):  # its answer has long been given up
                effect.apply()
        self._effects = [effect for effect in self._effects if effect.times_left > 0]


class FaultyStorage:
    """A Storage with faults. One for each "process" of a test; `abandon` of a writer is no call.

    Arguments:
        inner: what the calls are applied to; the "machine", shared by all processes.
        faults: which calls fail, and how.
        pending: where late effects wait; shared as `inner` is.
        on_power_cut: called once, at a PowerCut, before ProcessStopped is raised.

    """

    def __init__(
        self,
        inner: Storage,
        faults: Sequence[Fault] = (),
        *,
        pending: PendingEffects | None = None,
        on_power_cut: Callable[[], None] | None = None,
    ) -> None:
        for fault in faults:
            known = fault.kind is None or fault.kind in STORAGE_CALLS | CATALOG_CALLS
            check(known, f"no call is a {fault.kind}")
        self.pending = PendingEffects() if pending is None else pending
        self._inner = inner
        self._schedule: Schedule[Fault] = Schedule(faults)
        self._on_power_cut = on_power_cut
        self._hangs_released = threading.Event()
        self.on_hang: Callable[[], None] | None = None  # called in the thread that hangs, before

    @property
    def calls(self) -> list[Call]:
        """The calls made so far, in order."""
        return self._schedule.calls

    @property
    def fired(self) -> list[Fault]:
        """The faults that have struck. A fault that is not among them tested nothing."""
        return self._schedule.fired

    @property
    def is_stopped(self) -> bool:
        """Whether the process is gone."""
        return self._schedule.is_stopped

    def refuse_if_stopped(self) -> None:
        """Raise ProcessStopped after a stop."""
        self._schedule.refuse_if_stopped()

    def release_hangs(self) -> None:
        """Let every call that hangs continue, and those that would hang later."""
        self._hangs_released.set()

    def create(self, path: str, data: bytes) -> None:
        """See Storage."""
        self.apply(("create", path), lambda: self._inner.create(path, data))

    def open_write(self, path: str) -> FileWriter:
        """See Storage. A late effect leaves an empty file."""
        inner = self.apply(
            ("open_write", path),
            lambda: self._inner.open_write(path),
            late=lambda: self._inner.open_write(path).abandon(),
        )
        return _FaultyWriter(self, inner, path)

    def publish(self, staged: Staged, final: str) -> None:
        """See Storage."""
        asked = ("publish", staged.path, final)
        self.apply(asked, lambda: self._inner.publish(staged, final))

    def stat(self, path: str) -> FileStat | None:
        """See Storage."""
        return self.apply(("stat", path), lambda: self._inner.stat(path))

    def list(self, directory: str) -> list[FileStat]:
        """See Storage."""
        return self.apply(("list", directory), lambda: self._inner.list(directory))

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        """See Storage."""
        return self.apply(("read", path), lambda: self._inner.read(path, start, length))

    def delete(self, path: str) -> None:
        """See Storage."""
        self.apply(("delete", path), lambda: self._inner.delete(path))

    def sync(self, directories: Sequence[str]) -> None:
        """See Storage."""
        self.apply(("sync", " ".join(directories)), lambda: self._inner.sync(directories))

    def describe(self) -> str:
        """See Storage."""
        return self._inner.describe()

    def apply(
        self,
        asked: tuple[str, str] | tuple[str, str, str],
        effect: Callable[[], T],
        late: Callable[[], object] | None = None,
    ) -> T:
        """Make one call: its kind, path and target, and what it does.

        For writers too, and for what else the process does and may be struck at.
        """
        call, fault = self._schedule.take(*asked)
        self.pending.before_call()
        try:
            self._strike_before(call, fault, late or effect)
            answer = self._apply(call, fault, effect)
        finally:
            self.pending.after_call(call)
        if isinstance(fault, StopProcess | PowerCut):
            raise self._stop(call, fault)
        self._schedule.refuse_if_stopped()  # by another thread, while this call was under way
        return answer

    def _strike_before(self, call: Call, fault: Fault | None, late: Callable[[], object]) -> None:
        match fault:
            case FailBefore():
                raise StorageError(f"injected: {call} failed", path=call.path)
            case LateEffect():
                self.pending.add(fault, late)
                raise AnswerUnknown(f"injected: {call} is applied late", path=call.path)
            case Hang():
                if self.on_hang is not None and not self._hangs_released.is_set():
                    self.on_hang()
                self._hangs_released.wait()
            case StopProcess(when="before") | PowerCut(when="before"):
                raise self._stop(call, fault)
            case _:
                pass

    def _apply(self, call: Call, fault: Fault | None, effect: Callable[[], T]) -> T:
        try:
            answer = effect()
        except (StorageError, CatalogError):
            self._schedule.refuse_if_stopped()
            if isinstance(fault, StopProcess | PowerCut):
                raise self._stop(call, fault) from None
            if not isinstance(fault, FailAfterEffect):
                raise
        else:
            if not isinstance(fault, FailAfterEffect):
                return answer
        raise AnswerUnknown(f"injected: the answer to {call} was lost", path=call.path)

    def _stop(self, call: Call, fault: StopProcess | PowerCut) -> ProcessStopped:
        stopped = self._schedule.stop(call)
        if isinstance(fault, PowerCut) and self._on_power_cut is not None:
            self._on_power_cut()
        return stopped


class _FaultyWriter(GuardedWriter):
    def __init__(self, storage: FaultyStorage, inner: FileWriter, path: str) -> None:
        super().__init__(path)
        self._storage = storage
        self._inner = inner
        self._is_late = False

    def write(self, data: bytes) -> int:
        """See FileWriter."""
        self._storage.refuse_if_stopped()
        return super().write(data)

    def close(self) -> None:
        """See FileWriter."""
        self._storage.refuse_if_stopped()
        super().close()

    def _append(self, data: memoryview) -> None:
        payload = bytes(data)
        self._call("write", lambda: self._inner.write(payload))

    def _finish(self) -> None:
        self._call("close", self._inner.close)

    def _call(self, kind: str, effect: Callable[[], object]) -> None:
        try:
            self._storage.apply((kind, self._path), effect)
        except AnswerUnknown:
            self._is_late = True  # the call may be on its way: leave the inner writer to it
            raise

    def _release(self) -> None:
        if not self._is_late and not self._storage.is_stopped:
            self._inner.abandon()
