"""A source whose records a test has written down.

What it is: a Source in memory: streams with shards, offsets with holes, retention, new shards,
streams that are created again.
What it promises: the same answers as every other source; what is appended is stable at once,
unless an open transaction holds it up.
"""

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ashore.base.clock import Clock
from ashore.errors import OffsetsGone, StreamMissing, check
from ashore.log.plan_batch import ShardOffsets
from ashore.log.positions import OffsetRange, StreamShard
from ashore.topics.read.source import FirstOffset, OpenTransaction, Position, Record, StreamInfo
from ashore_lab.testing.clock import FakeClock


@dataclass(slots=True)
class _Shard:
    """The records of a shard, in order. Not every offset needs to hold one."""

    earliest: int = 0
    end: int = 0
    held_up_from: int | None = None  # where an open transaction begins
    records: list[Record] = field(default_factory=list)
    leaders: list[int] = field(default_factory=lambda: [0])  # first offset of each leader epoch

    @property
    def stable_end(self) -> int:
        return self.end if self.held_up_from is None else self.held_up_from


@dataclass(slots=True)
class _Stream:
    number: int  # of all streams ever created: its identity
    shards: dict[str, _Shard]


class RecordedSource:
    """A Source in memory. Any number of threads and "processes" of a test may share one."""

    def __init__(self, name: str = "recorded", clock: Clock | None = None) -> None:
        self._name = name
        self._clock = clock or FakeClock()
        self._lock = threading.RLock()
        self._streams: dict[str, _Stream] = {}
        self._created = 0
        self.shown: dict[str, dict[StreamShard, int]] = {}  # by group

    # ---- what a test does

    def create(self, stream: str, shards: int = 1) -> None:
        """Create a stream with empty shards `0`, `1` ..."""
        with self._lock:
            check(stream not in self._streams, f"stream {stream} exists")
            self._created += 1
            self._streams[stream] = _Stream(
                self._created, {str(number): _Shard() for number in range(shards)}
            )

    def append(self, shard: StreamShard, *values: bytes | None) -> None:
        """Append a record for each value, at the clock's time."""
        with self._lock:
            there = self._find(shard)
            for value in values:
                there.records.append(Record(there.end, self._clock.now_ms(), None, value))
                there.end += 1

    def leave_hole(self, shard: StreamShard, offsets: int = 1) -> None:
        """Use up offsets without records, as transaction markers and compaction do."""
        with self._lock:
            self._find(shard).end += offsets

    def hold_up(self, shard: StreamShard) -> None:
        """Begin a transaction: what is appended from here on is not stable."""
        with self._lock:
            there = self._find(shard)
            there.held_up_from = there.end

    def expire(self, shard: StreamShard, below: int) -> None:
        """Forget what lies below an offset, as retention does."""
        with self._lock:
            there = self._find(shard)
            check(below <= there.end, f"{shard} ends at {there.end}")
            there.earliest = max(there.earliest, below)
            there.records = [each for each in there.records if each.offset >= there.earliest]

    def elect(self, shard: StreamShard, cut_at: int | None = None) -> None:
        """Give a shard another leader; what that lacks, from `cut_at` on, is gone."""
        with self._lock:
            there = self._find(shard)
            there.end = there.end if cut_at is None else cut_at
            there.records = [each for each in there.records if each.offset < there.end]
            there.leaders = [min(first, there.end) for first in there.leaders] + [there.end]

    def add_shard(self, stream: str) -> StreamShard:
        """Add an empty shard to a stream."""
        with self._lock:
            shards = self._streams[stream].shards
            number = str(len(shards))
            shards[number] = _Shard()
            return StreamShard(stream, number)

    def delete(self, stream: str) -> None:
        """Delete a stream with all its records."""
        with self._lock:
            del self._streams[stream]

    def delete_and_recreate(self, stream: str, shards: int = 1) -> None:
        """Replace a stream by an empty one of the same name and another identity."""
        with self._lock:
            self.delete(stream)
            self.create(stream, shards)

    # ---- what a Source does

    @property
    def name(self) -> str:
        """See Source."""
        return self._name

    def list_streams(self) -> list[str]:
        """See Source."""
        with self._lock:
            return sorted(self._streams)

    def describe_streams(self, streams: Sequence[str]) -> dict[str, StreamInfo]:
        """See Source."""
        with self._lock:
            return {
                name: StreamInfo(name, f"id-{there.number}", tuple(there.shards))
                for name in streams
                if (there := self._streams.get(name)) is not None
            }

    def read_offsets(self, shards: Sequence[StreamShard]) -> dict[StreamShard, ShardOffsets]:
        """See Source."""
        with self._lock:
            found = {shard: self._find(shard) for shard in shards}
            return {
                shard: ShardOffsets(there.earliest, there.stable_end, len(there.leaders) - 1)
                for shard, there in found.items()
            }

    def find_truncated(self, positions: Mapping[StreamShard, Position]) -> dict[StreamShard, str]:
        """See Source."""
        with self._lock:
            ends = {
                shard: [*self._find(shard).leaders, self._find(shard).end][at.leader_epoch + 1]
                for shard, at in positions.items()
            }
        return {
            shard: f"the history of that leader ends at {ends[shard]}"
            for shard, at in positions.items()
            if ends[shard] < at.offset
        }

    def resolve_first(self, shard: StreamShard, first: FirstOffset) -> int:
        """See Source."""
        with self._lock:
            there = self._find(shard)
            if first.policy == "earliest":
                return there.earliest
            since_ms = first.timestamp_ms
            if first.policy == "latest" or since_ms is None:
                return there.stable_end
            later = (
                each.offset
                for each in there.records
                if each.timestamp_ms is not None and each.timestamp_ms >= since_ms
            )
            return min(next(later, there.stable_end), there.stable_end)

    def newest_times(self, shards: Sequence[StreamShard]) -> list[int]:
        """See Source."""
        with self._lock:
            times = (
                [each.timestamp_ms for each in self._find(shard).records if each.timestamp_ms]
                for shard in shards
            )
            return [max(found) for found in times if found]

    def find_open_transactions(self, shards: Sequence[StreamShard]) -> list[OpenTransaction]:
        """See Source."""
        with self._lock:
            found = {shard: self._find(shard) for shard in shards}
            return [
                OpenTransaction(shard, there.stable_end, there.end, "open")
                for shard, there in found.items()
                if there.stable_end < there.end
            ]

    def read_again(self, shard: StreamShard, offsets: OffsetRange) -> Iterator[Record]:
        """See Source. Raises OffsetsGone where the range begins below what is there."""
        with self._lock:
            there = self._find(shard)
            if offsets.start < there.earliest:
                raise OffsetsGone(f"{shard.stream}/{shard.shard} begins at {there.earliest}")
            end = min(offsets.end, there.stable_end)
            found = [each for each in there.records if offsets.start <= each.offset < end]
        return iter(found)

    def read_plain(self, shard: StreamShard, offsets: OffsetRange) -> Iterator[Record]:
        """See Source."""
        return RecordedSource.read_again(self, shard, offsets)

    def show_offsets(self, group: str, offsets: Mapping[StreamShard, int]) -> None:
        """See Source."""
        with self._lock:
            self.shown[group] = dict(offsets)

    def close(self) -> None:
        """See Source."""

    def _find(self, shard: StreamShard) -> _Shard:
        stream = self._streams.get(shard.stream)
        if stream is None or shard.shard not in stream.shards:
            raise StreamMissing(f"stream {shard.stream} has no shard {shard.shard}")
        return stream.shards[shard.shard]
