"""Which offsets a query reads that runs once."""

import pytest

from ashore.errors import QueryRefused
from ashore.jobs.requests import OffsetsOfTopic, SqlRequest, read_request, write_request
from ashore.log.plan_batch import ShardOffsets
from ashore.log.positions import StreamShard
from ashore.queries.spark.sql.adhoc import plan_sample
from ashore.queries.tools.adhoc import parse_offsets

THERE = {
    StreamShard("clicks", "0"): ShardOffsets(100, 1100),
    StreamShard("clicks", "1"): ShardOffsets(0, 10),
    StreamShard("clicks", "2"): ShardOffsets(0, 1000),
    StreamShard("views", "0"): ShardOffsets(5, 5),
}


def sample(last: int = 100, *offsets: str) -> dict[str, list[tuple[int, int]]]:
    request = SqlRequest("SELECT 1", last, tuple(parse_offsets(each) for each in offsets), 10)
    assert read_request(SqlRequest, write_request(request)) == request
    found = plan_sample(THERE, request)
    return {
        topic: [(shards[name].start, shards[name].end) for name in sorted(shards)]
        for topic, shards in found.items()
    }


def test_partitions_give_equal_parts_as_far_as_they_have_them() -> None:
    assert sample(100) == {"clicks": [(1055, 1100), (0, 10), (955, 1000)], "views": [(5, 5)]}
    assert sample(1) == {"clicks": [(1100, 1100), (9, 10), (1000, 1000)], "views": [(5, 5)]}
    assert sample(9_999)["clicks"] == [(100, 1100), (0, 10), (0, 1000)]


def test_what_was_asked_for_is_read_and_nothing_else_of_its_topic() -> None:
    assert sample(100, "clicks/0:200-300")["clicks"] == [(200, 300), (10, 10), (1000, 1000)]
    assert sample(100, "clicks:5-200")["clicks"] == [(100, 200), (5, 10), (5, 200)]
    assert sample(100, "clicks:50-")["clicks"] == [(100, 1100), (10, 10), (50, 1000)]


@pytest.mark.parametrize(
    ("offsets", "words"),
    [
        ("clicks/0:0-10", "clicks/0 does not have .* 0 to 10"),
        ("clicks/1:0-11", "clicks/1 does not have .* 0 to 11"),
        ("clicks/7:0-1", "no partition 7"),
        ("orders:0-1", "read topic orders"),
        ("clicks/0:9-1", "end before they begin"),
        ("clicks", "an offset range"),
    ],
)
def test_what_is_not_there_is_refused(offsets: str, words: str) -> None:
    with pytest.raises(QueryRefused, match=words) as refused:
        sample(100, offsets)
    assert refused.value.hint


def test_offsets_are_read_as_they_are_typed() -> None:
    assert parse_offsets("a.b-c/3:1-2") == OffsetsOfTopic("a.b-c", 3, 1, 2)
