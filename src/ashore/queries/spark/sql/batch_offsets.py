"""Offsets of a batch: from a checkpoint to the ranges of a landing log, and back.

What it is: `plan_ranges`, what a batch reads as its log knows it; `write_offsets`, the offsets of a
batch that the log knows and Spark has forgotten, written for Spark as it would have written them.
What it promises: a topic that a query reads twice (joined with itself) has a range for each
reading: they may end at different offsets. Keys are the query's own: no other slice has them. A
batch that runs again reads what it read then, at the time that it had, and forgets by the watermark
that it had, so that the state is what it was; its rows are in the table. Nothing in the checkpoint
is changed or removed, only added.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

from ashore.errors import CheckpointUnfit
from ashore.log.fold import Fold
from ashore.log.names import SliceName, query_source
from ashore.log.positions import OffsetRange, ShardKey, ShardRange
from ashore.log.query_history import LandedBatch
from ashore.queries.state.checkpoint import Checkpoint
from ashore.queries.state.layout import (
    Ends,
    KafkaEnd,
    OffsetsFile,
    Settings,
    SourceEnd,
    write_kafka,
)

_HINT = "restore a newer checkpoint"


def plan_ranges(name: SliceName, fold: Fold, before: Ends, after: Ends) -> tuple[ShardRange, ...]:
    """Return what a batch reads.

    `fold`: of its log, which has where first reads begin. `before`: empty for the first batch.
    Raises CheckpointUnfit where offsets go back.
    """
    return tuple(
        ShardRange(key, _range(key, start, end))
        for key, start, end in _walk(name, fold, before, after)
        if start != end
    )


def _walk(
    name: SliceName, fold: Fold, before: Ends, after: Ends
) -> Iterator[tuple[ShardKey, int, int]]:
    readings, generations = Counter[str](), fold.generations()
    for source, topics in after.items():
        for topic, shards in topics.items():
            readings[topic] += 1
            known = generations.get((query_source(name), topic))
            generation = known[0] if known else 1
            for shard, end in shards.items():
                key = ShardKey(query_source(name, readings[topic]), topic, generation, shard)
                start = before.get(source, {}).get(topic, {}).get(shard)
                if start is None:
                    first = fold.shards.get(ShardKey(query_source(name), topic, generation, shard))
                    start = first.first if first else 0
                yield key, start, end


def _range(key: ShardKey, start: int, end: int) -> OffsetRange:
    if end < start:
        raise CheckpointUnfit(
            f"the range of {key} is negative, from {start} to {end}",
            hint="nothing was read; was the topic created again, or another checkpoint restored?",
        )
    return OffsetRange(start, end)


# ---- a checkpoint that is older than its table


def write_offsets(checkpoint: Checkpoint, name: SliceName, batch: LandedBatch) -> None:
    """Plan a batch in a checkpoint whose last batch is the one before, and done.

    Raises CheckpointUnfit, StorageError. If interrupted: the batch is planned, or it is not.
    """
    number = batch.query.batch_id
    before = number - 1
    try:
        settings, ends = _read(checkpoint, before)
    except CheckpointUnfit as error:
        text = f"batch {number} cannot follow batch {before} of {checkpoint.uri}: {error.message}"
        raise CheckpointUnfit(text, hint=_HINT) from None
    # Logs of earlier releases do not say by which watermark a batch forgot, nor when Spark planned
    # it: what was too far ahead then may be believed a moment later.
    logged = max((ms for _, ms in batch.body.time.watermarks), default=settings.watermark_ms)
    planned_ms = batch.query.planned_ms or batch.body.time.now_ms
    settings = replace(settings, timestamp_ms=planned_ms, watermark_ms=logged)
    after = [write_kafka(end) for end in _advance(ends, name, batch)]
    sources = tuple(SourceEnd(str(index), end) for index, end in enumerate(after))
    checkpoint.plan(number, OffsetsFile(settings, sources))


def _read(checkpoint: Checkpoint, batch_id: int) -> tuple[Settings, list[KafkaEnd]]:
    """Return what a finished batch leaves to the next one: settings, and where sources end."""
    offsets, commit = checkpoint.read_offsets(batch_id), checkpoint.read_commit(batch_id)
    ends = offsets.kafka_ends(f"offsets of batch {batch_id}")
    if len(ends) < len(offsets.sources):
        raise CheckpointUnfit("a source has no offsets")
    if offsets.settings is None or commit.watermark_ms is None:
        raise CheckpointUnfit("it has no settings or no watermark")
    settings = replace(offsets.settings, watermark_ms=commit.watermark_ms)
    return settings, [ends[index] for index in range(len(ends))]


def _advance(ends: Iterable[KafkaEnd], name: SliceName, batch: LandedBatch) -> list[KafkaEnd]:
    """Return where all sources end after the batch. `ends`: before it."""
    reads = batch.body.shards
    left = {(read.key.source, read.key.stream, read.key.shard): read for read in reads}
    readings: Counter[str] = Counter()
    advanced: list[KafkaEnd] = []
    for end in ends:
        topics: dict[str, dict[str, int]] = {}
        for topic, shards in end.items():
            readings[topic] += 1
            source, after = query_source(name, readings[topic]), dict(shards)
            for place in [each for each in left if each[:2] == (source, topic)]:
                after[place[2]] = left.pop(place).offsets.end
            topics[topic] = after
        advanced.append(topics)
    if left:
        raise CheckpointUnfit(
            f"batch {batch.query.batch_id} read {next(iter(left.values())).key}, a topic that the "
            "batch before did not read",
            hint=_HINT,
        )
    return advanced
