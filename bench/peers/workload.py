"""What is landed: shapes of records, and topics full of them.

What it is: two shapes of JSON records with columns for each peer, made from a fixed seed.
What it promises: the same call makes the same bytes; values vary as in real events (identifiers,
names, few countries, free text), so that they compress neither well nor badly.
What it must not know: who reads.
"""

import json
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from confluent_kafka import KafkaError, Message, Producer

from ashore.sources.producer import create_topics

PARTITIONS = 8
RUN_RECORDS = 2_000  # so many go to one partition before the next one has its turn
SEED = 20_261_121
COUNTRIES = ("AT", "BR", "CH", "CN", "DE", "ES", "FR", "GB", "IN", "IT", "JP", "NL", "PL", "US")
WORDS = (
    *("harbour", "tide", "wave", "anchor", "sail", "wind", "coast", "light", "rope", "deck"),
    *("cargo", "pilot", "storm", "current", "channel", "island", "reef", "crew", "watch"),
    *("signal", "berth", "buoy", "chart", "course", "depth"),
)
FIRST_TS_MS = 1_795_000_000_000


@dataclass(frozen=True, slots=True)
class Shape:
    """One kind of record, and how many of them are landed."""

    name: str
    columns: tuple[tuple[str, str], ...]  # name and SQL type, which Spark and Flink spell alike
    records: int
    make: Callable[[random.Random, int, int], bytes]  # a generator, id, time in ms

    @property
    def ddl(self) -> str:
        """Return the columns as Spark and Flink read them."""
        return ", ".join(f"`{name}` {kind}" for name, kind in self.columns)


def _phrases(words: int) -> list[str]:
    choose = random.Random(SEED)
    return [" ".join(choose.choices(WORDS, k=words)) for _ in range(8_192)]


PAIR, SHORT, LONG = _phrases(2), _phrases(3), _phrases(25)


def _make_small(choose: random.Random, number: int, ts_ms: int) -> bytes:
    part = choose.getrandbits(50)
    return (
        f'{{"id":{number},"user":"user-{part % 199_999:06d}","ts":{ts_ms},'
        f'"country":"{COUNTRIES[part % 14]}","amount":{part % 999_983 / 100},'
        f'"text":"{PAIR[part & 8191]} {SHORT[part >> 20 & 8191]}"}}'
    ).encode()


STRINGS = ("session", "device", "browser", "referrer", "path", "campaign", "city", "currency")
INTEGERS = ("shop", "product", "quantity", "width", "height", "duration_ms")
DOUBLES = ("price", "latitude", "longitude", "score")


def _make_large(choose: random.Random, number: int, ts_ms: int) -> bytes:
    part, other = choose.getrandbits(50), choose.getrandbits(50)
    return (
        f'{{"id":{number},"user":"user-{part % 199_999:06d}","ts":{ts_ms},'
        f'"country":"{COUNTRIES[part % 14]}","amount":{part % 999_983 / 100},'
        f'"is_new":{"true" if part & 1 else "false"},"is_mobile":{"true" if part & 6 else "false"},'
        f'"session":"{part:016x}{other:016x}","device":"device-{other % 9973:04d}",'
        f'"browser":"browser/{other % 37}.0 (platform {part % 11})",'
        f'"referrer":"https://example.org/{SHORT[other & 8191].replace(" ", "/")}",'
        f'"path":"/catalogue/{part % 211}/{PAIR[part & 8191].replace(" ", "-")}/{other % 99_991}",'
        f'"campaign":"campaign-{other % 53}","city":"city of {WORDS[other % 25]}",'
        f'"currency":"{"EUR" if part & 3 else "USD"}",'
        f'"shop":{part % 997},"product":{other % 100_003},"quantity":{part % 9},'
        f'"width":{320 + part % 2000},"height":{240 + other % 1500},"duration_ms":{other % 60_000},'
        f'"price":{other % 99_991 / 100},"latitude":{part % 180_000_000 / 1e6 - 90:.6f},'
        f'"longitude":{other % 360_000_000 / 1e6 - 180:.6f},"score":{part % 10_007 / 10_007},'
        f'"text":"{LONG[part & 8191]} {LONG[other & 8191]} {LONG[(part ^ other) & 8191]}'
        f' {PAIR[part & 8191]}"}}'
    ).encode()


COMMON = (
    ("id", "BIGINT"),
    ("user", "STRING"),
    ("ts", "BIGINT"),
    ("country", "STRING"),
    ("amount", "DOUBLE"),
)
SMALL = Shape("small", (*COMMON, ("text", "STRING")), 4_000_000, _make_small)
LARGE = Shape(
    "large",
    (
        *COMMON,
        ("is_new", "BOOLEAN"),
        ("is_mobile", "BOOLEAN"),
        *((name, "STRING") for name in STRINGS),
        *((name, "BIGINT") for name in INTEGERS),
        *((name, "DOUBLE") for name in DOUBLES),
        ("text", "STRING"),
    ),
    500_000,
    _make_large,
)
SHAPES = {shape.name: shape for shape in (SMALL, LARGE)}


def make_records(shape: Shape, count: int, seed: int = SEED) -> Iterator[bytes]:
    """Yield `count` records of a shape, the same ones each time."""
    choose = random.Random(seed)
    for number in range(count):
        yield shape.make(choose, number, FIRST_TS_MS + number // 10)


class Sender:
    """A producer that confirms every delivery: librdkafka, lz4, large batches."""

    def __init__(self, servers: str, linger_ms: int) -> None:
        self._client = Producer(
            {
                "bootstrap.servers": servers,
                "compression.type": "lz4",
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
    create_topics(servers, {topic: PARTITIONS})
    sender, size, turn = Sender(servers, 50), 0, 0
    run: list[bytes] = []
    for value in make_records(shape, count):
        run.append(value)
        size += len(value)
        if len(run) == RUN_RECORDS:
            sender.send(topic, turn % PARTITIONS, run)
            run, turn = [], turn + 1
    sender.send(topic, turn % PARTITIONS, run)
    sender.finish()
    return size


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
