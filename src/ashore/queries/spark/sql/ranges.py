"""From a batch's offsets in a checkpoint to ranges, as a landing log knows them.

What it promises: pure. A topic that a query reads twice (joined with itself) has a range for each
reading: they may end at different offsets. Keys are the query's own: no other slice has them.
"""

from collections import Counter
from collections.abc import Iterator

from ashore.errors import CheckpointUnfit
from ashore.log.fold import Fold
from ashore.log.names import SliceName, query_source
from ashore.log.positions import OffsetRange, ShardKey, ShardRange
from ashore.queries.state.layout import Ends


def plan_ranges(name: SliceName, fold: Fold, before: Ends, after: Ends) -> tuple[ShardRange, ...]:
    """Return what a batch reads.

    Arguments:
        name: of the query's slice.
        fold: of its log: where first reads begin.
        before: ends of the batch before; empty for the first.
        after: ends of the batch.

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
