"""A writer frozen at every storage call, while another takes over, archives and cleans.

What it is: the first writer stands still before one call; others act; it wakes and goes on from
that very call.
What it promises: it ends fenced, or had nothing more to do; the table is the same. A writer that
was still opening may take the slice back: then the other one is fenced.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from tests.crash.harness import (
    NAME,
    Reference,
    World,
    check_end,
    check_readers,
    clean,
    finish,
    history,
    keep_house,
    memory_world,
    reference,
    require,
)
from tests.crash.storage_calls import Case

from ashore.errors import Fenced
from ashore.log.fold import Fold
from ashore.log.store.reader import read_log
from ashore.storage import Storage
from ashore_lab.testing import (
    FailAfterEffect,
    FailBefore,
    Fault,
    FaultyStorage,
    LateEffect,
    StopProcess,
)

T = TypeVar("T")
OPENS = 8  # of a crash loop: as many as an archive has entries in its tests
BATCH_RECORDS = 4  # more batches, so that the log grows past what the frozen writer knows


class FrozenStorage(FaultyStorage):
    """A process that stands still before one call, while `others` act."""

    def __init__(
        self,
        inner: Storage,
        number: int,
        others: Callable[[], None],
        faults: Sequence[Fault] = (),
    ) -> None:
        super().__init__(inner, faults)
        self._number = number
        self._others = others
        self.has_frozen = False

    def apply(
        self,
        asked: tuple[str, str] | tuple[str, str, str],
        effect: Callable[[], T],
        late: Callable[[], object] | None = None,
    ) -> T:
        if len(self.calls) + 1 == self._number and not self.has_frozen:
            self.has_frozen = True
            self._others()
        return super().apply(asked, effect, late)


def new_world() -> World:
    world = memory_world()
    world.batch_records = BATCH_RECORDS
    return world


def land_everything(world: World) -> None:
    """Take over, land, snapshot, archive and clean; twice, so that removals reach far."""
    for _ in range(2):
        check_end(world.start().run())
        keep_house(world, world.machine)


def start_again_and_again(world: World) -> None:
    """Die after each take-over; then land everything, archive and clean."""
    for _ in range(OPENS):
        world.start().loop.open()
    check_end(world.start().run())
    keep_house(world, world.machine)


def only_open(world: World) -> None:
    """Take over and finish what was prepared; the frozen writer wakes in the midst of it."""
    world.start().loop.open()
    clean(world, world.machine)


def land_one_batch(world: World) -> None:
    """Take over and land one batch, which stays unclosed."""
    world.start().loop.tick()
    clean(world, world.machine)


def prepare_and_die(world: World) -> None:
    """Take over, prepare a batch and be killed before its moves; a janitor comes along."""
    world.start([StopProcess(1, kind="publish")]).run()
    clean(world, world.machine)


OTHERS = (land_everything, only_open, land_one_batch, prepare_and_die)
WAKING: dict[str, Callable[[int], Sequence[Fault]]] = {
    "wakes": lambda _number: (),
    "wakes, and its call fails": lambda number: [FailBefore(number)],
    "wakes, and its answer is lost": lambda number: [FailAfterEffect(number)],
    "wakes, and its call takes effect late": lambda number: [LateEffect(number, after=3, times=2)],
    "wakes, and its next call fails": lambda number: [FailBefore(number + 1)],
}


def frozen_writers(
    others: Callable[[World], None], waking: str, kind: str | None = None
) -> Iterator[Case]:
    """Freeze the first writer before each of its calls, or each of a kind."""
    expected = reference(new_world())
    whole = new_world().start()
    check_end(whole.run())
    for call in whole.faulty.calls:
        if kind not in (None, call.kind):
            continue

        def run(number: int = call.number) -> None:
            run_frozen(number, others, WAKING[waking](number), expected)

        yield f"call {call.number} waits: {call.kind} {call.path}", run


def run_frozen(
    number: int, others: Callable[[World], None], faults: Sequence[Fault], expected: Reference
) -> None:
    world = new_world()
    frozen = FrozenStorage(world.machine, number, lambda: others(world), faults)
    woken = world.start_on(frozen)
    ended = woken.run()
    require(frozen.has_frozen, "it was never frozen")
    if not isinstance(ended, Fenced):
        require(ended is None, f"the woken writer ended with {ended!r}")
        is_last = number == woken.faulty.calls[-1].number
        require_own(woken.loop.parts.log.fold, world, is_last=is_last)
    check_readers(world.machine)
    frozen.pending.release()
    finish(world, expected)


def require_own(ours: Fold, world: World, *, is_last: bool) -> None:
    """A writer that ended well has the slice; or it was frozen at its last look, and had it."""
    epoch = read_log(world.machine, NAME).epoch
    entries = {entry.number: entry.checksum for entry in history(world.machine)}
    had = is_last and entries.get(ours.end) == ours.last
    require(ours.epoch == epoch or had, f"it ended well as {ours.epoch}; the owner is {epoch}")


def frozen_keepers() -> Iterator[Case]:
    """Freeze housekeeping before each of its calls, while writers come, land and keep house."""
    expected = reference(new_world())
    world, whole = begun_world()
    keep_house(world, whole)
    for call in whole.calls:

        def run(number: int = call.number) -> None:
            world, _ = begun_world()
            frozen = FrozenStorage(world.machine, number, lambda: land_everything(world))
            keep_house(world, frozen)
            require(frozen.has_frozen, "it was never frozen")
            finish(world, expected)

        yield f"call {call.number} waits: {call.kind} {call.path}", run


def begun_world() -> tuple[World, FaultyStorage]:
    """Return a job that was killed three times, with files to clean and files to keep."""
    world = new_world()
    for killed in (StopProcess(6, kind="close"), StopProcess(1, kind="sync")):
        world.start([killed]).run()
    world.start([StopProcess(1, kind="publish", when="after")]).run()
    return world, FaultyStorage(world.machine)


def frozen_queries(new_world: Callable[[], World], waking: str) -> Iterator[Case]:
    """Freeze the first process of a query before each of its calls; another runs to the end."""
    expected, whole = reference(new_world()), new_world().start()
    check_end(whole.run())
    for call in whole.faulty.calls:

        def run(number: int = call.number) -> None:
            world = new_world()
            faults = WAKING[waking](number)
            others = lambda: check_end(world.start().run())  # noqa: E731 - as short as it gets
            frozen = FrozenStorage(world.machine, number, others, faults)
            ended = world.start_on(frozen).run()
            require(frozen.has_frozen, "it was never frozen")
            is_well = ended is None or isinstance(ended, Fenced)
            require(is_well, f"the woken process ended with {ended!r}")
            check_readers(world.machine)
            frozen.pending.release()
            finish(world, expected)

        yield f"call {call.number} waits: {call.kind} {call.path}", run
