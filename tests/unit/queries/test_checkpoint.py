"""What a checkpoint of Spark says, and the ranges that follow from it."""

import pytest
from tests.strategies import Chain

from ashore.errors import CheckpointUnfit
from ashore.log.names import SliceName, query_source
from ashore.log.plan_query import CheckpointPosition
from ashore.log.positions import OffsetRange, ShardKey, ShardRange
from ashore.queries.spark.sql.batches import plan_ranges
from ashore.queries.state.checkpoint import Checkpoint
from ashore.storage import MemoryStorage

NAME = SliceName("job", "ods__result")
SETTINGS = '{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{}}'


def offsets(*sources: str) -> str:
    return "\n".join(["v1", SETTINGS, *sources])


def checkpoint(**files: str) -> Checkpoint:
    storage = MemoryStorage()
    for path, text in files.items():
        storage.create("ck/" + path.replace("__", "/"), text.encode())
    return Checkpoint(storage, "ck", "memory:ck")


def test_positions() -> None:
    assert checkpoint().read_position() == CheckpointPosition(None, -1, -1)
    begun = checkpoint(metadata='{"id":"q"}', offsets__0="", offsets__1="", commits__0="")
    assert begun.read_position() == CheckpointPosition("q", 1, 0)
    odd = checkpoint(metadata='{"id":"q"}', **{"offsets__.3.crc": "", "offsets__10": ""})
    assert odd.read_position() == CheckpointPosition("q", 10, -1)


@pytest.mark.parametrize("text", ["", "{}", "[1]", "3"])
def test_a_checkpoint_that_names_no_query(text: str) -> None:
    with pytest.raises(CheckpointUnfit, match="has no query id"):
        checkpoint(metadata=text).read_query_id()


def test_offsets_of_a_batch() -> None:
    text = offsets('{"c":{"0":5,"1":7}}', "-", '{"d":{"0":1}}')
    ends = {0: {"c": {"0": 5, "1": 7}}, 2: {"d": {"0": 1}}}
    assert checkpoint(offsets__3=text).read_ends(3) == ends
    assert checkpoint().read_ends(-1) == {}


@pytest.mark.parametrize(
    "text", ["", "v1", "v2\n{}\nc:{}", offsets("{"), offsets("[]"), offsets('{"c":3}')]
)
def test_offsets_that_spark_did_not_write(text: str) -> None:
    if text == "v1":  # cut off before its settings
        text = "v1\n"
    with pytest.raises(CheckpointUnfit, match="ck/offsets/0"):
        checkpoint(offsets__0=text or "v9").read_ends(0)
    with pytest.raises(CheckpointUnfit, match="does not exist"):
        checkpoint().read_ends(0)


def key(shard: str, reading: int = 1, topic: str = "c") -> ShardKey:
    return ShardKey(query_source(NAME, reading), topic, 1, shard)


def test_ranges_begin_where_the_log_joined_then_where_the_last_batch_ended() -> None:
    chain = Chain()
    chain.open()
    chain.join(key("0"), first=3)
    first, second = {0: {"c": {"0": 5}}}, {0: {"c": {"0": 9, "1": 4}}}
    assert plan_ranges(NAME, chain.fold, {}, first) == (ShardRange(key("0"), OffsetRange(3, 5)),)
    # A topic partition that came later begins at its beginning.
    assert plan_ranges(NAME, chain.fold, first, second) == (
        ShardRange(key("0"), OffsetRange(5, 9)),
        ShardRange(key("1"), OffsetRange(0, 4)),
    )
    assert plan_ranges(NAME, chain.fold, second, second) == ()


def test_a_topic_that_is_read_twice_has_two_ranges() -> None:
    chain = Chain()
    chain.open()
    chain.join(key("0"), first=3)
    ends = {0: {"c": {"0": 5}}, 1: {"c": {"0": 6}}}
    assert plan_ranges(NAME, chain.fold, {}, ends) == (
        ShardRange(key("0"), OffsetRange(3, 5)),
        ShardRange(key("0", 2), OffsetRange(3, 6)),
    )


def test_offsets_never_go_back() -> None:
    before, after = {0: {"c": {"0": 5}}}, {0: {"c": {"0": 4}}}
    with pytest.raises(CheckpointUnfit, match="negative, from 5 to 4"):
        plan_ranges(NAME, Chain().fold, before, after)
