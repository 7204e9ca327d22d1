"""Rows of a streaming query are in its topic at least once, whatever call of the sink is struck."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from tests.crash import storage_calls
from tests.crash.harness import (
    NAME,
    check_end,
    check_readers,
    find_failures,
    require,
    require_none_fails,
)
from tests.crash.query_job import REMEMBER_MS, Query, QueryWorld, query_world
from tests.crash.storage_calls import Case, Strike

from ashore.base.clock import Clock
from ashore.log.plan_query import QueryBatch
from ashore.log.positions import ShardKey
from ashore.log.store.reader import read_log
from ashore.storage import Storage
from ashore_lab.testing import StopProcess

Sent = tuple[int, ShardKey, int]  # batch, key, how far the key was read


class TopicQuery(Query):
    """A query that counts by shard, into a topic."""

    def __init__(self, world: "TopicWorld", storage: Storage, clock: Clock) -> None:
        super().__init__(world, storage, clock)
        self.sink = self.assembly.sink(NAME, None, REMEMBER_MS)
        self._topic = world.topic
        self._streams = world.source.describe_streams(world.source.list_streams())
        self._commits = world.checkpoint.commits

    def _run(self, batch: QueryBatch) -> None:
        begun = self.sink.begin(batch, lambda key: self._streams[key.stream].stream_id)
        if begun is not None:
            rows = [(batch.batch_id, each.key, each.offsets.end) for each in batch.ranges]
            self._topic.extend(rows)
            self.sink.sent(begun, len(rows))
        self._commits.add(batch.batch_id)


@dataclass
class TopicWorld(QueryWorld):
    """A world whose processes write one topic, which keeps all that was ever sent."""

    query: type[Query] = TopicQuery
    topic: list[Sent] = field(default_factory=list)


def topic_world() -> TopicWorld:
    plain = query_world()
    return TopicWorld(plain.machine, plain.source, plain.clock)


def newest(topic: list[Sent]) -> dict[ShardKey, int]:
    return {key: end for _, key, end in topic}


def check_topic(world: TopicWorld, whole: TopicWorld) -> None:
    """Nothing is missing or made up, and no key goes back."""
    require(set(world.topic) == set(whole.topic), "a row is missing, or made up")
    require(newest(world.topic) == newest(whole.topic), "a key ends with another row")
    for key in newest(world.topic):
        ends = [end for _, of, end in world.topic if of == key]
        require(ends == sorted(ends), f"{key} goes back: {ends}")
    check_readers(world.machine)
    counted = read_log(world.machine, NAME).counters["sent"]
    require(counted == len(whole.topic), f"{counted} rows are counted")


def run_struck(strike: Strike, number: int) -> None:
    whole, world = topic_world(), topic_world()
    check_end(whole.start().run())
    check_end(world.start(strike.faults(number)).run())
    for _ in range(2):
        require(world.start().run() is None, "the last process did not end by itself")
    world.pending.release()
    check_topic(world, whole)


def cases(strike: Strike) -> Iterator[Case]:
    process = topic_world().start()
    check_end(process.run())
    for call in process.faulty.calls:
        name = f"call {call.number}: {call.kind} {call.path}"
        yield name, lambda number=call.number: run_struck(strike, number)


STRIKES = [each for each in storage_calls.strikes() if each.arrives == "by itself"]


@pytest.mark.parametrize("strike", STRIKES, ids=lambda strike: strike.name)
def test_every_storage_call(strike: Strike) -> None:
    require_none_fails(cases(strike))


def test_rows_come_again_where_a_batch_was_cut_short_and_only_there() -> None:
    """Killed before the entry is there, its rows come again; after it, they do not."""
    process = topic_world().start()
    check_end(process.run())
    appends = [call.number for call in process.faulty.calls if call.kind == "create"]
    again = {}
    for number in appends:
        for when in ("before", "after"):
            world = topic_world()
            world.start([StopProcess(number, when=when)]).run()
            is_prepared = read_log(world.machine, NAME).next_batch > 0
            sent = bool(world.topic)
            check_end(world.start().run())
            again[is_prepared, sent] = max(
                again.get((is_prepared, sent), 0), Counter(world.topic)[world.topic[0]]
            )
    assert again == {(False, False): 1, (False, True): 2, (True, True): 1}


def test_an_entry_that_comes_before_its_rows_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(self: TopicQuery, batch: QueryBatch) -> None:
        begun = self.sink.begin(batch, lambda key: self._streams[key.stream].stream_id)
        if begun is not None:
            rows = [(batch.batch_id, each.key, each.offsets.end) for each in batch.ranges]
            self.sink.sent(begun, len(rows))
            self._topic.extend(rows)
        self._commits.add(batch.batch_id)

    monkeypatch.setattr(TopicQuery, "_run", careless)
    stops = next(strike for strike in STRIKES if strike.name == "stops after")
    assert next(find_failures(cases(stops)), None) is not None
