"""Records that fail alone are found by halves, and no others, in few runs."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ashore.log.positions import OffsetRange, ShardKey, ShardRange
from ashore.queries.spark.sql.row_writer import find_culprits

A, B = (ShardKey("kafka:q", "clicks", 1, shard) for shard in ("0", "1"))


class Batch:
    """Offsets of two topic partitions, some of which cannot be computed."""

    def __init__(self, bad: set[tuple[ShardKey, int]]) -> None:
        self.bad = bad
        self.runs: list[int] = []

    def compute(self, ranges: Sequence[ShardRange]) -> str | None:
        self.runs.append(sum(each.offsets.size for each in ranges))
        found = (
            offset
            for each in ranges
            for offset in range(each.offsets.start, each.offsets.end)
            if (each.key, offset) in self.bad
        )
        return next((f"offset {offset}" for offset in found), None)


def ranges(*sizes: int) -> list[ShardRange]:
    keys = zip((A, B), sizes, strict=False)
    return [ShardRange(key, OffsetRange(100, 100 + size)) for key, size in keys if size]


@given(st.data())
def test_each_record_that_fails_is_found_with_its_own_reason(data: st.DataObject) -> None:
    sizes = data.draw(st.tuples(st.integers(1, 40), st.integers(0, 40)))
    every = [(key, 100 + at) for key, size in zip((A, B), sizes, strict=True) for at in range(size)]
    batch = Batch(data.draw(st.sets(st.sampled_from(every), max_size=12)))
    found = find_culprits(ranges(*sizes), batch.compute, 100)
    assert {(each.key, each.offset) for each in found} == batch.bad
    assert len(found) == len(batch.bad)
    assert [each.reason for each in found] == [f"offset {each.offset}" for each in found]


@pytest.mark.parametrize("at", [0, 1, 4_096, 65_535])
def test_one_of_many_takes_no_more_runs_than_two_a_digit(at: int) -> None:
    batch = Batch({(A, 100 + at)})
    assert len(find_culprits(ranges(65_536), batch.compute, 100)) == 1
    assert len(batch.runs) <= 2 * 16 + 1
    assert 65_536 not in batch.runs  # that it fails is known


def test_no_more_are_looked_for_than_are_of_use() -> None:
    batch = Batch({(A, 100 + at) for at in range(1_000)})
    assert len(find_culprits(ranges(1_000), batch.compute, 3)) == 4
    assert len(batch.runs) < 50


def test_a_batch_of_which_no_record_fails_alone_has_no_culprit() -> None:
    def compute(given: Sequence[ShardRange]) -> str | None:
        return "together" if sum(each.offsets.size for each in given) > 1 else None

    assert find_culprits(ranges(8, 8), compute, 100) == []
