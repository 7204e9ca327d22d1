"""How Python's client is polled, and records' headers as it has them.

What it promises: a failure that passes is waited out until a deadline; any other is reported as
what it is. The end of a partition, and a position that it does not have, are answers. Headers that
the client cannot read are reported, and leave no error behind.
"""

from operator import methodcaller

from confluent_kafka import Consumer, KafkaError, Message

from ashore.topics.read.client import Cluster
from ashore.topics.read.failures import (
    HARMLESS,
    OFFSET_OUT_OF_RANGE,
    PARTITION_END,
    TIMED_OUT,
    Complaints,
    explain_kafka_error,
)

POLL_S = 0.5

Header = tuple[str, bytes | None]
# Where a key is not UTF-8 the client returns a list, and leaves an error behind. A plain call would
# let it pass, to be raised by whatever comes next; calls from C look for it.
_ask_headers = methodcaller("headers")


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
            raise explain_kafka_error(
                error, complaints, cluster.bootstrap_servers, cluster.timeout_s
            )


def read_headers(message: Message) -> list[Header] | None:
    """Return the headers of a record; None: the client cannot read them.

    It requires keys in UTF-8, and takes each to end at its first NUL.
    """
    try:
        return list(_ask_headers(message) or [])
    except (UnicodeDecodeError, SystemError):
        return None
