"""A batch that Spark has forgotten, planned again: byte for byte what Spark would write."""

import pytest
from tests.checkpoint_files import GOLDEN

from ashore.errors import CheckpointUnfit
from ashore.log.entries import Prepare, Query, ShardRead
from ashore.log.names import SliceName, query_source
from ashore.log.positions import BatchTime, OffsetRange, ShardKey
from ashore.log.query_history import LandedBatch
from ashore.queries.spark.sql.batches import write_offsets
from ashore.queries.state.checkpoint import Checkpoint
from ashore.storage import MemoryStorage

NAME = SliceName("job", "ods__result")
WATERMARK_MS, NOW_MS = 1795247999000, 1795371900000
OFFSETS = (GOLDEN / "join-form-2" / "offsets" / "1").read_bytes()
COMMIT = (GOLDEN / "join-form-2" / "commits" / "1").read_bytes()
TOPICS = ("join-form-2.clicks", "join-form-2.views")


def checkpoint(offsets: bytes = OFFSETS, commit: bytes = COMMIT) -> Checkpoint:
    storage = MemoryStorage()
    storage.create("ck/offsets/1", offsets)
    storage.create("ck/commits/1", commit)
    return Checkpoint(storage, "ck", "memory:ck")


def read(topic: str, shard: str, end: int, reading: int = 1) -> ShardRead:
    key = ShardKey(query_source(NAME, reading), topic, 1, shard)
    return ShardRead(key, OffsetRange(end - 1, end), "ods.result", 0, 0, 0, 0, 0, 0, None)


def landed(*reads: ShardRead, planned_ms: int = 0) -> LandedBatch:
    query = Query("q", 2, "0" * 64, planned_ms)
    body = Prepare(2, BatchTime(NOW_MS), reads, (), (), (), query)
    return LandedBatch(7, 1, body, query, ())


def test_what_changed_are_times_and_the_offsets_that_the_log_has() -> None:
    there = checkpoint()
    write_offsets(there, NAME, landed(read(TOPICS[1], "1", 6), read(TOPICS[1], "2", 9)))
    before, after = OFFSETS.decode().splitlines(), there.storage.read("ck/offsets/2").decode()
    time_ms = there.read_offsets(1).settings.timestamp_ms
    settings = before[1].replace(str(time_ms), str(NOW_MS))
    end = '{"join-form-2.views":{"0":3,"1":6,"2":9}}'
    assert after == "\n".join(["v1", settings, before[2], end])


def test_the_time_is_the_one_that_spark_had_planned() -> None:
    """By a later time a record would be believed that was too far ahead."""
    there = checkpoint()
    write_offsets(there, NAME, landed(planned_ms=NOW_MS - 5))
    settings = there.read_offsets(2).settings
    assert settings is not None
    assert settings.timestamp_ms == NOW_MS - 5


def test_the_watermark_is_the_one_that_the_batch_before_has_left() -> None:
    there = checkpoint(commit=b'v1\n{"nextBatchWatermarkMs":77}')
    write_offsets(there, NAME, landed())
    assert there.read_offsets(2).settings.watermark_ms == 77


def test_a_topic_that_is_read_twice_ends_twice() -> None:
    there = checkpoint(b'v1\n{}\n{"c":{"0":3}}\n{"c":{"0":2}}')
    write_offsets(there, NAME, landed(read("c", "0", 5), read("c", "0", 4, reading=2)))
    assert there.read_ends(2) == {0: {"c": {"0": 5}}, 1: {"c": {"0": 4}}}


@pytest.mark.parametrize(
    ("offsets", "commit"),
    [
        (b"v2\n{}\na:{}", COMMIT),
        (b"v1\n\n{}", COMMIT),
        (b"v1\n{}\n-", COMMIT),
        (b'v1\n{}\n{"logOffset":1}', COMMIT),
        (OFFSETS, b"v1\n{}"),
        (OFFSETS, b"v1"),
        (OFFSETS, b"x"),
    ],
    ids=["named", "no settings", "no offset", "files", "no watermark", "nothing", "other"],
)
def test_what_cannot_be_followed(offsets: bytes, commit: bytes) -> None:
    there = checkpoint(offsets, commit)
    with pytest.raises(CheckpointUnfit, match="batch 2 cannot follow batch 1 "):
        write_offsets(there, NAME, landed())
    assert [each.path for each in there.storage.list("ck/offsets")] == ["ck/offsets/1"]


def test_a_checkpoint_that_has_lost_the_batch_before() -> None:
    with pytest.raises(CheckpointUnfit, match="cannot follow"):
        write_offsets(Checkpoint(MemoryStorage(), "ck", "memory:ck"), NAME, landed())


def test_a_topic_that_the_batch_before_did_not_read() -> None:
    with pytest.raises(CheckpointUnfit, match="batch before did not"):
        write_offsets(checkpoint(), NAME, landed(read("other", "0", 5)))
