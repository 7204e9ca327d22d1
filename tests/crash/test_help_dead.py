"""`ashore recover` helps a dead job to its end, appends nothing, and may race anybody."""

from collections import Counter
from collections.abc import Iterator, Sequence

from tests.crash.harness import (
    NAME,
    World,
    check_end,
    check_readers,
    check_table,
    clean,
    finish,
    history,
    memory_world,
    reference,
    require,
    require_none_fails,
)
from tests.crash.second_writer import FrozenStorage
from tests.crash.storage_calls import FIRST_LIFE_ENDS, Case

from ashore.log import names
from ashore.log.entries import Prepare, ShardRead
from ashore.log.plan_commit import PublishBatch, SyncLog
from ashore.log.store.dead_job import help_dead, plan_help
from ashore.log.store.reader import read_log
from ashore.storage import Storage
from ashore.storage.base import Staged
from ashore_lab.testing import FaultyStorage, RecordedRow, StopProcess


def help_it(world: World, storage: Storage) -> None:
    help_dead(storage, NAME, world.clock, plan_help(storage, NAME))


def dead_world(number: int | None = None) -> World:
    """A job that was killed before a call, or in the midst of the moves of its second batch."""
    world = memory_world()
    world.start([StopProcess(number) if number else FIRST_LIFE_ENDS]).run()
    return world


def holds(read: ShardRead, row: RecordedRow) -> bool:
    is_same = (row.stream, row.shard) == (read.key.stream, read.key.shard)
    return is_same and read.offsets.start <= row.offset < read.offsets.end


def helped_jobs() -> Iterator[Case]:
    """Help a job that died before each of its calls. No call is left out."""
    expected = reference(memory_world())
    whole = memory_world().start()
    check_end(whole.run())
    for call in whole.faulty.calls:

        def run(number: int = call.number) -> None:
            world = dead_world(number)
            before = history(world.machine)
            help_it(world, world.machine)
            require(history(world.machine) == before, "the helper has appended")
            entries = check_readers(world.machine)
            landed = [entry.body for entry in entries if isinstance(entry.body, Prepare)]
            rows = {
                row: count
                for row, count in expected.rows.items()
                if any(holds(read, row) for body in landed for read in body.shards)
            }
            check_table(world.machine, entries, Counter(rows))
            finish(world, expected)

        yield f"dead before call {call.number}: {call.kind} {call.path}", run


def racing_writers() -> Iterator[Case]:
    """Freeze the helper before each of its calls, while a new writer lands and cleans."""
    expected = reference(memory_world())
    world = dead_world()
    whole = FaultyStorage(world.machine)
    help_it(world, whole)
    for call in whole.calls:

        def run(number: int = call.number) -> None:
            world = dead_world()

            def others() -> None:
                check_end(world.start().run())
                clean(world, world.machine)

            frozen = FrozenStorage(world.machine, number, others)
            help_it(world, frozen)
            require(frozen.has_frozen, "it was never frozen")
            finish(world, expected)

        yield f"the helper waits at call {call.number}: {call.kind} {call.path}", run


def racing_helpers() -> Iterator[Case]:
    """Freeze a new writer before each of its calls, while a helper does everything."""
    expected = reference(memory_world())
    whole = dead_world().start()
    check_end(whole.run())
    for call in whole.faulty.calls:

        def run(number: int = call.number) -> None:
            world = dead_world()
            frozen = FrozenStorage(world.machine, number, lambda: help_it(world, world.machine))
            check_end(world.start_on(frozen).run())
            require(frozen.has_frozen, "it was never frozen")
            finish(world, expected)

        yield f"the writer waits at call {call.number}: {call.kind} {call.path}", run


def test_a_job_that_died_before_any_call_is_helped() -> None:
    require_none_fails(helped_jobs())


def test_a_helper_races_a_new_writer_at_every_call() -> None:
    require_none_fails(racing_writers())


def test_a_writer_races_a_helper_at_every_call() -> None:
    require_none_fails(racing_helpers())


def test_what_the_helper_shows_is_what_it_does() -> None:
    world = dead_world()
    shown: list[tuple[str, ...]] = []
    for step in plan_help(world.machine, NAME):
        match step:
            case SyncLog():
                shown.append(("sync", step.directory))
            case PublishBatch():
                shown += [("move", place.pending, place.final) for place in step.places]
                shown.append(("sync", *step.directories))
    recorded = Recorded(world.machine)
    help_it(world, recorded)
    (first, *moves, last) = shown
    assert first == ("sync", names.log_directory(NAME))
    assert len(moves) > 1
    assert recorded.changes[0] == first
    assert sorted(recorded.changes[1:-1]) == sorted(moves)  # side by side
    assert recorded.changes[-1] == last
    assert {call.kind for call in recorded.calls} <= {"list", "read", "stat", "publish", "sync"}


class Recorded(FaultyStorage):
    """Remembers moves and syncs with all that they name."""

    def __init__(self, inner: Storage) -> None:
        super().__init__(inner)
        self.changes: list[tuple[str, ...]] = []

    def publish(self, staged: Staged, final: str) -> None:
        self.changes.append(("move", staged.path, final))
        super().publish(staged, final)

    def sync(self, directories: Sequence[str]) -> None:
        self.changes.append(("sync", *directories))
        super().sync(directories)


def test_a_helper_finishes_the_moves_and_closes_nothing() -> None:
    world = dead_world()
    help_it(world, world.machine)
    fold = read_log(world.machine, NAME)
    assert fold.unclosed is not None
    assert plan_help(world.machine, NAME)
