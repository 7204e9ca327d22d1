"""Whether a position still lies on a partition's history: leader epochs.

What it is: one question to the leaders of partitions, by Python's client, which asks them for the
end of an epoch (OffsetForLeaderEpoch) before it fetches from a position that names one.
What it promises: never waits longer than the cluster's timeout, and never takes silence for a yes.
What it must not know: what the log says.
"""

from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from ashore.sources.base import Position, StreamShard
from ashore.sources.client import Cluster
from ashore.sources.failures import (
    HARMLESS,
    OFFSET_OUT_OF_RANGE,
    PARTITION_END,
    TIMED_OUT,
    Complaints,
    tell,
)

POLL_S = 0.5
SETTINGS = {
    "group.id": "ashore-histories",  # the client wants one; nothing is committed
    "enable.auto.commit": "false",
    "auto.offset.reset": "error",
    "isolation.level": "read_committed",
    "enable.partition.eof": "true",
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
        return _hear(cluster, consumer, set(positions), complaints)
    finally:
        consumer.close()


def _hear(
    cluster: Cluster, consumer: Consumer, silent: set[StreamShard], complaints: Complaints
) -> dict[StreamShard, str]:
    """Return what is refused, once each of `silent` has answered."""
    refused: dict[StreamShard, str] = {}
    deadline_s = cluster.clock.monotonic_s() + cluster.timeout_s
    while silent:
        message = consumer.poll(POLL_S)
        error = KafkaError(TIMED_OUT) if message is None else message.error()
        shard = None if message is None else _shard_of(message)
        if shard is not None and (error is None or error.code() == PARTITION_END):
            silent.discard(shard)
        elif shard is not None and error is not None and error.code() == OFFSET_OUT_OF_RANGE:
            silent.discard(shard)
            refused[shard] = error.str()
        elif error is not None:
            is_harmless = message is None or error.code() in HARMLESS
            if not is_harmless or cluster.clock.monotonic_s() >= deadline_s:
                raise tell(error, complaints, cluster.bootstrap_servers, cluster.timeout_s)
    return refused


def _shard_of(message: Message) -> StreamShard | None:
    topic, partition = message.topic(), message.partition()
    return None if topic is None or partition is None else StreamShard(topic, str(partition))
