"""Which partitions are complete: ends, watermarks, versions, what is in the way."""

from dataclasses import replace

import pytest
from tests.strategies import TABLE, Chain, Part, key_of

from ashore.log.entries import SealedPartition
from ashore.log.fold import EMPTY, Fold, PartitionState, Unclosed
from ashore.log.plan_seal import SealRule, partition_end_ms, plan_seal
from ashore.log.positions import BatchTime

HOUR_MS = 3_600_000
END_MS = 1_795_251_600_000  # 2026-11-21 09:00 UTC
EIGHT = "date=2026-11-21/hour=08"
RULE = SealRule(TABLE, "UTC", 600_000)
DUE_MS = END_MS + RULE.delay_ms


def fold_with(*states: PartitionState, unclosed: Unclosed | None = None) -> Fold:
    partitions = {(each.table, each.partition): each for each in states}
    return replace(EMPTY, partitions=partitions, unclosed=unclosed)


def state(rows: int = 10, version: int = 0, sealed_rows: int = 0, sealed_ms: int = 0):
    return PartitionState(TABLE, EIGHT, rows, 1, 1, False, version, sealed_rows, sealed_ms)


def sealed(fold: Fold, watermark_ms: int | None, now_ms: int = DUE_MS, others=None):
    watermarks = () if watermark_ms is None else ((TABLE, watermark_ms),)
    return plan_seal(fold, others or {}, [RULE], BatchTime(now_ms, watermarks))


@pytest.mark.parametrize(
    ("partition", "timezone", "end_ms"),
    [
        (EIGHT, "UTC", END_MS),
        ("date=2026-11-21/hour=16", "Asia/Shanghai", END_MS),
        ("date=2026-11-21", "UTC", 1_795_305_600_000),
        ("date=2026-11-21/hour=08/minute=59", "UTC", END_MS),
        ("country=DE/" + EIGHT, "UTC", END_MS),
        ("country=DE", "UTC", None),
        ("date=__HIVE_DEFAULT_PARTITION__", "UTC", None),
        ("", "UTC", None),
    ],
)
def test_a_partition_of_time_has_an_end(partition, timezone, end_ms):
    assert partition_end_ms(partition, timezone) == end_ms


def test_an_hour_that_the_clock_repeats_ends_with_its_second_pass():
    ends_ms = partition_end_ms("date=2026-10-25/hour=02", "Europe/Berlin")
    assert ends_ms == 1_792_893_600_000  # 03:00 winter time, two hours after it began


def test_a_partition_is_sealed_once_the_watermark_is_past_its_end_and_the_delay():
    assert sealed(fold_with(state()), DUE_MS - 1).partitions == ()
    assert sealed(fold_with(state()), DUE_MS).partitions == (
        SealedPartition(TABLE, EIGHT, 1, 10, 10, DUE_MS),
    )


def test_what_is_in_the_way_is_named():
    assert "60 s short" in sealed(fold_with(state()), DUE_MS - 60_000).blocked[0].why
    assert "no watermark" in sealed(fold_with(state()), None).blocked[0].why
    assert sealed(fold_with(state()), None, now_ms=DUE_MS - 1).blocked == ()  # nothing is due


def test_late_rows_seal_again_as_the_next_version_at_most_once_a_delay():
    later = state(rows=13, version=1, sealed_rows=10, sealed_ms=DUE_MS)
    assert sealed(fold_with(later), DUE_MS, DUE_MS + RULE.delay_ms - 1).partitions == ()
    now_ms = DUE_MS + RULE.delay_ms
    assert sealed(fold_with(later), DUE_MS, now_ms).partitions == (
        SealedPartition(TABLE, EIGHT, 2, 13, 3, now_ms),
    )
    same = state(rows=10, version=1, sealed_rows=10, sealed_ms=DUE_MS)
    assert sealed(fold_with(same), DUE_MS, now_ms).partitions == ()


def test_rows_of_all_slices_count_and_an_unclosed_batch_of_another_blocks():
    other = Chain.started(key_of(0))
    other.prepare(Part(key_of(0), 3, {8: 3}))
    unclosed = other.fold.unclosed
    assert unclosed is not None
    partition = unclosed.body.targets[0].partition
    own = fold_with(replace(state(), partition=partition))
    end_ms = partition_end_ms(partition, "UTC")
    assert end_ms is not None
    due_ms = end_ms + RULE.delay_ms
    blocked = sealed(own, due_ms, due_ms, {"second": other.fold})
    assert blocked.partitions == ()
    assert "slice second is not" in blocked.blocked[0].why
    other.commit()
    found = sealed(own, due_ms, due_ms, {"second": other.fold}).partitions
    assert [each.rows for each in found] == [13]
