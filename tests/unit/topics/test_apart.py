"""A batch whose worker processes die: taken apart, until what kills them is alone."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.specs import landing
from tests.unit.topics import crashing

from ashore.errors import BadRecord, WorkerCrashed
from ashore.log.files import Role
from ashore.log.names import SliceName
from ashore.log.plan_batch import BatchPlan
from ashore.log.positions import BatchTime, OffsetRange, ShardKey, ShardRange
from ashore.storage.open import LakeAddress
from ashore.topics.loop.bisection import halve, run_apart
from ashore.topics.run.processes.pool import WorkerDied, WorkerPool
from ashore.topics.write.batch import BatchOrder, merge_results

SIZE = 8


def ranges_of(sizes):
    return tuple(
        ShardRange(ShardKey("kafka", "clicks", 1, str(shard)), OffsetRange(5, 5 + size))
        for shard, size in enumerate(sizes)
    )


class CrashingRunner:
    """A BatchRunner over real processes, which die at some records."""

    def __init__(self, records, *, dies_anyway=False):
        self._pool = WorkerPool(crashing.work, 1)
        self._records = records
        self._dies_anyway = dies_anyway
        self.sizes = []

    def run(self, order, plan):
        assert order.ranges == plan.ranges == (*plan.large, *plan.small)
        self.sizes.append(plan.size)
        split = crashing.Split(order, plan.ranges, self._records, self._dies_anyway)
        try:
            return self._pool.map([split])
        except WorkerDied as error:
            raise WorkerCrashed(str(error)) from error

    def close(self):
        self._pool.close()


@pytest.fixture
def run(tmp_path: Path):
    runners = []

    def run(poison, *, on_invalid="dead_letter", dies_anyway=False):
        ranges = ranges_of([SIZE, SIZE])
        records = {
            (each.key.shard, offset): b'{"ts":1}'
            for each in ranges
            for offset in range(5, 5 + SIZE)
            if offset % 7  # a hole in every seven
        }
        records.update(dict.fromkeys(poison, b"die"))
        spec = landing(on_invalid=on_invalid)
        order = BatchOrder(
            LakeAddress(f"file://{tmp_path}"),
            SliceName("job", "main"),
            1,
            0,
            BatchTime(1_795_219_200_000),
            ranges,
            (("clicks", spec),),
        )
        plan = BatchPlan(0, order.time, ranges, ranges[:1], 1000, ranges[1:], 1, is_behind=False)
        runner = CrashingRunner(records, dies_anyway=dies_anyway)
        runners.append(runner)
        reported = []
        results = run_apart(runner, order, plan, reported.append)
        return merge_results(order, results), runner, reported, records

    yield run
    for each in runners:
        each.close()


@pytest.mark.parametrize(
    "poison",
    [
        [("0", 5)],
        *(
            pytest.param(each, marks=pytest.mark.slow)
            for each in ([("1", 12)], [("0", 10), ("1", 6)])
        ),
    ],
)
def test_the_record_that_kills_goes_to_the_dead_letters_and_all_others_land(run, poison):
    written, runner, reported, records = run(poison)
    assert sum(read.fetched for read in written.reads) == len(records)
    assert sum(read.dead for read in written.reads) == len(poison)
    assert written.rows == len(records) - len(poison)
    dead = [each for each in written.files if written.targets[each.target].role is Role.DEAD]
    spans = [(str(span.shard), span.start) for file in dead for span in file.spans]
    assert sorted(spans) == sorted(poison)
    assert len(reported) == len(poison)
    assert "crashes the decoder" in reported[0]
    assert len(runner.sizes) <= len(poison) * (2 + 2 * (2 * SIZE).bit_length())


def test_what_dies_without_decoding_too_is_no_record_and_is_soon_given_up(run):
    with pytest.raises(WorkerCrashed):
        run([], dies_anyway=True)


def test_a_table_that_fails_at_bad_records_fails_at_this_one(run):
    with pytest.raises(BadRecord, match="crashes the decoder"):
        run([("0", 9)], on_invalid="fail")


def test_a_batch_without_such_records_is_run_once(run):
    _, runner, reported, _ = run([])
    assert runner.sizes == [2 * SIZE]
    assert reported == []


@given(st.lists(st.integers(1, 9), min_size=1, max_size=6).filter(lambda sizes: sum(sizes) > 1))
def test_halves_hold_every_offset_once(sizes):
    ranges = ranges_of(sizes)
    left, right = halve(ranges)
    found = [
        (each.key, offset)
        for each in (*left, *right)
        for offset in range(each.offsets.start, each.offsets.end)
    ]
    assert sorted(found) == sorted(
        (each.key, 5 + number)
        for each, size in zip(ranges, sizes, strict=True)
        for number in range(size)
    )
    size_of = [sum(each.offsets.size for each in part) for part in (left, right)]
    assert 0 <= size_of[1] - size_of[0] <= 1
