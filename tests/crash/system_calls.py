"""Every system call of the same job on a local disk: stopped there, and its power cut there.

What it is: the two lives of `storage_calls` over a disk that knows what was synced.
What it promises: the order of syncs is proven: whatever a power cut leaves, the log folds, readers
see nothing that it does not name, and the next processes end with the same table.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from tests.crash.harness import (
    Process,
    Reference,
    World,
    build_source,
    check_end,
    check_readers,
    check_recoverable,
    contents,
    finish,
    memory_world,
    reference,
    require,
)
from tests.crash.storage_calls import TWO_LIVES, Case

from ashore.errors import AnswerUnknown
from ashore.storage import LocalStorage
from ashore_lab.testing import (
    Call,
    DiskFault,
    FailAfterEffect,
    FailBefore,
    FakeClock,
    FaultyStorage,
    PowerCutPolicy,
    SimulatedDisk,
    StopProcess,
)

LIVES = len(TWO_LIVES.lives)
ROOT = "/data/lake"
T = TypeVar("T")
READS = {"stat", "read", "list_names"}


def disk_world(disk: SimulatedDisk, clock: FakeClock) -> World:
    return World(LocalStorage(ROOT, disk.restarted()), build_source(clock), clock)


def start_life(world: World, disk: SimulatedDisk, life: int) -> Process:
    """Start a process whose system calls are those of `disk`."""
    storage = LocalStorage(ROOT, disk)
    return world.start_on(FaultyStorage(storage, TWO_LIVES.lives[life].ends, pending=world.pending))


def run_lives(lives: int, *, can_rename: bool) -> tuple[World, SimulatedDisk]:
    """Run the first lives without a fault."""
    clock = FakeClock(monotonic_start_s=0.0)
    disk = SimulatedDisk(clock=clock, can_rename=can_rename)
    world = disk_world(disk, clock)
    for life in range(lives):
        check_end(start_life(world, disk.restarted(), life).run())
    return world, disk


def run_until(
    struck: int, faults: Sequence[DiskFault], *, can_rename: bool
) -> tuple[World, SimulatedDisk]:
    """Run the lives up to the struck one, whose process has the faults; return its disk."""
    world, disk = run_lives(struck, can_rename=can_rename)
    faulty = disk.restarted(faults)
    check_end(start_life(world, faulty, struck).run())
    return world, faulty


def number_calls(*, can_rename: bool) -> list[list[Call]]:
    """Return the system calls of each life without a fault."""
    return [run_until(life, (), can_rename=can_rename)[1].calls for life in range(LIVES)]


def go_on(world: World, disk: SimulatedDisk, life: int, expected: Reference) -> None:
    """Run the lives that are left on a disk, finish, and see that the end is durable."""
    machine = disk.restarted()
    world.machine = LocalStorage(ROOT, machine)
    check_readers(world.machine)
    for later in range(life + 1, LIVES):
        check_end(start_life(world, disk.restarted(), later).run())
    finish(world, expected)
    whole = contents(world.machine)
    left = contents(LocalStorage(ROOT, machine.power_cut(PowerCutPolicy.NOTHING_UNSYNCED)))
    require(left == whole, "not durable at the end")


def stops(policy: PowerCutPolicy | None, *, can_rename: bool) -> Iterator[Case]:
    """Yield a stop before each system call, with or without a power cut. None is left out.

    After a call that changes nothing the disk is as it was before it, and so is all that follows.
    """
    expected = reference(memory_world())
    for life, calls in enumerate(number_calls(can_rename=can_rename)):
        for before, call in zip([None, *calls], calls, strict=False):
            if before is not None and before.kind in READS:
                continue

            def run(life: int = life, call: Call = call) -> None:
                world, disk = run_until(life, [StopProcess(call.number)], can_rename=can_rename)
                require(disk.is_stopped, "the process was not stopped")
                go_on(world, disk.power_cut(policy) if policy else disk, life, expected)

            yield f"life {life}, before {call.number}: {call.kind} {call.path}", run


def errors(fault: type[FailBefore | FailAfterEffect], *, can_rename: bool) -> Iterator[Case]:
    """Yield an error at each system call; the process rides it out or dies; then a power cut."""
    expected = reference(memory_world())
    for life, calls in enumerate(number_calls(can_rename=can_rename)):
        for call in calls:

            def run(life: int = life, call: Call = call) -> None:
                world, disk = run_until(life, [fault(call.number)], can_rename=can_rename)
                require(len(disk.fired) == 1, "the fault has not struck")
                after = disk.power_cut(PowerCutPolicy.NOTHING_UNSYNCED)
                go_on(world, after, life, expected)
                go_on(world, disk, life, expected)

            yield f"life {life}, error at {call.number}: {call.kind} {call.path}", run


class Hung(BaseException):
    """The system call does not come back."""


class HangingDisk(SimulatedDisk):
    """A disk one of whose system calls does not come back, nor does the storage call around it."""

    def __init__(self, of: SimulatedDisk, number: int) -> None:
        super().__init__()
        self._machine = of._machine
        self._left = number
        self.is_hanging = False

    @contextmanager
    def _call(self, kind: str, path: str, target: str = "") -> Iterator[None]:
        self._left -= 1
        if self._left == 0 or self.is_hanging:
            self.is_hanging = True
            raise Hung
        with super()._call(kind, path, target):
            yield


class GivenUpStorage(FaultyStorage):
    """Answers for a call that hangs, as a deadline does, and looks around once files are moved."""

    def __init__(self, disk: HangingDisk, life: int, look: Callable[[], None]) -> None:
        super().__init__(LocalStorage(ROOT, disk), TWO_LIVES.lives[life].ends)
        self._disk = disk
        self._look = look

    def apply(
        self,
        asked: tuple[str, str] | tuple[str, str, str],
        effect: Callable[[], T],
        late: Callable[[], object] | None = None,
    ) -> T:
        def answer() -> T:
            try:
                return effect()
            except Hung:
                raise AnswerUnknown(f"no answer: {asked}") from None
            finally:
                self._disk.is_hanging = False

        try:
            return super().apply(asked, answer, late)
        finally:
            if asked[0] in ("publish", "sync"):
                self._look()


def hangs(*, can_rename: bool) -> Iterator[Case]:
    """Yield a hang at each system call that changes something; power may go at any time after it.

    What hung never takes effect, nor is it durable, although its traces may be seen: the process
    that goes on must not build on them.
    """
    expected = reference(memory_world())
    for life, calls in enumerate(number_calls(can_rename=can_rename)):
        for call in calls:
            if call.kind in READS:
                continue

            def run(life: int = life, call: Call = call) -> None:
                run_hang(life, call, expected, can_rename=can_rename)

            yield f"life {life}, hangs at {call.number}: {call.kind} {call.path}", run


def run_hang(life: int, call: Call, expected: Reference, *, can_rename: bool) -> None:
    world, machine = run_lives(life, can_rename=can_rename)
    disk = HangingDisk(machine, call.number)

    def look() -> None:
        for policy in (PowerCutPolicy.NOTHING_UNSYNCED, PowerCutPolicy.REMOVALS_LOST):
            check_recoverable(LocalStorage(ROOT, disk.power_cut(policy)))

    check_end(world.start_on(GivenUpStorage(disk, life, look)).run())
    go_on(world, disk, life, expected)
