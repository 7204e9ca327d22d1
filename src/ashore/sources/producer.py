"""Writing to Kafka, for the demo and for drills. No job ever does.

What it promises: `send` rides out a full queue; leaving the context delivers everything or raises.
What it must not know: what the records mean.
"""

from collections.abc import Mapping
from typing import Self

from confluent_kafka import KafkaError, Message
from confluent_kafka import Producer as Client
from confluent_kafka.admin import AdminClient, NewTopic

from ashore.errors import SourceError


def create_topics(bootstrap_servers: str, partitions: Mapping[str, int]) -> None:
    """Create topics with so many partitions each, one replica. Raises SourceError."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    topics = [NewTopic(name, count, 1) for name, count in partitions.items()]
    for name, future in admin.create_topics(topics, request_timeout=30).items():
        try:
            future.result()
        except Exception as error:
            raise SourceError(f"topic {name} cannot be created: {error}") from error


class Producer:
    """An idempotent producer. A context manager."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._client = Client(
            {
                "bootstrap.servers": bootstrap_servers,
                "enable.idempotence": True,
                "compression.type": "lz4",
                "log_level": 0,  # what fails is told by the delivery report
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
