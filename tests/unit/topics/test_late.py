import pyarrow as pa
import pytest

from ashore.topics.route.placement import Lateness, place

NOW = 1_000_000
LATE, FUTURE, FINE = 100, 2_000_000, 999_000


def placed(policy, events, watermark_ms=500_000):
    lateness = Lateness(policy, 1000, 5000, NOW, watermark_ms)
    placement = place(pa.array(events, pa.int64()), lateness)
    side = placement.side.to_pylist() if placement.side is not None else None
    counts = (placement.late, placement.future, placement.untimed)
    return placement.bucket_ms.to_pylist(), side, counts


@pytest.mark.parametrize(
    ("policy", "buckets", "side"),
    [
        ("rehome", [FINE, NOW, NOW, NOW], None),
        ("keep", [FINE, LATE, NOW, NOW], None),
        ("side", [FINE, NOW, NOW, NOW], [False, True, True, False]),
    ],
)
def test_policies(policy, buckets, side):
    assert placed(policy, [FINE, LATE, FUTURE, None]) == (buckets, side, (1, 1, 1))


def test_the_edges_are_in_time():
    events = [499_000, NOW + 5000]
    assert placed("rehome", events) == (events, None, (0, 0, 0))
    assert placed("rehome", [498_999, NOW + 5001]) == ([NOW, NOW], None, (1, 1, 0))


def test_without_a_watermark_nothing_is_late():
    assert placed("side", [-5, None], watermark_ms=None) == ([-5, NOW], None, (0, 0, 1))


def test_only_what_is_missing_and_nothing_at_all():
    assert placed("keep", [None, None]) == ([NOW, NOW], None, (0, 0, 2))
    assert placed("side", []) == ([], None, (0, 0, 0))


def test_a_watermark_beyond_now_does_not_count_twice():
    assert placed("side", [NOW + 6000], watermark_ms=NOW + 9000) == ([NOW], [True], (1, 0, 0))


def test_unknown_policies_are_refused():
    with pytest.raises(ValueError, match="rehome, keep, side"):
        Lateness("drop", 0, 0, 0, None)


def test_keep_reaches_back_only_so_far_and_what_is_older_goes_aside():
    lateness = Lateness("keep", 1_000, 1_000, 100_000, 100_000, keep_ms=50_000)
    events = pa.array([100_000, 60_000, 49_999, None], pa.int64())
    placement = place(events, lateness)
    assert placement.bucket_ms.to_pylist() == [100_000, 60_000, 100_000, 100_000]
    assert placement.side is not None
    assert placement.side.to_pylist() == [False, False, True, False]
    assert placement.late == 2
    no_watermark = Lateness("keep", 1_000, 1_000, 100_000, None, keep_ms=50_000)
    old = place(pa.array([49_999], pa.int64()), no_watermark)
    assert old.side is not None
    assert old.side.to_pylist() == [True]
