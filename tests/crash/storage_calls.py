"""Every storage call of a three-batch job with a take-over, under every fault.

The job has two lives. The first lands a batch, prepares the next and is killed after the first of
its moves; the second takes over, finishes that batch, lands the last one and commits. A fault
strikes at one call of one of them; then a third process finishes, and the table is compared.
`Scenario` does the same with other lives, on other storages.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pytest
from tests.crash.harness import (
    CLICKS,
    ORDERS,
    TRIES,
    Process,
    Reference,
    World,
    check_readers,
    finish,
    keep_house,
    memory_world,
    reference,
    require,
    value,
)
from tests.marks import but
from tests.prompt_deadline import PromptDeadline

from ashore.errors import AshoreError, StorageError
from ashore.log import names
from ashore.log.positions import StreamShard
from ashore.storage import DeadlineStorage, MemoryStorage, Storage
from ashore_lab.testing import (
    Call,
    FailAfterEffect,
    FailBefore,
    FakeClock,
    Fault,
    Hang,
    LateEffect,
    ProcessStopped,
    RecordedSource,
    StopProcess,
)

FIRST_LIFE_ENDS = StopProcess(5, kind="publish", when="after")  # the first move of the second batch
Case = tuple[str, Callable[[], None]]


@dataclass(frozen=True)
class Strike:
    """A fault at each call, and when its late effect arrives."""

    name: str
    faults: Callable[[int], Sequence[Fault]]
    arrives: str = "by itself"  # or: "at open", "when the process has ended", "at the end"
    hangs: bool = False


def strikes() -> Iterator[Strike]:
    yield Strike("fails before", lambda n: [FailBefore(n)])
    yield Strike("fails after", lambda n: [FailAfterEffect(n)])
    yield Strike("stops before", lambda n: [StopProcess(n, when="before")])
    yield Strike("stops after", lambda n: [StopProcess(n, when="after")])
    for times in (1, 2):
        yield from late_strikes(times)
    for arrives in ("when the process has ended", "at open", "at the end"):
        yield Strike(f"hangs, {arrives}", lambda n: [Hang(n)], arrives, hangs=True)


def late_strikes(times: int) -> Iterator[Strike]:
    """A call takes effect late; the process lives, or is killed at its next call."""

    def late(after: int | None, *, stops: bool) -> Callable[[int], Sequence[Fault]]:
        def faults(n: int) -> Sequence[Fault]:
            stop = [StopProcess(n + 1)] if stops else []
            return [LateEffect(n, after=after, times=times), *stop]

        return faults

    for stops in (False, True):
        how = f"{'and stops, ' if stops else ''}{times} times"
        yield Strike(f"late at the next call, {how}", late(1, stops=stops))
        yield Strike(f"late two calls later, {how}", late(2, stops=stops))
        yield Strike(f"late at the next open, {how}", late(None, stops=stops), "at open")
        yield Strike(f"late at the end, {how}", late(None, stops=stops), "at the end")


# Every kind of fault once; how late, how often and whether it stops too is for the long run, and
# so is a stop after a call: mostly it leaves what a stop before the next one leaves.
EVERYDAY = {
    "fails before",
    "fails after",
    "stops before",
    "late at the next open, and stops, 2 times",
    "hangs, at open",
}
every_strike = pytest.mark.parametrize(
    "strike",
    but(pytest.mark.long, strikes(), lambda strike: strike.name in EVERYDAY),
    ids=lambda strike: strike.name,
)


@dataclass(frozen=True)
class Life:
    """One process of a job: what ends it before all has landed, or what it does afterwards."""

    ends: tuple[Fault, ...] = ()
    keeps_house: bool = False

    def live(self, world: World, process: Process) -> AshoreError | ProcessStopped | None:
        """Land, and keep house; return what ended it before its time."""
        ended = process.run()
        if ended is not None or not self.keeps_house:
            return ended
        for _ in range(TRIES):
            try:
                keep_house(world, process.storage)
            except StorageError as error:
                ended = error
            except ProcessStopped as stopped:
                return stopped
            else:
                return None
        return ended


@dataclass(frozen=True)
class Scenario:
    """The lives of a job, each call of which a fault may strike."""

    new_world: Callable[[], World]
    lives: tuple[Life, ...]

    def number_calls(self) -> list[list[Call]]:
        """Return the calls of each life without a fault."""
        world, calls = self.new_world(), []
        for life in self.lives:
            process = world.start(life.ends)
            life.live(world, process)
            calls.append(process.faulty.calls)
        return calls

    def run_case(self, strike: Strike, struck: int, call: Call, expected: Reference) -> None:
        """Strike at one call of the life `struck`, and compare what is there in the end."""
        world = self.new_world()
        if strike.arrives == "at open":
            world.release_when_opened()
        hung: list[Process] = []
        for number, life in enumerate(self.lives):
            faults = list(strike.faults(call.number)) if number == struck else []
            process = self._start(world, [*faults, *life.ends], strike)
            ended = life.live(world, process)
            is_well = ended is None or isinstance(ended, ProcessStopped)
            require(is_well, f"it has not got over one fault: {ended!r}")
            if number == struck:
                require(faults[0] in process.faulty.fired, "the fault has not struck")
                found = process.faulty.calls[call.number - 1]
                require(found.kind == call.kind, f"the fault has struck at a {found.kind}")
                hung += [process] if strike.hangs else []
            if hung and strike.arrives == "at open":
                world.pending.add(LateEffect(1, after=None), process.faulty.release_hangs)
            if strike.arrives == "when the process has ended":
                release(hung)
            check_readers(world.machine)
        finish(world, expected)
        if hung:
            release(hung)
            finish(world, expected)

    def _start(self, world: World, faults: list[Fault], strike: Strike) -> Process:
        if not strike.hangs:
            return world.start(faults)
        return world.start(faults, wrap=PromptDeadline)


def small_world(storage: Storage, clock: FakeClock) -> World:
    """Three batches of two records: one file, two files (one of dead records), one file."""
    source = RecordedSource(clock=clock)
    source.create(CLICKS, 1)
    source.create(ORDERS, 1)
    source.append(StreamShard(CLICKS, "0"), *map(value, (0, 2, 1, 3, 4)))
    return World(storage, source, clock, batch_records=2)


# For a small world and a short log: the last life has staged files and entries to delete.
KEEPER_LIVES = (
    Life((StopProcess(3, kind="close", when="after"),)),  # the last file of the second batch
    Life((StopProcess(2, kind="publish", when="after"),)),  # its first move
    Life(keeps_house=True),
)


def keeper_world() -> World:
    clock = FakeClock(monotonic_start_s=0.0)
    return small_world(MemoryStorage(clock), clock)


KEEPER = Scenario(keeper_world, KEEPER_LIVES)
TWO_LIVES = Scenario(memory_world, (Life((FIRST_LIFE_ENDS,)), Life()))


def number_calls() -> list[list[Call]]:
    """Return the calls of each life without a fault."""
    return TWO_LIVES.number_calls()


def cases(strike: Strike) -> Iterator[Case]:
    """Yield the strike at every call of the job. No call is left out."""
    return cases_of(TWO_LIVES, strike, range(len(TWO_LIVES.lives)))


def keeper_cases(strike: Strike) -> Iterator[Case]:
    """Yield the strike at every call of the process that finishes, archives and cleans."""
    return cases_of(KEEPER, strike, [len(KEEPER_LIVES) - 1])


def cases_of(scenario: Scenario, strike: Strike, lives: Sequence[int]) -> Iterator[Case]:
    expected, calls = reference(scenario.new_world()), scenario.number_calls()
    for life in lives:
        for call in calls[life]:

            def run(life: int = life, call: Call = call) -> None:
                scenario.run_case(strike, life, call, expected)

            yield describe(strike, life, call), run


def deleted_by(calls: Sequence[Call]) -> set[str]:
    """Return what kinds of things calls delete: entries, staged files, directories of epochs."""
    leaves = (names.leaf(call.path) for call in calls if call.kind == "delete")
    return {"epoch" if leaf.isdigit() else leaf.rpartition(".")[2] for leaf in leaves}


def describe(strike: Strike, life: int, call: Call) -> str:
    """Return a case in words."""
    return f"{strike.name} at life {life}, call {call.number}: {call.kind} {call.path}"


def release(hung: Sequence[Process]) -> None:
    """Let the calls that hang go on, and wait until they have taken effect."""
    until_s = time.monotonic() + 5
    for process in hung:
        process.faulty.release_hangs()
        while isinstance(process.storage, DeadlineStorage):
            abandoned, answered = process.storage.statistics()
            if abandoned == answered:
                break
            require(time.monotonic() < until_s, "the call that hung never came back")
            time.sleep(0.001)
