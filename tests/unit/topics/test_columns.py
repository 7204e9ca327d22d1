"""Fetched batches gathered for decoding: every record once, partitions together, bounds kept."""

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ashore.topics.read import reading
from ashore.topics.read.reading import gather
from ashore.topics.read.record_columns import FETCHED

Place = tuple[str, int, int]  # topic, partition, offset

RECORDS_MAX = 10


@pytest.fixture(autouse=True)
def small_bounds() -> Iterator[None]:
    """Bounds that few records reach."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "BATCH_RECORDS", RECORDS_MAX)
        yield


def batch_of(places: Sequence[Place], value: bytes = b"{}") -> pa.RecordBatch:
    """Return fetched records."""
    rows = [
        {"topic": topic, "partition": partition, "offset": offset, "value": value}
        for topic, partition, offset in places
    ]
    return pa.RecordBatch.from_pylist(rows, FETCHED)


def places_of(batch: pa.RecordBatch) -> list[Place]:
    """Return the records of a batch."""
    names = ("topic", "partition", "offset")
    return list(zip(*(batch.column(name).to_pylist() for name in names), strict=True))


def run(topic: str, partition: int, start: int, count: int) -> pa.RecordBatch:
    """Return neighbouring records of a partition."""
    return batch_of([(topic, partition, start + each) for each in range(count)])


def test_what_does_not_fit_with_the_next_batch_goes_alone_and_is_not_copied() -> None:
    first, second = run("t", 0, 0, 6), run("t", 1, 0, 9)
    found = list(gather([first, second]))
    assert [places_of(each) for each in found] == [places_of(first), places_of(second)]
    buffers = [each.column("value").buffers()[2].address for each in (first, second)]
    assert [each.column("value").buffers()[2].address for each in found] == buffers


def test_bytes_bound_as_records_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "BATCH_BYTES", 1_000)
    batches = [batch_of([("t", 0, offset)], b"x" * 600) for offset in range(3)]
    assert [each.num_rows for each in gather(batches)] == [1, 1, 1]
    assert [each.num_rows for each in gather(run("t", 0, at, 1) for at in range(3))] == [3]


def test_partitions_that_came_by_turns_are_together() -> None:
    (found,) = gather(run("t", number % 2, 2 * number, 1) for number in range(6))
    assert places_of(found) == [
        *(("t", 0, 2 * number) for number in (0, 2, 4)),
        *(("t", 1, 2 * number) for number in (1, 3, 5)),
    ]


def test_partitions_that_came_mixed_in_one_batch_are_together() -> None:
    mixed = batch_of([("t", 1, 5), ("s", 0, 7), ("t", 1, 6), ("s", 0, 8)])
    (found,) = gather([mixed])
    assert places_of(found) == [("s", 0, 7), ("s", 0, 8), ("t", 1, 5), ("t", 1, 6)]


def test_nothing_becomes_nothing() -> None:
    assert list(gather([])) == []


@given(
    st.lists(
        st.lists(st.tuples(st.sampled_from("st"), st.integers(0, 2)), min_size=1, max_size=14),
        max_size=8,
    )
)
def test_every_record_is_in_one_batch(shards: list[list[tuple[str, int]]]) -> None:
    reached: dict[tuple[str, int], int] = {}
    batches: list[pa.RecordBatch] = []
    for each in shards:
        places: list[Place] = []
        for topic, partition in each:
            offset = reached[topic, partition] = reached.get((topic, partition), -1) + 1
            places.append((topic, partition, offset))
        batches.append(batch_of(places))
    found = list(gather(batches))
    told = [place for batch in found for place in places_of(batch)]
    assert sorted(told) == sorted(place for batch in batches for place in places_of(batch))
    largest = max((each.num_rows for each in batches), default=0)
    for batch in found:
        assert batch.num_rows <= max(RECORDS_MAX, largest)
        places = places_of(batch)
        for topic, partition in {place[:2] for place in places}:
            at = [number for number, place in enumerate(places) if place[:2] == (topic, partition)]
            assert at == list(range(at[0], at[0] + len(at)))
            offsets = [places[number][2] for number in at]
            assert offsets == sorted(offsets)
    for topic, partition in reached:
        mine = [place[2] for place in told if place[:2] == (topic, partition)]
        assert mine == sorted(mine)
