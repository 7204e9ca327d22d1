"""What is landed: topics full of records.

What it is: records of a shape from a fixed seed, and a producer.
What it promises: the same call makes the same bytes.
What it must not know: who reads.
"""

import json
import random
import time
from collections.abc import Iterator, Sequence

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    Message,
    Producer,
    TopicPartition,
)

from ashore_lab.services.producer import create_topics
from bench.peers.shapes import LARGE, SEED, SHAPES, SMALL, Shape

__all__ = ["LARGE", "SHAPES", "SMALL", "Sender", "Shape", "fill_topic", "make_records"]

PARTITIONS = 8
RUN_RECORDS = 2_000  # so many go to one partition before the next one has its turn
FIRST_TS_MS = 1_795_000_000_000


def make_records(shape: Shape, count: int, seed: int = SEED) -> Iterator[bytes]:
    """Yield `count` records of a shape, the same ones each time."""
    choose = random.Random(seed)
    for number in range(count):
        yield shape.make(choose, number, FIRST_TS_MS + number // 10)


class Sender:
    """A producer that confirms every delivery: librdkafka, large batches."""

    def __init__(self, servers: str, linger_ms: int, compression: str = "lz4") -> None:
        self._client = Producer(
            {
                "bootstrap.servers": servers,
                "compression.type": compression,
                "linger.ms": linger_ms,
                "batch.size": 1_000_000,
                "queue.buffering.max.messages": 500_000,
                "log_level": 3,
            }
        )
        self._failed: list[str] = []

    def send(self, topic: str, partition: int, values: Sequence[bytes]) -> None:
        """Queue values for one partition."""
        for value in values:
            while True:
                try:
                    self._client.produce(
                        topic, value, partition=partition, on_delivery=self._delivered
                    )
                except BufferError:
                    self._client.poll(0.05)
                else:
                    break
        self._client.poll(0)

    def finish(self) -> None:
        """Wait until all is delivered. Raises RuntimeError if something is not."""
        left = self._client.flush(120)
        if left or self._failed:
            raise RuntimeError(f"{left} records were not delivered: {self._failed[:1]}")

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            self._failed.append(str(error))


def fill_topic(servers: str, topic: str, shape: Shape, count: int) -> int:
    """Create a topic with `count` records, spread evenly. Return the bytes of their values."""
    create_topics(servers, {topic: shape.partitions})
    sender, size, turn = Sender(servers, 50, shape.compression), 0, 0
    run: list[bytes] = []
    for value in make_records(shape, count):
        run.append(value)
        size += len(value)
        if len(run) == RUN_RECORDS:
            sender.send(topic, turn % shape.partitions, run)
            run, turn = [], turn + 1
    sender.send(topic, turn % shape.partitions, run)
    sender.finish()
    return size


def read_repeatedly(servers: str, topic: str, partitions: int, seconds: float) -> None:
    """Read a topic from its beginning, again and again, for so long.

    A broker that has just started compiles what answers fetches while it answers them. What that
    costs is no peer's, and would be counted against the first ones.
    """
    settings = {"bootstrap.servers": servers, "group.id": "reads", "enable.auto.commit": False}
    consumer = Consumer(settings)
    beginning = [TopicPartition(topic, each, OFFSET_BEGINNING) for each in range(partitions)]
    consumer.assign(beginning)
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s:
        if not consumer.consume(10_000, timeout=0.5):
            consumer.assign(beginning)
    consumer.close()


def produce_steadily(servers: str, topic: str, rate: int, seconds: float) -> int:
    """Produce small records whose `ts` is the clock, a few each 10 ms. Return how many."""
    sender, choose, number = Sender(servers, 0), random.Random(SEED), 0
    began = time.monotonic()
    while (passed := time.monotonic() - began) < seconds:
        due = int(passed * rate) - number
        now_ms = time.time_ns() // 1_000_000
        sender.send(
            topic,
            (number // 20) % PARTITIONS,
            [SMALL.make(choose, number + each, now_ms) for each in range(due)],
        )
        number += due
        time.sleep(0.01)
    sender.finish()
    return number


def main() -> None:
    """Show the shapes: sizes, fields, one record."""
    for shape in SHAPES.values():
        records = list(make_records(shape, 20_000))
        fields = json.loads(records[0])
        mean = sum(map(len, records)) / len(records)
        print(f"{shape.name}: {mean:.1f} bytes, {len(fields)} fields: {records[0].decode()}")


if __name__ == "__main__":
    main()
