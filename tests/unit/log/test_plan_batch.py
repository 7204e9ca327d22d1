import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies import START_MS, TABLE, Chain, Part, key_of

from ashore.errors import InvariantBroken
from ashore.log.plan_batch import (
    TASK_RECORDS_MIN,
    BatchPlan,
    Feed,
    Gaps,
    Limits,
    Nothing,
    ShardOffsets,
    WentBack,
    check_batch,
    plan_batch,
    plan_watermarks,
)
from ashore.log.positions import BatchTime, OffsetRange, ShardKey, ShardRange

IDLE_AFTER_MS = 1_800_000
TABLES = {"clicks": Feed(TABLE, IDLE_AFTER_MS), "views": Feed("ods.views", IDLE_AFTER_MS)}
LIMITS = Limits(records=10**9, size_bytes=10**13, parallelism=4)
NOW_MS = START_MS + 5_000


def plan_of(chain: Chain, ends: dict[ShardKey, int], limits: Limits = LIMITS, now_ms: int = NOW_MS):
    offsets = {key: ShardOffsets(0, end) for key, end in ends.items()}
    return plan_batch(chain.fold, offsets, TABLES, limits, now_ms)


def task_sizes(plan: BatchPlan) -> list[float]:
    """The sizes of tasks, where whoever reads divides evenly."""
    sizes: list[float] = []
    for each in plan.large:
        pieces = math.ceil(each.offsets.size / plan.piece_records)
        sizes += [each.offsets.size / pieces] * pieces
    small = sum(each.offsets.size for each in plan.small)
    return sizes + [small / max(plan.shared_tasks, 1)] * plan.shared_tasks


def test_a_batch_goes_from_the_logs_next_offsets_to_the_sources_stable_ends():
    chain = Chain.started(key_of(0), key_of(1))
    chain.prepare(Part(key_of(0), 10, {8: 10}))
    plan = plan_of(chain, {key_of(0): 25, key_of(1): 7})
    assert plan.ranges == (
        ShardRange(key_of(0), OffsetRange(10, 25)),
        ShardRange(key_of(1), OffsetRange(0, 7)),
    )
    assert (plan.batch, plan.time.now_ms, plan.is_behind) == (1, NOW_MS, False)
    check_batch(plan, chain.fold)


def test_shards_without_news_are_left_out_and_without_any_there_is_no_batch():
    chain = Chain.started(key_of(0), key_of(1))
    assert [each.key for each in plan_of(chain, {key_of(0): 0, key_of(1): 7}).ranges] == [key_of(1)]
    assert plan_of(chain, {key_of(0): 0, key_of(1): 0}) == Nothing()
    assert plan_of(chain, {}) == Nothing()


def test_nine_tenths_of_the_backlog_in_one_partition_become_many_tasks():
    keys = [key_of(shard) for shard in range(10)]
    chain = Chain.started(*keys)
    plan = plan_of(chain, {key_of(0): 9_000_000, **dict.fromkeys(keys[1:], 111_111)})
    assert [each.key for each in plan.large] == [key_of(0)]
    assert len(plan.small) == 9
    assert plan.tasks >= 8
    assert max(task_sizes(plan)) < 2 * min(task_sizes(plan))


def test_tiny_ranges_share_a_task():
    keys = [key_of(shard) for shard in range(64)]
    plan = plan_of(Chain.started(*keys), dict.fromkeys(keys, 10))
    assert (plan.large, len(plan.small), plan.shared_tasks, plan.tasks) == ((), 64, 1, 1)


def test_what_fits_one_task_is_one_task_however_uneven():
    plan = plan_of(Chain.started(key_of(0), key_of(1)), {key_of(0): 10_000, key_of(1): 10})
    assert (plan.tasks, plan.large) == (1, ())


@pytest.mark.parametrize(
    ("limits", "size"),
    [
        (replace(LIMITS, records=1_000), 1_000),
        (replace(LIMITS, size_bytes=2_000_000), 2_000),  # 1,000 bytes a record until one is known
        (replace(LIMITS, records=1), 1),
        (replace(LIMITS, size_bytes=1), 1),
    ],
)
def test_a_batch_is_cut_to_its_limits(limits: Limits, size: int):
    plan = plan_of(
        Chain.started(key_of(0), key_of(1)), {key_of(0): 9_000, key_of(1): 1_000}, limits
    )
    assert plan.size == size
    assert plan.is_behind
    if size > 1:
        assert [each.offsets.size for each in plan.ranges] == [size // 2, size // 2]


def test_the_size_of_a_record_is_learnt():
    chain = Chain.started()
    chain.prepare(Part(key_of(), 10, {8: 10}))  # 100 bytes each
    limits = replace(LIMITS, size_bytes=10_000)
    assert plan_of(chain, {key_of(): 10_000}, limits).size == 100


def test_no_shard_starves_behind_a_large_one():
    chain = Chain.started(key_of(0), key_of(1))
    ends = {key_of(0): 1_000_000, key_of(1): 500}
    plan = plan_of(chain, ends, replace(LIMITS, records=10_000))
    assert {each.key: each.offsets.size for each in plan.ranges}[key_of(1)] > 0


def test_a_gap_is_what_the_source_no_longer_has():
    chain = Chain.started(key_of(0), key_of(1))
    offsets = {key_of(0): ShardOffsets(7, 20), key_of(1): ShardOffsets(0, 20)}
    gaps = plan_batch(chain.fold, offsets, TABLES, LIMITS, NOW_MS)
    assert gaps == Gaps((ShardRange(key_of(0), OffsetRange(0, 7)),))
    offsets[key_of(1)] = ShardOffsets(20, 20)  # all of it expired
    assert len(plan_batch(chain.fold, offsets, TABLES, LIMITS, NOW_MS).ranges) == 2


def test_an_earliest_offset_at_or_below_ours_is_no_gap():
    chain = Chain.started()
    chain.prepare(Part(key_of(), 10, {8: 10}))
    for earliest in (0, 9, 10):
        offsets = {key_of(): ShardOffsets(earliest, 10)}
        assert plan_batch(chain.fold, offsets, TABLES, LIMITS, NOW_MS) == Nothing()


def test_an_end_below_what_was_landed_went_back_even_beside_a_gap():
    chain = Chain.started(key_of(0), key_of(1))
    chain.prepare(Part(key_of(1), 10, {8: 10}))
    offsets = {key_of(0): ShardOffsets(5, 20), key_of(1): ShardOffsets(0, 9)}
    outcome = plan_batch(chain.fold, offsets, TABLES, LIMITS, NOW_MS)
    assert outcome == WentBack(key_of(1), 10, 9)


def test_two_topics_with_equal_partitions_and_offsets_do_not_collide():
    keys = [key_of(0), key_of(0, "views")]
    plan = plan_of(Chain.started(*keys), {keys[0]: 10, keys[1]: 20})
    assert {each.key: each.offsets.end for each in plan.ranges} == {keys[0]: 10, keys[1]: 20}


def test_the_batchs_time_never_goes_back():
    chain = Chain.started()
    chain.prepare()
    assert plan_of(chain, {key_of(): 10}, now_ms=5).time.now_ms == chain.fold.now_ms == START_MS


# ---- watermarks


def event(chain: Chain, key: ShardKey, event_max_ms: int | None, now_ms: int = START_MS) -> None:
    body = chain.batch(Part(key, 1, {8: 1}))
    reads = (replace(body.shards[0], event_max_ms=event_max_ms),)
    chain.add(replace(body, shards=reads, time=BatchTime(max(now_ms, chain.fold.now_ms))))


def marks(chain: Chain, now_ms: int = NOW_MS) -> dict[str, int]:
    return dict(plan_watermarks(chain.fold, TABLES, now_ms))


def test_a_watermark_is_the_lowest_of_its_shards_highest_times():
    chain = Chain.started(key_of(0), key_of(1), key_of(0, "views"))
    event(chain, key_of(0), 500)
    assert marks(chain) == {}  # shard 1 may still bring what is older
    event(chain, key_of(1), 300)
    event(chain, key_of(1), 200)
    event(chain, key_of(0, "views"), 100)
    assert marks(chain) == {TABLE: 300, "ods.views": 100}


def test_an_idle_shard_does_not_hold_a_watermark_up_and_a_new_one_does_for_a_while():
    chain = Chain.started(key_of(0), key_of(1))
    idle_ms = START_MS + IDLE_AFTER_MS
    event(chain, key_of(0), 500, idle_ms)
    assert marks(chain, chain.fold.shards[key_of(1)].active_ms) == {}
    assert marks(chain, idle_ms + 2) == {TABLE: 500}


def test_a_watermark_never_goes_back():
    chain = Chain.started(key_of(0))
    event(chain, key_of(0), 500)
    time = BatchTime(START_MS, ((TABLE, 500),))
    chain.add(replace(chain.batch(Part(key_of(0), 0, {})), time=time))
    chain.join(key_of(1))
    event(chain, key_of(1), 100)
    assert marks(chain) == {TABLE: 500}


def test_where_all_shards_are_idle_time_goes_on_without_them():
    chain = Chain.started(key_of(0))
    event(chain, key_of(0), 500)
    idle_ms = chain.fold.shards[key_of(0)].active_ms + IDLE_AFTER_MS
    assert marks(chain, idle_ms - 1) == {TABLE: 500}
    assert marks(chain, idle_ms) == {TABLE: idle_ms - IDLE_AFTER_MS}


def test_each_table_has_its_own_patience():
    chain = Chain.started(key_of(0), key_of(0, "views"))
    event(chain, key_of(0), 500)
    event(chain, key_of(0, "views"), 500)
    later_ms = chain.fold.now_ms + 60_000
    feeds = {**TABLES, "views": Feed("ods.views", 60_000)}
    assert dict(plan_watermarks(chain.fold, feeds, later_ms)) == {
        TABLE: 500,
        "ods.views": later_ms - 60_000,
    }


def test_a_backlog_after_a_standstill_is_not_late():
    chain = Chain.started(key_of(0), key_of(1))
    event(chain, key_of(0), 500)
    event(chain, key_of(1), 300)
    day_later_ms = chain.fold.now_ms + 86_400_000
    waiting = {key_of(1)}
    found = plan_watermarks(chain.fold, TABLES, day_later_ms, waiting)
    assert dict(found) == {TABLE: 300}  # shard 0 has nothing waiting: it is idle
    plan = plan_batch(
        chain.fold,
        {key: ShardOffsets(0, state.next + 1) for key, state in chain.fold.shards.items()},
        TABLES,
        LIMITS,
        day_later_ms,
    )
    assert dict(plan.time.watermarks) == {TABLE: 300}


def test_a_shard_without_any_event_time_holds_its_table():
    chain = Chain.started(key_of(0), key_of(1))
    event(chain, key_of(0), 500)
    event(chain, key_of(1), None)
    assert marks(chain) == {}


def test_shards_of_older_generations_do_not_count():
    chain = Chain.started(key_of(0))
    event(chain, key_of(0), 100)
    chain.join(key_of(0, generation=2))
    event(chain, key_of(0, generation=2), 900)
    assert marks(chain) == {TABLE: 900}


# ---- whatever the backlog


sizes = st.one_of(st.integers(0, 50), st.integers(0, 50_000), st.integers(0, 20_000_000))


@given(
    backlog=st.lists(st.tuples(st.integers(0, 100), sizes), min_size=1, max_size=40),
    records=st.integers(1, 30_000_000),
    parallelism=st.integers(1, 64),
)
def test_any_plan_is_contiguous_within_its_limits_and_even(backlog, records, parallelism):
    keys = [key_of(shard) for shard in range(len(backlog))]
    chain = Chain.started(*keys)
    done = [Part(key, start, {}) for key, (start, _) in zip(keys, backlog, strict=True)]
    chain.prepare(*done)
    ends = {key: start + size for key, (start, size) in zip(keys, backlog, strict=True)}
    limits = replace(LIMITS, records=records, parallelism=parallelism)
    plan = plan_of(chain, ends, limits)
    total = sum(size for _, size in backlog)
    if total == 0:
        assert plan == Nothing()
        return
    check_batch(plan, chain.fold)
    assert plan.size == min(total, records)
    assert plan.is_behind == (total > records)
    for each in plan.ranges:
        assert each.offsets.start == chain.fold.shards[each.key].next
        assert each.offsets.start < each.offsets.end <= ends[each.key]
    tasks = task_sizes(plan)
    assert len(tasks) == plan.tasks
    assert math.isclose(sum(tasks), plan.size)
    assert max(tasks) <= plan.piece_records
    own = tasks[: len(tasks) - plan.shared_tasks]
    assert all(size > plan.piece_records / 2 for size in own)  # even within a factor of two
    if plan.shared_tasks > 1:
        assert tasks[-1] > plan.piece_records / 2
    if plan.size > parallelism * TASK_RECORDS_MIN:
        assert len(tasks) >= parallelism


SKEWED = [
    # backlogs, at most so many offsets, what each gets
    ([10, 990_000], 1_000, [10, 990]),
    ([10, 990_000, 20, 5_000], 1_000, [10, 485, 20, 485]),
    ([100, 100, 100], 100, [34, 33, 33]),
    ([1, 1, 1_000], 3, [1, 1, 1]),
    ([7, 5, 9], 21, [7, 5, 9]),
    ([7, 5, 9], 20, [7, 5, 8]),
]


@pytest.mark.parametrize(("backlogs", "records", "expected"), SKEWED)
def test_a_small_backlog_does_not_wait_for_a_large_one(
    backlogs: list[int], records: int, expected: list[int]
) -> None:
    keys = [key_of(shard) for shard in range(len(backlogs))]
    lags = dict(zip(keys, backlogs, strict=True))
    plan = plan_of(Chain.started(*keys), lags, replace(LIMITS, records=records))
    cut = {each.key: each.offsets.size for each in plan.ranges}
    assert [cut[key] for key in keys] == expected
    assert plan.left == sum(backlogs) - sum(expected)


def test_where_not_all_get_one_those_that_waited_longest_come_first() -> None:
    keys = [key_of(shard) for shard in range(3)]
    chain, read = Chain.started(*keys), []
    for second in range(1, 7):
        (part,) = plan_of(chain, dict.fromkeys(keys, 100), replace(LIMITS, records=1)).ranges
        batch = chain.batch(Part(part.key, 1, {8: 1}))
        chain.add(replace(batch, time=BatchTime(START_MS + second * 1_000)))
        read.append(part.key.shard)
    assert sorted(read[:3]) == sorted(read[3:]) == ["0", "1", "2"]


@given(
    lags=st.lists(st.integers(1, 10**6), min_size=1, max_size=30),
    records=st.integers(1, 10**6),
)
def test_no_backlog_could_be_cut_less_without_cutting_a_smaller_part(
    lags: list[int], records: int
) -> None:
    """Max-min: of two, the one that is cut has no less than the other, but for a remainder."""
    keys = [key_of(shard) for shard in range(len(lags))]
    plan = plan_of(
        Chain.started(*keys),
        dict(zip(keys, lags, strict=True)),
        replace(LIMITS, records=records, size_bytes=10**12),
    )
    sizes = {each.key: each.offsets.size for each in plan.ranges}
    cut = [sizes.get(key, 0) for key in keys]
    assert sum(cut) == min(records, sum(lags))
    for own, lag in zip(cut, lags, strict=True):
        assert own == lag or own >= max(cut) - 1


def test_a_plan_for_another_fold_is_refused():
    chain = Chain.started()
    plan = plan_of(chain, {key_of(): 10})
    with pytest.raises(InvariantBroken):
        check_batch(replace(plan, small=()), chain.fold)
    chain.prepare(Part(key_of(), 1, {8: 1}))
    with pytest.raises(InvariantBroken):
        check_batch(plan, chain.fold)
    with pytest.raises(InvariantBroken):
        check_batch(replace(plan, batch=1), chain.fold)
