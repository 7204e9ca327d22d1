"""Whether a position still lies on a partition's history: leader epochs.

What it is: one question to the leaders of partitions, by Python's client, which asks them for the
end of an epoch (OffsetForLeaderEpoch) before it fetches from a position that names one.
What it promises: never waits longer than the cluster's timeout, and never takes silence for a yes.
What it must not know: what the log says.
"""

from collections.abc import Mapping

from confluent_kafka import Consumer, Message, TopicPartition

from ashore.sources.base import Position, StreamShard
from ashore.sources.client import Cluster
from ashore.sources.failures import OFFSET_OUT_OF_RANGE, Complaints
from ashore.sources.polling import READING, next_answer

SETTINGS = {
    **READING,
    "group.id": "ashore-histories",  # the client wants one; nothing is committed
    # A first record, or the end, is answer enough: what comes with it is dropped.
    "queued.min.messages": "1",
    "fetch.message.max.bytes": "1000",
}


def find_refused(
    cluster: Cluster, positions: Mapping[StreamShard, Position]
) -> dict[StreamShard, str]:
    """Return the partitions that refuse a position, with the reason.

    A position beyond the end, or below the first offset, is refused as well. Raises SourceError.
    """
    if not positions:
        return {}
    complaints = Complaints()
    consumer = cluster.open_client(complaints, SETTINGS)
    try:
        consumer.assign(
            [
                TopicPartition(each.stream, int(each.shard), at.offset, "", at.leader_epoch)
                for each, at in positions.items()
            ]
        )
        return _handle(cluster, consumer, set(positions), complaints)
    finally:
        consumer.close()


def _handle(
    cluster: Cluster, consumer: Consumer, silent: set[StreamShard], complaints: Complaints
) -> dict[StreamShard, str]:
    """Return what is refused, once each of `silent` has answered."""
    refused: dict[StreamShard, str] = {}
    deadline_s = cluster.clock.monotonic_s() + cluster.timeout_s
    while silent:
        message = next_answer(cluster, consumer, complaints, deadline_s)
        shard, error = _shard_of(message), message.error()
        if shard is None:
            continue
        silent.discard(shard)
        if error is not None and error.code() == OFFSET_OUT_OF_RANGE:
            refused[shard] = error.str()
    return refused


def _shard_of(message: Message) -> StreamShard | None:
    topic, partition = message.topic(), message.partition()
    return None if topic is None or partition is None else StreamShard(topic, str(partition))
