"""Which offsets of topics a query reads that runs once.

What it is: `plan_sample`, from what topics hold and what was asked to a range for each partition.
What it promises: pure. Of the newest offsets, partitions give equal parts as far as they have them.
What was asked for and is not there is refused: a range that ends early would look like an answer.
"""

from collections import defaultdict
from collections.abc import Mapping

from ashore.errors import QueryRefused
from ashore.jobs.requests import OffsetsOfTopic, SqlRequest
from ashore.log.plan_batch import ShardOffsets
from ashore.log.positions import OffsetRange, StreamShard

Sample = dict[str, dict[str, OffsetRange]]  # topic, partition


def plan_sample(there: Mapping[StreamShard, ShardOffsets], request: SqlRequest) -> Sample:
    """Return what is read of each topic partition.

    Arguments:
        there: the topic partitions that the query may read, and what they hold.
        request: what was asked.

    Raises QueryRefused where offsets were asked for that are not there, or of a topic that is not
    read.

    """
    by_topic: dict[str, dict[str, ShardOffsets]] = defaultdict(dict)
    for shard, offsets in there.items():
        by_topic[shard.stream][shard.shard] = offsets
    for each in request.offsets:
        _check_topic(each, by_topic)
    named = {each.topic for each in request.offsets}
    sample: Sample = {
        topic: _newest(shards, request.last)
        for topic, shards in by_topic.items()
        if topic not in named
    }
    for topic in named:
        nothing = {
            shard: OffsetRange(offsets.end, offsets.end)
            for shard, offsets in by_topic[topic].items()
        }
        sample[topic] = nothing
    for each in request.offsets:
        for partition, offsets in by_topic[each.topic].items():
            if each.partition is None or each.partition == int(partition):
                sample[each.topic][partition] = _choose_range(each, partition, offsets)
    return sample


def _newest(shards: Mapping[str, ShardOffsets], count: int) -> dict[str, OffsetRange]:
    """Return the newest offsets of a topic. Small partitions give all they have, first."""
    left, found = count, dict[str, OffsetRange]()
    by_size = sorted(shards.items(), key=lambda each: (each[1].end - each[1].earliest, each[0]))
    for place, (shard, offsets) in enumerate(by_size):
        part = -(-left // (len(by_size) - place))
        start = max(offsets.earliest, offsets.end - part)
        found[shard] = OffsetRange(start, offsets.end)
        left -= offsets.end - start
    return found


def _check_topic(request: OffsetsOfTopic, by_topic: Mapping[str, Mapping[str, object]]) -> None:
    if request.topic not in by_topic:
        raise QueryRefused(
            f"the query does not read topic {request.topic}",
            hint=f"name one of {', '.join(sorted(by_topic))}" if by_topic else "leave it out",
        )
    shards = by_topic[request.topic]
    if request.partition is not None and str(request.partition) not in shards:
        raise QueryRefused(
            f"topic {request.topic} has no partition {request.partition}",
            hint=f"it has {len(shards)}, numbered from 0",
        )


def _choose_range(request: OffsetsOfTopic, shard: str, there: ShardOffsets) -> OffsetRange:
    end = there.end if request.end is None else request.end
    if request.partition is None:  # of each partition what it has of them
        start = min(max(request.start, there.earliest), there.end)
        return OffsetRange(start, max(min(end, there.end), start))
    if not there.earliest <= request.start <= end <= there.end:
        raise QueryRefused(
            f"{request.topic}/{shard} does not have the offsets {request.start} to {end}",
            hint=f"it has {there.earliest} to {there.end} (exclusive)",
        )
    return OffsetRange(request.start, end)
