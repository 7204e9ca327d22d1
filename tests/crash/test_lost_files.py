"""Prepared files that are gone: nothing is guessed, and a person decides once."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import pytest
from tests.crash.harness import (
    CLICKS,
    NAME,
    Process,
    Reference,
    World,
    check_readers,
    check_table,
    finish,
    history,
    memory_world,
    reference,
    require,
    require_none_fails,
    visible_files,
)
from tests.crash.storage_calls import Case

from ashore.errors import AshoreError, FileConflict, FilesLost, OffsetsGone, Stopped, StreamReplaced
from ashore.log.files import FilePlace
from ashore.log.plan_batch import BatchPlan
from ashore.log.plan_commit import places_of
from ashore.log.positions import StreamShard
from ashore.log.store.reader import read_log
from ashore.topics.loop.recovery import LostFiles, accept_loss, open_and_find_lost, reland
from ashore.topics.write.batch import BatchOrder, TaskResult
from ashore_lab.testing import (
    FailAfterEffect,
    FailBefore,
    Fault,
    LateEffect,
    ProcessStopped,
    RecordedRow,
    RecordedRunner,
    RecordedSource,
    StopProcess,
    read_rows,
)

FILES = 4  # of the second batch
SUBSETS = [[0], [1], [2], [0, 1], [0, 2], [1, 2], [0, 1, 2]]
KILLED = StopProcess(4, kind="publish", when="before")


def killed_before_moves() -> tuple[World, list[FilePlace]]:
    """A job whose second batch is prepared and not moved; its files."""
    world = memory_world()
    world.start([KILLED]).run()
    unclosed = read_log(world.machine, NAME).unclosed
    assert unclosed is not None
    places = places_of(NAME, unclosed)
    assert len(places) == FILES
    return world, places


def lose(world: World, places: Sequence[FilePlace]) -> Counter[RecordedRow]:
    """Delete pending files behind the log's back; return the rows that were in them."""
    rows = Counter(row for each in places for row in read_rows(world.machine.read(each.pending)))
    for place in places:
        world.machine.delete(place.pending)
    return rows


def find_lost(process: Process) -> LostFiles | None:
    parts = process.loop.parts
    process.loop.plan.streams()
    return open_and_find_lost(parts.committer())


@pytest.fixture
def expected() -> Reference:
    return reference(memory_world())


@pytest.mark.parametrize("gone", SUBSETS, ids=str)
def test_a_lost_file_stops_the_job_and_everything_is_kept(gone: list[int]) -> None:
    world, places = killed_before_moves()
    lose(world, [places[index] for index in gone])
    log_before = len(history(world.machine))
    for attempt in range(2):  # starting again decides nothing
        ended = world.start().run()
        assert isinstance(ended, FilesLost)
        assert set(ended.unique) == {places[index].file.unique for index in gone}
        entries = history(world.machine)
        assert [entry.kind for entry in entries[log_before:]] == ["open"] * (attempt + 1)
        kept = {place.final for index, place in enumerate(places) if index not in gone}
        assert kept <= visible_files(world.machine)
        check_readers(world.machine)


@pytest.mark.parametrize("gone", SUBSETS, ids=str)
def test_lost_files_are_landed_again(gone: list[int], expected: Reference) -> None:
    world, places = killed_before_moves()
    rows = lose(world, [places[index] for index in gone])
    process = world.start()
    lost = find_lost(process)
    assert lost is not None
    assert sum(lost.rows().values()) == rows.total()
    assert reland(process.loop.plan, process.loop.parts, lost) == rows.total()
    finish(world, expected)


@pytest.mark.parametrize("gone", SUBSETS, ids=str)
def test_an_accepted_loss_is_counted(gone: list[int], expected: Reference) -> None:
    world, places = killed_before_moves()
    rows = lose(world, [places[index] for index in gone])
    process = world.start()
    lost = find_lost(process)
    assert lost is not None
    assert accept_loss(process.loop.parts.log, lost, "an operator", "the disk is gone") == (
        rows.total()
    )
    assert world.start().run() is None
    check_table(world.machine, check_readers(world.machine), expected.rows - rows)
    fold = read_log(world.machine, NAME)
    by_shard = Counter((row.stream, row.shard) for row in rows.elements())
    assert {
        (key.stream, key.shard): state.lost for key, state in fold.shards.items() if state.lost
    } == dict(by_shard)
    landed = sum(state.rows for state in fold.partitions.values())
    assert landed == (expected.rows - rows).total()


@pytest.mark.parametrize("index", range(FILES))
def test_a_foreign_file_at_a_target_is_a_conflict(index: int, expected: Reference) -> None:
    world, places = killed_before_moves()
    world.machine.create(places[index].final, b"somebody else's")
    for _ in range(2):
        ended = world.start().run()
        assert isinstance(ended, FileConflict)
        assert ended.fields["paths"] == [places[index].final]
        assert world.machine.read(places[index].final) == b"somebody else's"
        assert world.machine.stat(places[index].pending) is not None
    world.machine.delete(places[index].final)
    finish(world, expected)


def test_a_file_cut_short_is_lost_when_it_is_looked_at(expected: Reference) -> None:
    """A move looks only after an error; `verify` reads what was moved without one."""
    world, places = killed_before_moves()
    lose(world, places[:1])
    world.machine.create(places[0].pending, b"torn")
    process = world.start([FailBefore(1, kind="publish")])
    lost = find_lost(process)
    assert lost is not None
    assert [file.unique for file in lost.files] == [places[0].file.unique]
    reland(process.loop.plan, process.loop.parts, lost)
    finish(world, expected)


def test_what_the_source_no_longer_has_is_not_landed_again() -> None:
    def expire(source: RecordedSource) -> None:
        source.expire(StreamShard(CLICKS, "0"), 6)

    def recreate(source: RecordedSource) -> None:
        source.delete_and_recreate(CLICKS, 2)

    for spoil, error in ((expire, OffsetsGone), (recreate, StreamReplaced)):
        world, places = killed_before_moves()
        lose(world, places)
        spoil(world.source)
        process = world.start()
        lost = find_lost(process)
        assert lost is not None
        before = len(history(world.machine))
        with pytest.raises(error):
            reland(process.loop.plan, process.loop.parts, lost)
        assert len(history(world.machine)) == before


def test_a_topic_that_is_replaced_while_it_is_read_again_is_not_landed() -> None:
    world, places = killed_before_moves()
    lose(world, places)
    process = world.start()
    lost = find_lost(process)
    assert lost is not None

    class Overtaken(RecordedRunner):
        def run(self, order: BatchOrder, plan: BatchPlan) -> list[TaskResult]:
            results = super().run(order, plan)
            world.source.delete_and_recreate(CLICKS, 2)
            return results

    runner = Overtaken(world.source, process.storage, world.entropy)
    before = len(history(world.machine))
    with pytest.raises(StreamReplaced):
        reland(process.loop.plan, replace(process.loop.parts, runner=runner), lost)
    assert len(history(world.machine)) == before


# ---- landing again, struck at every call

STRIKES: dict[str, Callable[[int], list[Fault]]] = {
    "stops before": lambda n: [StopProcess(n)],
    "stops after": lambda n: [StopProcess(n, when="after")],
    "fails before": lambda n: [FailBefore(n)],
    "fails after": lambda n: [FailAfterEffect(n)],
    "late once": lambda n: [LateEffect(n, after=None)],
    "late twice": lambda n: [LateEffect(n, after=3, times=2)],
    "late, and stops": lambda n: [LateEffect(n, after=None), StopProcess(n + 1)],
}


def land_again(process: Process) -> None:
    lost = find_lost(process)
    if lost is not None:
        reland(process.loop.plan, process.loop.parts, lost)


def struck_relands(strike: str) -> Iterator[Case]:
    """Strike at every call of a `recover --reland`, then repeat it. No call is left out."""
    expected = reference(memory_world())
    world, places = killed_before_moves()
    lose(world, places[:2])
    whole = world.start()
    land_again(whole)
    for call in whole.faulty.calls:

        def run(number: int = call.number) -> None:
            world, places = killed_before_moves()
            lose(world, places[:2])
            struck = world.start(STRIKES[strike](number))
            try:
                land_again(struck)
            except ProcessStopped:
                pass
            except AshoreError as error:
                require(not isinstance(error, Stopped), f"it ended with {error!r}")
            require(len(struck.faulty.fired) > 0, "the fault has not struck")
            check_readers(world.machine)
            land_again(world.start())
            finish(world, expected)

        yield f"{strike} at call {call.number}: {call.kind} {call.path}", run


@pytest.mark.parametrize("strike", STRIKES)
def test_landing_again_struck_at_every_call(strike: str) -> None:
    require_none_fails(struck_relands(strike))
