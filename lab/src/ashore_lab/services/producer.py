"""Writing to Kafka and changing its topics, for the demo and for drills. No job ever does.

What it promises: `send` waits while the queue is full; leaving the context delivers
everything or raises.
"""

from collections.abc import Mapping
from typing import Self

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka import Producer as Client
from confluent_kafka.admin import AdminClient, NewTopic

from ashore.base.clock import SystemClock
from ashore.errors import SourceError

CLOCK = SystemClock()
WAIT_S = 30
BROKERS_DEFAULT = -1


def create_topics(bootstrap_servers: str, partitions: Mapping[str, int]) -> None:
    """Create topics, each with its number of partitions. Raises SourceError.

    They have as many replicas as the brokers' `default.replication.factor` says.
    """
    admin = _admin(bootstrap_servers)
    topics = [NewTopic(name, count, BROKERS_DEFAULT) for name, count in partitions.items()]
    for name, future in admin.create_topics(topics, request_timeout=WAIT_S).items():
        try:
            future.result()
        except Exception as error:
            raise SourceError(f"topic {name} cannot be created: {error}") from error


def delete_records(bootstrap_servers: str, topic: str, partition: int, below: int) -> None:
    """Let the broker forget the records below an offset, as retention does. Raises SourceError."""
    where = TopicPartition(topic, partition, below)
    admin = _admin(bootstrap_servers)
    for future in admin.delete_records([where], request_timeout=WAIT_S).values():
        try:
            future.result()
        except Exception as error:
            raise SourceError(f"{topic}/{partition} keeps its records: {error}") from error


def replace_topic(bootstrap_servers: str, topic: str, partitions: int) -> None:
    """Delete a topic and create it again, empty. Raises SourceError."""
    admin = _admin(bootstrap_servers)
    try:
        admin.delete_topics([topic], request_timeout=WAIT_S)[topic].result()
    except Exception as error:
        raise SourceError(f"topic {topic} cannot be deleted: {error}") from error
    deadline_s = CLOCK.monotonic_s() + WAIT_S
    while True:  # the broker frees the name after a moment
        try:
            create_topics(bootstrap_servers, {topic: partitions})
        except SourceError:
            if CLOCK.monotonic_s() > deadline_s:
                raise
            CLOCK.sleep(0.05)
        else:
            return


def wait_for_replicas(bootstrap_servers: str, topic: str) -> None:
    """Wait until every replica of a topic is in sync. Raises SourceError."""
    admin, deadline_s = _admin(bootstrap_servers), CLOCK.monotonic_s() + WAIT_S
    while True:
        try:
            found = admin.list_topics(topic, WAIT_S).topics[topic].partitions.values()
        except KafkaException as error:
            raise SourceError(f"topic {topic} cannot be described: {error}") from error
        if found and all(len(each.isrs) == len(each.replicas) for each in found):
            return
        if CLOCK.monotonic_s() > deadline_s:
            raise SourceError(f"replicas of {topic} are not in sync after {WAIT_S} s")
        CLOCK.sleep(0.1)


def _admin(bootstrap_servers: str) -> AdminClient:
    # The futures report failures.
    return AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})


class Producer:
    """An idempotent producer. A context manager."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._client = Client(
            {
                "bootstrap.servers": bootstrap_servers,
                "enable.idempotence": True,
                "compression.type": "lz4",
                "log_level": 0,  # the delivery report has failures
                "linger.ms": 20,
                "batch.num.messages": 20_000,
                "queue.buffering.max.messages": 200_000,
            }
        )
        self._failure: str | None = None

    def send(self, topic: str, partition: int, value: bytes) -> None:
        """Queue one record. Waits while the queue is full."""
        while True:
            try:
                self._client.produce(topic, value, partition=partition, on_delivery=self._delivered)
            except BufferError:
                self._client.poll(0.05)
            else:
                self._client.poll(0)
                return

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None and self._failure is None:
            self._failure = str(error)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        left = self._client.flush(60)
        if left or self._failure:
            raise SourceError(f"{left} records were not delivered: {self._failure or 'no answer'}")
