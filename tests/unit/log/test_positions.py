import pytest

from ashore.errors import InvariantBroken
from ashore.log.positions import OffsetRange, Seam, ShardKey, ShardRange, find_seams

KEY = ShardKey("kafka", "clicks", 1, "3")


@pytest.mark.parametrize(("start", "end"), [(-1, 0), (5, 4), (-3, -2)])
def test_a_range_that_goes_back_or_below_zero_is_refused(start: int, end: int):
    with pytest.raises(InvariantBroken):
        OffsetRange(start, end)


def test_ranges_are_half_open():
    assert OffsetRange(3, 3).size == 0
    assert not OffsetRange(0, 10).overlaps(OffsetRange(10, 20))
    assert OffsetRange(0, 11).overlaps(OffsetRange(10, 20))
    assert not OffsetRange(5, 5).overlaps(OffsetRange(0, 5))


@pytest.mark.parametrize(
    ("ranges", "seams"),
    [
        ([], []),
        ([(10, 20), (20, 20), (20, 30)], []),
        ([(11, 20)], [(10, 11)]),
        ([(10, 20), (25, 30)], [(20, 25)]),
        ([(10, 20), (15, 30)], [(20, 15)]),
        ([(10, 30), (10, 20), (30, 40)], [(30, 10)]),
        ([(0, 5), (20, 30)], [(10, 0), (10, 20)]),
    ],
)
def test_seams_are_holes_and_overlaps(ranges, seams):
    found = find_seams(KEY, 10, [OffsetRange(*each) for each in ranges])
    assert [(seam.expected, seam.found) for seam in found] == seams


def test_a_seam_names_its_offsets():
    assert str(Seam(KEY, 20, 25)) == "clicks/3: hole [20, 25)"
    assert str(Seam(KEY, 20, 15)) == "clicks/3: overlap [15, 20)"


def test_names_for_people():
    assert str(ShardRange(KEY, OffsetRange(1, 2))) == "clicks/3 [1, 2)"
    assert str(ShardKey("kafka", "clicks", 2, "3")) == "clicks#2/3"


def test_equal_partitions_and_offsets_of_two_topics_or_generations_are_different_places():
    keys = {
        ShardKey("kafka", stream, generation, "0")
        for stream in ("clicks", "views")
        for generation in (1, 2)
    }
    assert len(keys) == 4
