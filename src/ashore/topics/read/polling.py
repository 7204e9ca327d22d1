"""How Python's client is polled, by all who read with it.

What it is: `next_answer`.
What it promises: a failure that passes is waited out until a deadline; any other is reported as
what it is. The end of a partition, and a position that it does not have, are answers.
"""

from confluent_kafka import Consumer, KafkaError, Message

from ashore.topics.read.client import Cluster
from ashore.topics.read.failures import (
    HARMLESS,
    OFFSET_OUT_OF_RANGE,
    PARTITION_END,
    TIMED_OUT,
    Complaints,
    explain,
)

POLL_S = 0.5


def next_answer(
    cluster: Cluster, consumer: Consumer, complaints: Complaints, deadline_s: float
) -> Message:
    """Return a record, or what says that a partition ends here or is out of range.

    Raises SourceError where none has come by `deadline_s` of the cluster's clock.
    """
    while True:
        message = consumer.poll(POLL_S)
        error = KafkaError(TIMED_OUT) if message is None else message.error()
        is_answer = error is None or error.code() in (PARTITION_END, OFFSET_OUT_OF_RANGE)
        if message is not None and is_answer:
            return message
        is_harmless = message is None or (error is not None and error.code() in HARMLESS)
        if not is_harmless or cluster.clock.monotonic_s() >= deadline_s:
            raise explain(error, complaints, cluster.bootstrap_servers, cluster.timeout_s)
