"""With partitions in step, no record is late for Spark that is in time within its partition."""

import json
from collections.abc import Iterable

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.stepped import START_MS, TOPIC, Stepped, timed

from ashore.log.positions import StreamShard
from ashore.topics.run.spark.source.in_step import LookSizes

LATE_MS = 4_000
SHARDS = 4
FUTURE_MS = START_MS + 10**10
HOLE = b"hole"
BACK_MS = {"back": (LATE_MS - 1, LATE_MS - 1), "any": (0, LATE_MS - 1)}
KINDS = st.sampled_from(["even", "back", "any", "surge", "odd"])
SIZES = st.builds(LookSizes, st.integers(1, 6), st.integers(1, 20), st.just(10**6))


@st.composite
def partitions(draw: st.DrawFn) -> list[bytes]:
    """Records of a partition: their disorder is below what is allowed; some have no time."""
    newest = START_MS + draw(st.integers(0, 10_000))
    pace = draw(st.sampled_from([10, 300, 3_000]))
    found = []
    for count, kind in draw(st.lists(st.tuples(st.integers(1, 10), KINDS), max_size=12)):
        newest += LATE_MS - 1 if kind == "surge" else 0
        for _ in range(count):
            if kind == "odd":
                odd = st.sampled_from([b"no JSON", timed(None), timed(FUTURE_MS), HOLE])
                found.append(draw(odd))
                continue
            newest += draw(st.integers(0, pace))
            least, most = BACK_MS.get(kind, (0, 0))
            found.append(timed(newest - draw(st.integers(least, most))))
    return found


def append(query: Stepped, shard: int, records: Iterable[bytes]) -> None:
    place = StreamShard(TOPIC, str(shard))
    for each in records:
        query.kafka.leave_hole(place) if each == HOLE else query.kafka.append(place, each)


def _time_of(value: bytes | None) -> int | None:
    try:
        time: int | None = json.loads(value or b"")["ts"]
    except ValueError:
        return None
    return None if time == FUTURE_MS else time


class Watermark:
    """What Spark computes: the newest event time of former batches is what counts."""

    def __init__(self, query: Stepped, limit: int) -> None:
        self.query = query
        self.limit = limit
        self.newest_ms = 0
        self.read = [0] * SHARDS

    def batch(self) -> int:
        """Plan a batch, and check it; return how many offsets it reads."""
        ranges = self.query.plan()
        times = []
        for shard, offsets in ranges.items():
            assert offsets.start == self.read[shard]
            self.read[shard] = offsets.end
            found = map(_time_of, self.query.values(shard, offsets))
            times += [time for time in found if time is not None]
        assert all(time > self.newest_ms - LATE_MS for time in times)
        self.newest_ms = max([self.newest_ms, *times])
        size = sum(each.size for each in ranges.values())
        assert size <= self.limit
        return size


@given(
    st.lists(partitions(), min_size=SHARDS, max_size=SHARDS),
    st.integers(1, 60),
    SIZES,
    st.lists(st.booleans(), min_size=20, max_size=20),
)
@settings(max_examples=examples(100), deadline=None)
def test_a_backlog_is_read_whole_and_nothing_in_time_is_late(
    records: list[list[bytes]], limit: int, sizes: LookSizes, restarts: list[bool]
) -> None:
    query = Stepped(SHARDS, sizes, maxOffsetsPerTrigger=str(limit))
    for shard, each in enumerate(records):
        append(query, shard, each)
    query.start(is_last=True)
    left = sum(map(len, records))
    watermark = Watermark(query, limit)
    for number in range(left):
        if not left:
            break
        size = watermark.batch()
        assert size, "each batch advances"
        left -= size
        if restarts[number % len(restarts)]:
            query.start(is_last=True)
    assert not left
    assert not watermark.batch()


@given(
    st.lists(partitions(), min_size=SHARDS, max_size=SHARDS),
    st.integers(1, 60),
    SIZES,
    st.lists(st.tuples(st.integers(0, SHARDS - 1), st.integers(1, 15)), max_size=20),
)
@settings(max_examples=examples(100), deadline=None)
def test_what_comes_meanwhile_is_not_late_either(
    records: list[list[bytes]],
    limit: int,
    sizes: LookSizes,
    arrivals: list[tuple[int, int]],
) -> None:
    query = Stepped(SHARDS, sizes, maxOffsetsPerTrigger=str(limit), idleAfter="10s")
    watermark = Watermark(query, limit)
    for shard, each in enumerate(records):  # an empty partition holds no other back
        append(query, shard, [timed(START_MS), *each[:1]])
    rest = [each[1:] for each in records]
    for shard, count in arrivals:
        append(query, shard, rest[shard][:count])
        rest[shard] = rest[shard][count:]
        watermark.batch()
    for shard, each in enumerate(rest):
        append(query, shard, each)
    left = sum(map(len, records)) + SHARDS - sum(watermark.read)
    while size := watermark.batch():
        left -= size
    query.clock.advance(10.0)
    while size := watermark.batch():
        left -= size
    assert not left
