"""Records that no job could read: taken down by a scenario, and never an excuse for others."""

from collections import Counter

import pytest

from ashore.log.entries import Entry, Skip
from ashore.log.positions import OffsetRange, ShardKey, ShardRange
from ashore_lab.drills.checkers.exactly_once import compare
from ashore_lab.drills.scenarios.retention import compare_skipped
from ashore_lab.drills.workloads.numbers import Numbered, Produced


def produced(*gone: int) -> Produced:
    found = Produced(Numbered("clicks", 1, partitions=1))
    found.counts[:] = [10]
    found.lose(0, gone)
    return found


def skip(start: int, end: int) -> Entry:
    ranges = (ShardRange(ShardKey("kafka", "clicks", 1, "0"), OffsetRange(start, end)),)
    body = Skip(ranges, None, (), (), "job", "gap: skip")
    return Entry(0, "0" * 32, 1, 0, None, None, body, "")


def test_what_had_expired_is_not_lost_and_may_not_be_there() -> None:
    seen = Counter({(0, number): 1 for number in (0, 1, 4, 5, 6, 7, 8)})
    account = compare(produced(2, 3, 4), seen, [])
    assert account.produced == 7
    assert account.lost == 1, "number 9"
    assert account.altered == 1, "number 4 was gone and is there"


@pytest.mark.parametrize(
    ("entries", "problems"),
    [
        ([skip(2, 5)], 0),
        ([skip(2, 3), skip(3, 5)], 0),
        ([skip(2, 4)], 1),  # one is not named
        ([skip(2, 6)], 1),  # one was there
        ([skip(1, 4)], 2),
        ([skip(2, 5), skip(4, 5)], 1),  # one is named twice
        ([], 1),
    ],
)
def test_skips_are_compared_offset_by_offset(entries: list[Entry], problems: int) -> None:
    assert len(compare_skipped(entries, produced(2, 3, 4))) == problems


def test_offsets_that_begin_again_are_reported_apart_by_their_records() -> None:
    found = Produced(Numbered("clicks", 1, partitions=2))
    found.counts[:] = [4, 3]
    found.begin_again()
    workload = found.workload
    assert workload.find_number(0, 1, workload.row(0, 1)[0]) == 1
    assert workload.find_number(0, 1, workload.row(0, 5)[0]) == 5
    assert workload.find_number(1, 1, workload.row(1, 4)[0]) == 4
    assert workload.find_number(1, 1, workload.row(1, 9)[0]) == 1, "it fits nowhere: altered"
