"""Together tasks read the whole order, once: a result that does not come is no empty range."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest
from tests.crash.harness import NAME, World, check_end, history, memory_world, reference
from tests.specs import LANDING

from ashore.errors import BatchFailed, CountsDisagree
from ashore.log.entries import Prepare, ShardRead
from ashore.log.files import DataFile, FileSpan, Role, Target
from ashore.log.plan_batch import BatchPlan
from ashore.log.positions import BatchTime, OffsetRange, ShardKey, ShardRange
from ashore.storage.open import LakeAddress
from ashore.topics.loop.slice_loop import SliceLoop
from ashore.topics.loop.worker import Tick
from ashore.topics.write.batch import BatchOrder, TaskResult, check_tasks, merge_results, merge_rows
from ashore_lab.testing import RecordedRunner

KEY, OTHER = ShardKey("kafka", "clicks", 1, "0"), ShardKey("kafka", "clicks", 1, "1")


def an_order() -> BatchOrder:
    asked = tuple(ShardRange(key, OffsetRange(10, 20)) for key in (KEY, OTHER))
    address, time = LakeAddress("memory:"), BatchTime(1)
    return BatchOrder(address, NAME, 1, 0, time, ranges=asked, tables=(("clicks", LANDING),))


def results(*ranges: tuple[ShardKey, int, int]) -> list[TaskResult]:
    """One result a range: all of them hold no record."""
    return [
        TaskResult(number, (), (), (), ()).having_read([ShardRange(key, OffsetRange(*offsets))])
        for number, (key, *offsets) in enumerate(ranges)
    ]


WHOLE = [(OTHER, 10, 20), (KEY, 15, 20), (KEY, 10, 15)]


def test_ranges_that_tile_the_order_may_hold_nothing() -> None:
    written = merge_results(an_order(), results(*WHOLE))
    assert [(each.key, each.offsets.size, each.fetched) for each in written.reads] == [
        (KEY, 10, 0),
        (OTHER, 10, 0),
    ]


@pytest.mark.parametrize("missing", range(len(WHOLE)))
def test_a_result_that_does_not_come_fails_the_batch(missing: int) -> None:
    come = [each for number, each in enumerate(WHOLE) if number != missing]
    with pytest.raises(BatchFailed, match=r"no task .* clicks/. \[10, 20\) "):
        merge_results(an_order(), results(*come))


@pytest.mark.parametrize(
    ("more", "reported"),
    [
        ((KEY, 10, 15), "twice in part"),
        ((KEY, 20, 21), "beyond its end"),
        ((OTHER, 9, 10), "beyond its end"),
        ((replace(KEY, stream="orders"), 10, 20), "not assigned"),
    ],
)
def test_nothing_else_may_be_read(more: tuple[ShardKey, int, int], reported: str) -> None:
    with pytest.raises(CountsDisagree, match=reported):
        merge_results(an_order(), results(*WHOLE, more))


# ---- of a query


DEAD = Target("ods.rows__dead", Role.DEAD, "", (), "value BINARY", "parquet")
ROWS = Target("ods.rows", Role.MAIN, "", (), "id BIGINT", "parquet")


def a_file(unique: str, rows: int, *spans: FileSpan) -> DataFile:
    return DataFile(0, 0, unique, rows, 10, "aa", spans, None, None)


def letters(key: ShardKey, *offsets: int, dead: int | None = None) -> TaskResult:
    """What a task tells of records that a query has left aside."""
    whole, count = OffsetRange(offsets[0], offsets[-1] + 1), len(offsets)
    dead = count if dead is None else dead
    read = ShardRead(key, whole, "ods.rows", dead, 0, dead, 0, 0, 50, None)
    file = a_file("dead", count, FileSpan(0, whole.start, whole.end, count))
    return TaskResult(1, (read,), (DEAD,), (file,), ())


RANGES = [ShardRange(key, OffsetRange(10, 20)) for key in (KEY, OTHER)]


def test_rows_and_dead_letters_of_a_query_are_put_together() -> None:
    rows = TaskResult(0, (), (ROWS,), (a_file("rows", 18),), ())
    written = merge_rows("ods.rows", RANGES, [rows, letters(OTHER, 12, 15)])
    assert [(read.key, read.fetched, read.dead) for read in written.reads] == [
        (KEY, 0, 0),
        (OTHER, 2, 2),
    ]
    assert [read.offsets for read in written.reads] == [each.offsets for each in RANGES]
    assert [(file.target, file.spans) for file in written.files] == [
        (0, ()),
        (1, (FileSpan(1, 12, 16, 2),)),
    ]


@pytest.mark.parametrize(
    ("result", "told"),
    [
        (letters(OTHER, 9), "outside of its batch"),
        (letters(OTHER, 20), "outside of its batch"),
        (letters(replace(KEY, stream="orders"), 12), "outside of its batch"),
        (letters(OTHER, 12, 15, dead=3), "3 fetched"),
    ],
)
def test_dead_letters_that_do_not_fit_are_refused(result: TaskResult, told: str) -> None:
    with pytest.raises(CountsDisagree, match=told):
        merge_rows("ods.rows", RANGES, [result])


def test_ranges_travel_with_a_result() -> None:
    (result,) = results((KEY, 10, 20))
    assert TaskResult.from_bytes(result.to_bytes()) == result


class Forgetful(RecordedRunner):
    """A runner whose n-th result, of the first batches, does not arrive."""

    def __init__(self, inner: RecordedRunner, lost: Iterable[int]) -> None:
        self.__dict__.update(inner.__dict__)
        self._lost = list(lost)

    def run(self, order: BatchOrder, plan: BatchPlan) -> list[TaskResult]:
        found: Sequence[TaskResult] = super().run(order, plan)
        lost = self._lost.pop(0) if self._lost else len(found)
        return [each for number, each in enumerate(found) if number != lost]


def forgetful_job(world: World, lost: Iterable[int]) -> SliceLoop:
    loop = world.start().loop
    runner = loop.parts.runner
    assert isinstance(runner, RecordedRunner)
    loop.parts = replace(loop.parts, runner=Forgetful(runner, lost))
    return loop


def test_nothing_is_prepared_without_a_result_and_the_next_try_lands_it() -> None:
    expected, world = reference(memory_world()), memory_world()
    loop = forgetful_job(world, lost=[0])
    with pytest.raises(BatchFailed):
        loop.tick()
    assert not [each for each in history(world.machine) if isinstance(each.body, Prepare)]
    while loop.tick() is not Tick.IDLE:
        pass
    loop.close("drained")
    expected.check(world.machine)
    check_end(world.start().run())


def rows_of(*tasks: int) -> list[TaskResult]:
    """Results of a query's tasks, which have no ranges."""
    return [TaskResult(task, (), (), (), ()) for task in tasks]


def test_each_task_of_a_query_tells_what_it_wrote() -> None:
    check_tasks(rows_of(2, 0, 1), 3)
    check_tasks([], 0)


@pytest.mark.parametrize("come", [[], [0, 1], [1, 2], [0, 2]])
def test_a_task_of_a_query_that_does_not_tell_fails_the_batch(come: list[int]) -> None:
    with pytest.raises(BatchFailed, match="have not reported"):
        check_tasks(rows_of(*come), 3)


@pytest.mark.parametrize("come", [[0, 1, 1], [0, 1, 2]])
def test_a_task_of_a_query_tells_once(come: list[int]) -> None:
    with pytest.raises(CountsDisagree):
        check_tasks(rows_of(*come), 2)
