"""Offsets of a checkpoint whose query reads other sources, or in other places."""

from collections.abc import Mapping

import pytest

from ashore.errors import CheckpointUnfit
from ashore.log.entries import Join, Joined
from ashore.log.entries.slices import fold_join
from ashore.log.fold import EMPTY, Fold
from ashore.log.names import SliceName, query_source
from ashore.log.plan_query import QueryBatch, WriteRows, plan_query_batch
from ashore.log.positions import ShardKey
from ashore.log.query import QueryState
from ashore.plans.change.verdicts import SourceVerdict, StateVerdict
from ashore.queries.spark.sql.batches import plan_ranges
from ashore.queries.state.checkpoint import Checkpoint
from ashore.queries.state.layout import Ends
from ashore.queries.state.source_changes import lay_out_sources, plan_sources, read_begun
from ashore.storage import MemoryStorage
from ashore.topics.loop.joins import begin_at

NAME = SliceName("job", "ods__result")
SETTINGS = '{"batchWatermarkMs":7,"batchTimestampMs":9,"conf":{"spark.sql.shuffle.partitions":"4"}}'
BEFORE = '{"a":{"0":3}}', '{"b":{"0":4,"1":5}}'
DONE = '{"a":{"0":30}}', '{"b":{"0":40,"1":50}}'
A, B = {"a": {"0": 30}}, {"b": {"0": 40, "1": 50}}
READ = {("a", "0", 1): 30, ("b", "0", 1): 40, ("b", "1", 1): 50}


def checkpoint(done: tuple[str, ...] = DONE, before: tuple[str, ...] = BEFORE) -> Checkpoint:
    storage = MemoryStorage()
    storage.create("old/metadata", b'{"id":"q"}')
    for batch, lines in ((4, before), (5, done)):
        storage.create(f"old/offsets/{batch}", "\n".join(["v1", SETTINGS, *lines]).encode())
        storage.create(f"old/commits/{batch}", b'v1\n{"nextBatchWatermarkMs":7}')
    for number in range(len(done)):
        storage.create(f"old/sources/{number}/0", f"first of {number}".encode())
    return Checkpoint(storage, "old", "memory:old")


def log(nexts: Mapping[tuple[str, str, int], int] | None = None) -> Fold:
    joined = (
        Joined(ShardKey(query_source(NAME, reading), topic, 1, shard), "id", offset, "earliest")
        for (topic, shard, reading), offset in (READ if nexts is None else nexts).items()
    )
    changes = fold_join(EMPTY, Join(tuple(joined)), 0)
    query = QueryState("q", 5, "0" * 64, "1" * 64)
    return Fold(shards=changes["shards"], query=query)


def source(topics: str, old: int | None, new: int | None) -> SourceVerdict:
    return SourceVerdict(topics, StateVerdict.FULL, (), old, new)


def laid_out(
    *sources: SourceVerdict,
    there: Checkpoint | None = None,
    fold: Fold | None = None,
    firsts: Mapping[str, Mapping[str, int]] | None = None,
) -> tuple[Checkpoint, list[str]]:
    """Return the new checkpoint, and the files of its sources."""
    there, fold = there or checkpoint(), fold or log()
    target = Checkpoint(there.storage, "new", "memory:new")
    lay_out_sources(there, target, plan_sources(there, NAME, fold, sources, firsts))
    files = [each for each in ("0", "1", "2") if there.storage.stat(f"new/sources/{each}/0")]
    return target, files


def require_continued(target: Checkpoint, fold: Fold, after: Ends) -> list[str]:
    """Return the ranges of the next batch, which the log takes."""
    ranges = plan_ranges(NAME, fold, target.read_ends(5), after)
    batch = QueryBatch("q", 6, "plan", ranges)
    assert isinstance(plan_query_batch(fold, batch), WriteRows)
    return [str(each) for each in ranges]


def test_sources_that_change_places_keep_their_offsets() -> None:
    there = checkpoint()
    target, files = laid_out(source("b", 1, 0), source("a", 0, 1), there=there)

    assert target.read_ends(5) == {0: B, 1: A}
    assert target.read_ends(4) == {0: {"b": {"0": 4, "1": 5}}, 1: {"a": {"0": 3}}}
    assert target.read_offsets(5).settings == there.read_offsets(5).settings
    assert files == ["0", "1"]
    assert there.storage.read("new/sources/0/0") == b"first of 1"
    after = {0: {"b": {"0": 41, "1": 50}}, 1: {"a": {"0": 33}}}
    assert require_continued(target, log(), after) == ["b/0 [40, 41)", "a/0 [30, 33)"]


def test_a_new_source_has_no_offset_and_a_place_of_its_own() -> None:
    target, files = laid_out(source("c", None, 0), source("a", 0, 1), source("b", 1, 2))
    assert target.read_ends(5) == {1: A, 2: B}
    assert [each.end is None for each in target.read_offsets(5).sources] == [True, False, False]
    assert files == ["1", "2"]
    after = {0: {"c": {"0": 2}}, 1: A, 2: B}
    assert require_continued(target, log(), after) == ["c/0 [0, 2)"]


def test_a_new_source_begins_where_it_is_told_to() -> None:
    chosen = {"c": {"0": 7, "1": 8}}
    target, _ = laid_out(source("a", 0, 0), source("c", None, 1), firsts=chosen)
    assert target.read_ends(5) == {0: A, 1: chosen}
    assert target.read_ends(4) == {0: {"a": {"0": 3}}, 1: chosen}
    after = {0: A, 1: {"c": {"0": 9, "1": 8}}}
    assert require_continued(target, log(), after) == ["c/0 [7, 9)"]


def test_a_topic_that_the_log_does_not_know_is_joined_where_its_checkpoint_begins() -> None:
    target, _ = laid_out(source("a", 0, 0), source("c", None, 1), firsts={"c": {"0": 7}})
    target.storage.create("new/commits/5", b'v1\n{"nextBatchWatermarkMs":7}')
    keys = [ShardKey(query_source(NAME), "c", 1, shard) for shard in "01"]
    join = Join(tuple(Joined(key, "id", 0, "earliest") for key in keys))
    found = begin_at(join, read_begun(target)).shards
    assert [(each.first_offset, each.policy) for each in found] == [
        (7, "checkpoint"),
        (0, "earliest"),
    ]


def test_a_dropped_source_leaves_nothing_and_goes_on_where_it_ended_when_it_returns() -> None:
    without, files = laid_out(source("a", 0, 0), source("b", 1, None))
    assert without.read_ends(5) == {0: A}
    assert files == ["0"]
    again = checkpoint((DONE[0],), (BEFORE[0],))
    target, _ = laid_out(source("a", 0, 0), source("b", None, 1), there=again)
    assert target.read_ends(5) == {0: A, 1: B}
    after = {0: A, 1: {"b": {"0": 44, "1": 50}}}
    assert require_continued(target, log(), after) == ["b/0 [40, 44)"]


def test_an_offset_that_the_log_has_passed_is_not_chosen() -> None:
    with pytest.raises(CheckpointUnfit, match="up to 40") as caught:
        laid_out(source("a", 0, 0), source("b", None, 1), firsts={"b": {"0": 1}})
    assert caught.value.fields["why"] == "other_offset"


def test_topics_come_and_go_within_a_source() -> None:
    there = checkpoint(('{"a":{"0":30},"b":{"0":40,"1":50}}',), ('{"a":{"0":3}}',))
    chosen = {"c": {"0": 6}}
    target, _ = laid_out(source("b,c", 0, 0), there=there, firsts=chosen)
    assert target.read_ends(5) == {0: {**B, "c": {"0": 6}}}
    assert target.read_ends(4) == target.read_ends(5)
    target, _ = laid_out(source("a,b,c", 0, 0), there=checkpoint(there_lines()))
    assert target.read_ends(5) == {0: {**A, **B}}


def there_lines() -> tuple[str, ...]:
    return ('{"a":{"0":30},"b":{"0":40,"1":50}}',)


def test_readings_of_one_topic_are_exchanged_only_where_they_ended_alike() -> None:
    ahead = {("a", "0", 1): 30, ("a", "0", 2): 31}
    there = checkpoint(('{"a":{"0":30}}', '{"a":{"0":31}}'))
    with pytest.raises(CheckpointUnfit, match="reading 1 of a/0") as caught:
        laid_out(source("a", 1, 0), source("a", 0, 1), there=there, fold=log(ahead))
    assert caught.value.fields["why"] == "readings"
    assert "nothing was changed" in caught.value.message
    alike = checkpoint(('{"a":{"0":30}}', '{"a":{"0":30}}'))
    level = log(dict.fromkeys(ahead, 30))
    target, files = laid_out(source("a", 1, 0), source("a", 0, 1), there=alike, fold=level)
    assert target.read_ends(5) == {0: A, 1: A}
    assert not files  # whose they are is not known: Spark gives two uses of one stream one


def test_the_first_batch_has_none_before_it() -> None:
    storage = MemoryStorage()
    storage.create("old/metadata", b'{"id":"q"}')
    storage.create("old/offsets/0", "\n".join(["v1", SETTINGS, *DONE]).encode())
    storage.create("old/commits/0", b'v1\n{"nextBatchWatermarkMs":7}')
    target, _ = laid_out(
        source("b", 1, 0), source("a", 0, 1), there=Checkpoint(storage, "old", "memory:old")
    )
    assert target.read_ends(0) == {0: B, 1: A}
