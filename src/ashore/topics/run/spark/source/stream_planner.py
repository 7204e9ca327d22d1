"""What a stream of the source `ashore` reads next.

What it is: `StreamPlanner`, from where a batch ended to where the next one ends, within limits, and
from two such ends to the offsets between them.
What it promises: ends are stable offsets. A topic that was created again, a partition that lost
records which were read, and offsets that Kafka no longer has are refused before anything is read;
only the last can be skipped. The same two ends give the same offsets at any time: an end says where
partitions begin where the end before it does not say so. No Spark: any Source will do.
"""

import logging
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from ashore.base.clock import Clock
from ashore.errors import HistoryTruncated, OffsetsGone, OffsetsWentBack, StreamReplaced
from ashore.log.plan_batch import ShardOffsets, divide_backlog
from ashore.log.positions import OffsetRange, ShardKey, ShardRange, StreamShard
from ashore.topics.loop.joins import EARLIEST, look_again, require_streams
from ashore.topics.read.source import Position, Source, StreamInfo
from ashore.topics.read.stream_ends import StreamEnd, TopicEnd
from ashore.topics.run.spark.source.in_step import HoldBack, ShardSpan, StepPlanner
from ashore.topics.run.spark.source.source_options import NAMED, ReadBound, SourceOptions

MeasureRecords = Callable[[Mapping[StreamShard, int]], float]  # bytes of an average record
MEASURED_FOR_S = 30.0  # then records are measured again
AFTER_TICK_MS = 200  # what has arrived by then belongs to the tick's batch
_GENERATION = 1  # a stream reads one generation of its topics

_log = logging.getLogger(__name__)


class StreamPlanner:
    """Plans one stream, as long as its query runs. Used by one thread.

    `measure`: how large records are from given offsets on; asked only where bytes are limited.
    `steps`: how partitions are read in step, if they are.
    """

    def __init__(
        self,
        source: Source,
        options: SourceOptions,
        clock: Clock,
        measure: MeasureRecords,
        steps: StepPlanner | None = None,
    ) -> None:
        self._source = source
        self._options = options
        self._clock = clock
        self._measure = measure
        self._steps = steps
        self._initial: StreamEnd | None = None
        self._target: StreamEnd | None = None  # of available-now
        self._planned: StreamEnd | None = None  # the last end; what it is made of was checked
        self._newest: StreamEnd | None = None
        self._tick = -1  # the interval of the last batch that was planned without a backlog
        self._turns: dict[ShardKey, int] = {}  # the last batch that read a partition, counted here
        self._measured: tuple[float, float] | None = None  # when, and the bytes of a record

    def plan_initial(self) -> StreamEnd:
        """Return where reading begins, the same one each time. Raises SourceError."""
        if self._initial is None:
            self._initial = self._resolve(self._options.start)
        return self._initial

    def plan_end_of_batch_read(self) -> StreamEnd:
        """Return where a reading that is no stream ends. Raises SourceError."""
        return self._resolve(self._options.end)

    def fix_target(self) -> None:
        """Plan no further than what is there now. Raises SourceError."""
        streams = self._describe()
        offsets = self._source.read_offsets(_shards_of(streams))
        self._target = _to_end(streams, {shard: each.end for shard, each in offsets.items()})

    @property
    def newest(self) -> StreamEnd | None:
        """What Kafka had when the last batch was planned; None before the first one."""
        return self._newest

    @property
    def waits_for(self) -> HoldBack | None:
        """The partition that holds others back since the last batch; None: none does."""
        return None if self._steps is None else self._steps.waits_for

    def plan_next(self, start: StreamEnd, *, limited: bool) -> StreamEnd:
        """Return where the batch ends that begins at `start`: `start` itself if nothing is new.

        `limited`: whether the limits of the options count.
        Raises HistoryTruncated, OffsetsGone, OffsetsWentBack, StreamReplaced, SourceError.
        """
        if self._has_batch(start):
            return start
        streams, offsets, begins = look_again(
            self._clock, lambda: self._look(start), lambda message: _log.warning("%s", message)
        )
        ends = {shard: self._stable_end(shard, each.end) for shard, each in offsets.items()}
        self._newest = _to_end(streams, ends)
        spans = {
            _key(shard): ShardSpan(offsets[shard].earliest, begins[shard], end)
            for shard, end in ends.items()
        }
        ranges = self._divide(spans, limited=limited)
        is_first = start == self._initial
        if not ranges and not (is_first and not self._options.start.is_repeatable):
            return start
        nexts = {**begins, **{_stream_shard(each.key): each.offsets.end for each in ranges}}
        firsts = {shard for shard in nexts if is_first or start.next_of(shard) != begins[shard]}
        self._planned = _to_end(
            streams,
            nexts,
            epochs={
                shard: epoch
                for shard in nexts
                if (epoch := self._epoch_of(shard, start, nexts, offsets)) is not None
            },
            firsts={shard: begins[shard] for shard in firsts},
        )
        return self._planned

    def list_ranges(self, start: StreamEnd, end: StreamEnd) -> tuple[ShardRange, ...]:
        """Return the offsets between two ends that Kafka still has. Raises as `plan_next`."""
        ranges = []
        begins = {
            shard: _begin_of(shard, start, end, self._options.start) for shard, _ in end.shards()
        }
        if end != self._planned:
            begins = self._check_planned(begins, end)
        for shard, stop in end.shards():
            if stop > begins[shard]:
                ranges.append(ShardRange(_key(shard), OffsetRange(begins[shard], stop)))
        return tuple(sorted(ranges))

    def _has_batch(self, start: StreamEnd) -> bool:
        """Return whether this interval has its batch; before, wait until shortly after its tick.

        Spark begins batches at multiples of the interval, and windows end there as well: the
        records that move the watermark past a window arrive just after the tick. One interval later
        they would close it one interval later. A backlog is read on at once.
        """
        interval_ms = self._options.interval_ms
        if not interval_ms or self._target is not None or self._newest is None:
            return False
        is_behind = any(offset > (start.next_of(at) or 0) for at, offset in self._newest.shards())
        if is_behind and self.waits_for is None:
            return False
        after_ms = min(AFTER_TICK_MS, interval_ms // 5)
        now_ms = self._clock.now_ms()
        wait_ms = max(0, after_ms - now_ms % interval_ms)
        self._clock.sleep(wait_ms / 1000)
        before, self._tick = self._tick, (now_ms + wait_ms) // interval_ms
        return before == self._tick

    # ---- what Kafka has

    def _describe(self) -> dict[str, StreamInfo]:
        topics: Sequence[str] = self._options.topics
        if self._options.pattern:
            pattern = re.compile(self._options.pattern)
            topics = [each for each in self._source.list_streams() if pattern.fullmatch(each)]
        streams = self._source.describe_streams(topics)
        if not self._options.pattern:
            require_streams(topics, streams)
        chosen = self._options.shards
        return {
            name: replace(info, shards=tuple(each for each in info.shards if each in chosen[name]))
            if name in chosen
            else info
            for name, info in streams.items()
        }

    def _resolve(self, at: ReadBound) -> StreamEnd:
        streams = self._describe()
        found: dict[StreamShard, int] = {}
        for shard in _shards_of(streams):
            offset = at.offsets.get(shard.stream, {}).get(shard.shard)
            if offset is None and shard.stream in at.offsets:
                found[shard] = self._source.resolve_first(shard, EARLIEST)
            elif offset is None:
                found[shard] = self._source.resolve_first(shard, at.policy)
            elif offset in NAMED.values():
                offsets = self._source.read_offsets([shard])[shard]
                found[shard] = offsets.earliest if offset == NAMED["earliest"] else offsets.end
            else:
                found[shard] = offset
        return _to_end(streams, found)

    def _look(
        self, start: StreamEnd
    ) -> tuple[dict[str, StreamInfo], dict[StreamShard, ShardOffsets], dict[StreamShard, int]]:
        """Return topics, offsets of all partitions, and where each continues."""
        streams = self._describe()
        _check_ids(start, streams)
        shards = _shards_of(streams)
        _check_shards(start, shards)
        offsets = self._source.read_offsets(shards)
        nexts = {shard: offset for shard in shards if (offset := start.next_of(shard)) is not None}
        begins = self._check_offsets(nexts, offsets)
        self._check_histories(start, begins, offsets)
        for shard in shards:
            if shard not in begins:
                is_new_partition = shard.stream in start.topics
                begins |= self._check_offsets({shard: 0}, offsets) if is_new_partition else {}
                begins.setdefault(shard, offsets[shard].earliest)
        return streams, offsets, begins

    def _check_planned(
        self, begins: Mapping[StreamShard, int], end: StreamEnd
    ) -> dict[StreamShard, int]:
        """Check a batch that an earlier run has planned; return where its partitions begin."""
        streams = self._describe()
        _check_ids(end, streams)
        there = set(_shards_of(streams))
        _check_shards(end, there)
        offsets = self._source.read_offsets(list(begins))
        for shard, each in offsets.items():
            _check_reached(shard, end.next_of(shard) or 0, each)
        return self._check_offsets(begins, offsets)

    def _check_offsets(
        self, nexts: Mapping[StreamShard, int], offsets: Mapping[StreamShard, ShardOffsets]
    ) -> dict[StreamShard, int]:
        """Return where partitions continue: later than `nexts` if lost offsets are skipped."""
        begins = {}
        for shard, offset in nexts.items():
            there = offsets[shard]
            _check_reached(shard, offset, there)
            if there.earliest > offset:
                self._report_gap(shard, OffsetRange(offset, there.earliest))
            begins[shard] = max(offset, there.earliest)
        return begins

    def _report_gap(self, shard: StreamShard, gap: OffsetRange) -> None:
        text = f"Kafka no longer has {shard.stream}/{shard.shard} {gap}"
        if not self._options.stops_at_gaps:
            _log.warning("%s: skipped", text)
            return
        raise OffsetsGone(
            text,
            hint="Kafka has deleted these records by retention; failOnDataLoss: false skips them",
            stream=shard.stream,
            shard=shard.shard,
            start=gap.start,
            end=gap.end,
        )

    def _check_histories(
        self,
        start: StreamEnd,
        begins: Mapping[StreamShard, int],
        offsets: Mapping[StreamShard, ShardOffsets],
    ) -> None:
        """Raise HistoryTruncated where another leader has not what was read before."""
        doubtful = {
            shard: Position(offset, epoch)
            for shard, offset in begins.items()
            if (epoch := self._known_epoch(start, shard, offset)) is not None
            and offset == start.next_of(shard)
            and offsets[shard].leader_epoch not in (None, epoch)
        }
        for shard, reason in sorted(self._source.find_truncated(doubtful).items()):
            raise HistoryTruncated(
                f"{shard.stream}/{shard.shard} was truncated below offset "
                f"{doubtful[shard].offset}: {reason}",
                hint="records that were read are gone: start with another checkpoint, or accept "
                "what the topic has now by the option leaderEpochs",
                stream=shard.stream,
                shard=shard.shard,
            )

    def _known_epoch(self, start: StreamEnd, shard: StreamShard, offset: int) -> int | None:
        """Return the leader epoch of what was read, or of what was accepted in its place since."""
        epoch = start.epoch_of(shard)
        accepted = self._options.epochs.get(shard, {}).get(offset)
        return epoch if epoch is None or accepted is None else max(epoch, accepted)

    # ---- how much is read

    def _stable_end(self, shard: StreamShard, end: int) -> int:
        if self._target is None:
            return end
        return min(end, self._target.next_of(shard) or 0)

    def _divide(
        self, spans: Mapping[ShardKey, ShardSpan], *, limited: bool
    ) -> tuple[ShardRange, ...]:
        backlog = {
            key: OffsetRange(each.next, each.end)
            for key, each in spans.items()
            if each.end > each.next
        }
        total = sum(each.size for each in backlog.values())
        allowed = self._allowed(backlog, total) if limited else total
        if self._steps is not None:
            return self._steps.divide(spans, allowed, is_last=self._target is not None)
        if not backlog:
            return ()
        waiting = {key: self._turns.get(key, -1) for key in backlog}
        ranges = divide_backlog(backlog, allowed, waiting)
        turn = max(self._turns.values(), default=0) + 1
        self._turns |= {each.key: turn for each in ranges}
        return ranges

    def _allowed(self, backlog: Mapping[ShardKey, OffsetRange], total: int) -> int:
        records, size_bytes = self._options.records, self._options.size_bytes
        allowed = total if records is None else min(records, total)
        if size_bytes is not None and allowed:
            allowed = min(allowed, max(1, int(size_bytes / max(1.0, self._record_bytes(backlog)))))
        return allowed

    def _record_bytes(self, backlog: Mapping[ShardKey, OffsetRange]) -> float:
        now_s = self._clock.monotonic_s()
        if self._measured is None or now_s - self._measured[0] > MEASURED_FOR_S:
            nexts = {_stream_shard(key): each.start for key, each in backlog.items()}
            self._measured = (now_s, self._measure(nexts))
        return self._measured[1]

    def _epoch_of(
        self,
        shard: StreamShard,
        start: StreamEnd,
        nexts: Mapping[StreamShard, int],
        offsets: Mapping[StreamShard, ShardOffsets],
    ) -> int | None:
        """Return the leader epoch that an end has: of the leader that reported what is read."""
        if nexts[shard] == start.next_of(shard):
            return start.epoch_of(shard)
        return offsets[shard].leader_epoch


def _shards_of(streams: Mapping[str, StreamInfo]) -> list[StreamShard]:
    return [StreamShard(name, shard) for name, info in streams.items() for shard in info.shards]


def _key(shard: StreamShard) -> ShardKey:
    return ShardKey("kafka", shard.stream, _GENERATION, shard.shard)


def _stream_shard(key: ShardKey) -> StreamShard:
    return StreamShard(key.stream, key.shard)


def _begin_of(shard: StreamShard, start: StreamEnd, end: StreamEnd, at: ReadBound) -> int:
    """Return where a partition begins that has an end. Spark's Kafka source does not say it."""
    for found in (end.first_of(shard), start.next_of(shard)):
        if found is not None:
            return found
    return max(0, at.offsets.get(shard.stream, {}).get(shard.shard, 0))


def _to_end(
    streams: Mapping[str, StreamInfo],
    nexts: Mapping[StreamShard, int],
    epochs: Mapping[StreamShard, int] | None = None,
    firsts: Mapping[StreamShard, int] | None = None,
) -> StreamEnd:
    def of(topic: str, offsets: Mapping[StreamShard, int] | None) -> dict[str, int]:
        found = (offsets or {}).items()
        return {shard.shard: offset for shard, offset in found if shard.stream == topic}

    return StreamEnd(
        {
            topic: TopicEnd(info.stream_id, of(topic, nexts), of(topic, epochs), of(topic, firsts))
            for topic, info in streams.items()
        }
    )


def _check_ids(end: StreamEnd, streams: Mapping[str, StreamInfo]) -> None:
    """Raise StreamReplaced where a topic is another than the one that was read."""
    for topic, read in end.topics.items():
        there = streams.get(topic)
        if there is None:
            raise OffsetsWentBack(
                f"topic {topic}, which was read before, does not exist",
                hint="nothing was read; a topic that is created again needs another checkpoint",
                stream=topic,
            )
        if read.topic_id and there.stream_id != read.topic_id:
            raise StreamReplaced(
                f"topic {topic} was deleted and created again: the checkpoint has "
                f"{read.topic_id}, Kafka has {there.stream_id}",
                hint="offsets of the old topic mean nothing: start with another checkpoint",
                stream=topic,
            )


def _check_shards(end: StreamEnd, there: Collection[StreamShard]) -> None:
    for shard, _ in end.shards():
        if shard not in there:
            raise OffsetsWentBack(
                f"topic {shard.stream} no longer has partition {shard.shard}",
                hint="nothing was read; check whether the topic was created again",
                stream=shard.stream,
                shard=shard.shard,
            )


def _check_reached(shard: StreamShard, offset: int, there: ShardOffsets) -> None:
    if there.end < offset:
        raise OffsetsWentBack(
            f"{shard.stream}/{shard.shard} ends at offset {there.end}, but was read up to {offset}",
            hint="nothing was read; check whether the topic was created again, or lost records",
            stream=shard.stream,
            shard=shard.shard,
        )
