"""Every storage call of a three-batch job with a take-over, under every fault.

The job has two lives. The first lands a batch, prepares the next and is killed after the first of
its moves; the second takes over, finishes that batch, lands the last one and commits. A fault
strikes at one call of one of them; then a third process finishes, and the table is compared.
`Scenario` does the same with other lives, on other storages.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tests.crash.harness import (
    Process,
    Reference,
    World,
    check_readers,
    finish,
    memory_world,
    reference,
    require,
)

from ashore.storage import DeadlineStorage
from ashore.testing import (
    Call,
    FailAfterEffect,
    FailBefore,
    Fault,
    FaultyStorage,
    Hang,
    LateEffect,
    ProcessStopped,
    StopProcess,
)

LIVES = 2
FIRST_LIFE_ENDS = StopProcess(5, kind="move", when="after")  # the first move of the second batch
DEADLINE_S = 0.05
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


def number_calls() -> list[list[Call]]:
    """Return the calls of each life without a fault."""
    world, calls = memory_world(), []
    for life in range(LIVES):
        process = world.start(life_ends(life))
        process.run()
        calls.append(process.faulty.calls)
    return calls


def life_ends(life: int) -> list[Fault]:
    return [FIRST_LIFE_ENDS] if life == 0 else []


def cases(strike: Strike) -> Iterator[Case]:
    """Yield the strike at every call of the job. No call is left out."""
    expected = reference(memory_world())
    for life, calls in enumerate(number_calls()):
        for call in calls:

            def run(life: int = life, call: Call = call) -> None:
                run_case(memory_world(), strike, (life, call.number), expected)

            what = f"life {life}, call {call.number}: {call.kind} {call.path}"
            yield f"{strike.name} at {what}", run


def run_case(world: World, strike: Strike, place: tuple[int, int], expected: Reference) -> None:
    struck, number = place
    if strike.arrives == "at open":
        world.release_when_opened()
    hung: list[Process] = []
    for life in range(LIVES):
        faults = list(strike.faults(number)) if life == struck else []
        process = start(world, [*faults, *life_ends(life)], strike)
        ended = process.run()
        is_well = ended is None or isinstance(ended, ProcessStopped)
        require(is_well, f"it has not got over one fault: {ended!r}")
        if life == struck:
            require(faults[0] in process.faulty.fired, "the fault has not struck")
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


def start(world: World, faults: list[Fault], strike: Strike) -> Process:
    if not strike.hangs:
        return world.start(faults)
    return world.start(faults, wrap=with_deadline)


def with_deadline(faulty: FaultyStorage) -> DeadlineStorage:
    return DeadlineStorage(faulty, DEADLINE_S)


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
