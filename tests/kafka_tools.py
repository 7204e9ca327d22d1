"""Topics, records and transactions on a real broker, for tests and demonstrations.

Every call waits until the broker has done it and raises if it does not within WAIT_S. Requests and
deliveries are confirmed; a topic is there (or gone) for everybody when its call returns.
"""

import itertools
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic, OffsetSpec

WAIT_S = 30.0
TRY_S = 5.0  # of one request: what asks too early is asked again


def create_topic(
    bootstrap: str, name: str, partitions: int = 1, config: Mapping[str, str] | None = None
) -> None:
    """Create a topic and wait until all its partitions have a leader.

    A name that was just deleted is waited for: the broker lets go of it after a moment.
    """
    admin = _admin(bootstrap)
    deadline_s = time.monotonic() + WAIT_S
    while True:
        try:
            admin.create_topics([NewTopic(name, partitions, 1, config=dict(config or {}))])[
                name
            ].result(WAIT_S)
            break
        except KafkaException as error:
            being_deleted = error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS and (
                name not in admin.list_topics(timeout=WAIT_S).topics
            )
            if not being_deleted or time.monotonic() > deadline_s:
                raise
            time.sleep(0.05)
    wait_for_partitions(admin, name, partitions)


def delete_topic(bootstrap: str, name: str) -> None:
    """Delete a topic and wait until the broker does not list it any more."""
    admin = _admin(bootstrap)
    admin.delete_topics([name])[name].result(WAIT_S)
    wait_until(
        lambda: name not in admin.list_topics(timeout=WAIT_S).topics, f"{name} is still there"
    )


def add_partitions(bootstrap: str, name: str, total: int) -> None:
    """Give a topic `total` partitions and wait until the new ones have a leader."""
    admin = _admin(bootstrap)
    admin.create_partitions([NewPartitions(name, total)])[name].result(WAIT_S)
    wait_for_partitions(admin, name, total)


def delete_records(bootstrap: str, name: str, partition: int, before: int) -> None:
    """Drop the records below offset `before`, as retention does."""
    where = TopicPartition(name, partition, before)
    admin = _admin(bootstrap)
    admin.delete_records([where])[where].result(WAIT_S)


def produce(
    bootstrap: str,
    topic: str,
    values: Iterable[bytes | None],
    *,
    partition: int | None = None,
    keys: Iterable[bytes | None] | None = None,
    timestamp_ms: int | None = None,
) -> int:
    """Produce `values` in order, wait until all are delivered, return how many.

    Without `partition` records go round-robin over all partitions.
    """
    with Sender(bootstrap, topic) as sender:
        return sender.send(values, partition=partition, keys=keys, timestamp_ms=timestamp_ms)


def consume(bootstrap: str, topic: str, partition: int, count: int) -> list[Message]:
    """Return the first `count` committed records of a partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "kafka-tools",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    found: list[Message] = []
    try:
        consumer.assign([TopicPartition(topic, partition, 0)])
        deadline_s = time.monotonic() + WAIT_S
        while len(found) < count:
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"{len(found)} of {count} records of {topic}/{partition}")
            found += consumer.consume(count - len(found), timeout=0.2)
    finally:
        consumer.close()
    for message in found:
        if message.error():
            raise KafkaException(message.error())
    return found


class Sender:
    """A producer for one topic that confirms every delivery. Cheap to keep for many sends."""

    def __init__(self, bootstrap: str, topic: str, **settings: str | float) -> None:
        self.topic = topic
        self.producer = Producer(
            {"bootstrap.servers": bootstrap, "linger.ms": 5, "log_level": 3, **settings}
        )
        self.partitions = len(self.producer.list_topics(topic, WAIT_S).topics[topic].partitions)
        self._turn = itertools.count()
        self._failed: list[KafkaError] = []

    def send(
        self,
        values: Iterable[bytes | None],
        *,
        partition: int | None = None,
        keys: Iterable[bytes | None] | None = None,
        timestamp_ms: int | None = None,
    ) -> int:
        """Produce `values` in order, wait until all are delivered, return how many."""
        count = 0
        for value, key in zip(values, itertools.repeat(None) if keys is None else keys):  # noqa: B905
            self._produce(value, key, partition, timestamp_ms or 0)
            count += 1
        left = self.producer.flush(WAIT_S)
        if left or self._failed:
            raise TimeoutError(f"{left} records of {self.topic} not delivered: {self._failed[:1]}")
        return count

    def _produce(
        self, value: bytes | None, key: bytes | None, partition: int | None, timestamp_ms: int
    ) -> None:
        if partition is None:
            partition = next(self._turn) % self.partitions
        while True:
            try:
                self.producer.produce(
                    self.topic,
                    value,
                    key,
                    partition,
                    on_delivery=self._delivered,
                    timestamp=timestamp_ms,
                )
            except BufferError:  # the client's queue is full: let it empty
                self.producer.poll(0.1)
            else:
                self.producer.poll(0)
                return

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            self._failed.append(error)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.producer.flush(WAIT_S)


class Transaction(Sender):
    """One open transaction: `send`, then `commit` or `abort`. Leaving the block aborts it.

    Holding it open keeps the last stable offset of the partitions it wrote to where it began.
    """

    def __init__(self, bootstrap: str, topic: str, transactional_id: str) -> None:
        self.settings: dict[str, str | float] = {
            "transactional.id": transactional_id,
            "transaction.timeout.ms": 600_000,
        }
        super().__init__(bootstrap, topic, **self.settings)
        self.bootstrap = bootstrap
        self.is_open = True
        self.producer.init_transactions(WAIT_S)
        self.producer.begin_transaction()

    def commit(self) -> None:
        """Commit: a marker is written behind the records, in each partition."""
        self.producer.commit_transaction(WAIT_S)
        self._wait_for_markers()

    def abort(self) -> None:
        """Abort: the records stay in the log, and readers of committed records skip them."""
        self.producer.abort_transaction(WAIT_S)
        self._wait_for_markers()

    def _wait_for_markers(self) -> None:
        # The broker answers once the outcome is decided and writes the markers afterwards. A next
        # producer of the same id has to wait until they are there: that is what makes this certain.
        self.is_open = False
        Sender(self.bootstrap, self.topic, **self.settings).producer.init_transactions(WAIT_S)

    def __exit__(self, *_: object) -> None:
        if self.is_open:
            self.abort()


def _admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 3})


def wait_for_partitions(admin: AdminClient, name: str, count: int) -> None:
    """Wait until every partition answers: its leader learns of it after the controller does."""
    shards = {TopicPartition(name, each): OffsetSpec.latest() for each in range(count)}

    def ready() -> bool:
        answers = admin.list_offsets(shards, request_timeout=TRY_S).values()
        return all(each.exception(WAIT_S) is None for each in answers)

    wait_until(ready, f"{name} has not {count} partitions with leaders")


def wait_until(ready: Callable[[], bool], complaint: str) -> None:
    deadline_s = time.monotonic() + WAIT_S
    while not ready():
        if time.monotonic() > deadline_s:
            raise TimeoutError(complaint)
        time.sleep(0.05)
