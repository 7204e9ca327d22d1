# ruff: noqa: INP001 - a folder of files, not a package
"""Nexmark's events, made up: persons who open auctions, and bids.

What it is: the benchmark's auction house as JSON records, one person and three auctions to 46 bids.
What it promises: the same seed gives the same events; event time goes on evenly, and no event is
later than `LATE_MS` behind one before it.
What it must not know: Kafka, but for `main`, which sends the events to it.
"""

import argparse
import json
import random
import string
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

FIRST_ID = 1000
FIRST_TIME = datetime(2026, 11, 21, tzinfo=UTC)
LATE_MS = 2_000
CATEGORIES = range(10, 15)
STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
CITIES = ("Phoenix", "Los Angeles", "Boise", "Portland", "Seattle", "Cheyenne")
NAMES = ("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter")
CHANNELS = ("apple", "google", "facebook", "baidu")
EVENTS = ("person", "auction", "bid")
# What the job of updates.yaml writes.
UPDATES = [f"nexmark.q{number}" for number in (9, 12, 15, 16, 17, 18, 19)]

Record = dict[str, int | str]


class Event(NamedTuple):
    """A record and the topic that it is for."""

    topic: str
    record: Record


class House:
    """The auction house, as far as events of the past matter for those to come."""

    def __init__(self, seed: int, step_ms: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 - repeatable on purpose
        self._step_ms = step_ms
        self._persons = self._auctions = 0

    def event(self, number: int) -> Event:
        """Return the next event; `number` counts from 0."""
        time_ms = number * self._step_ms - self._random.randrange(LATE_MS)
        place = number % 50
        if place == 0:
            return Event("person", self._person(time_ms))
        if place <= 3:
            return Event("auction", self._auction(time_ms))
        return Event("bid", self._bid(time_ms))

    def _person(self, time_ms: int) -> Record:
        self._persons += 1
        name = self._random.choice(NAMES)
        return {
            "id": FIRST_ID + self._persons - 1,
            "name": f"{name} {self._letters(6)}",
            "email": f"{name.lower()}@{self._letters(5)}.com",
            "credit_card": " ".join(f"{self._random.randrange(10_000):04}" for _ in range(4)),
            "city": self._random.choice(CITIES),
            "state": self._random.choice(STATES),
            "date_time": _written(time_ms),
            "extra": self._letters(20),
        }

    def _auction(self, time_ms: int) -> Record:
        self._auctions += 1
        first = self._random.randrange(1, 10_000)
        return {
            "id": FIRST_ID + self._auctions - 1,
            "item_name": self._letters(10),
            "description": self._letters(30),
            "initial_bid": first,
            "reserve": first + self._random.randrange(10_000),
            "date_time": _written(time_ms),
            "expires": _written(time_ms + self._random.randrange(10_000, 60_000)),
            "seller": self._one_of(self._persons),
            "category": self._random.choice(CATEGORIES),
            "extra": self._letters(20),
        }

    def _bid(self, time_ms: int) -> Record:
        channel = self._random.choice((*CHANNELS, f"channel-{self._random.randrange(100)}"))
        path = "/".join(self._letters(4) for _ in range(3))
        known = f"&channel_id={self._random.randrange(1_000)}" if "-" in channel else ""
        return {
            "auction": self._one_of(self._auctions),
            "bidder": self._one_of(self._persons),
            "price": int(10 ** self._random.uniform(2, 7)),
            "channel": channel,
            "url": f"https://www.nexmark.com/{path}/item.htm?query=1{known}",
            "date_time": _written(time_ms),
            "extra": self._letters(20),
        }

    def _one_of(self, count: int) -> int:
        """Return an id, half of the time one of the newest: some are hot."""
        newest = max(0, count - 3) if self._random.random() < 0.5 else 0
        return FIRST_ID + self._random.randrange(newest, max(1, count))

    def _letters(self, length: int) -> str:
        return "".join(self._random.choices(string.ascii_lowercase, k=length))


def _written(time_ms: int) -> str:
    """Return a time of the house's clock as records have it."""
    return (FIRST_TIME + timedelta(milliseconds=time_ms)).isoformat(timespec="milliseconds")


def generate(count: int, seed: int = 7, step_ms: int = 100) -> Iterator[Event]:
    """Yield `count` events, `step_ms` of event time apart."""
    house = House(seed, step_ms)
    for number in range(count):
        yield house.event(number)


def create_topics(bootstrap_servers: str) -> None:
    """Create the topics of events, and compacted ones for updates, unless they are there."""
    from confluent_kafka import KafkaError, KafkaException  # noqa: PLC0415
    from confluent_kafka.admin import AdminClient, NewTopic  # noqa: PLC0415

    compacted = {"cleanup.policy": "compact"}
    wanted = [NewTopic(each, 1, 1, config=compacted) for each in UPDATES]
    wanted += [NewTopic(each, 2, 1) for each in EVENTS]
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    for made in admin.create_topics(wanted).values():
        try:
            made.result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise


def main() -> None:
    """Send events to the topics `person`, `auction` and `bid`; create all topics first."""
    from confluent_kafka import Producer  # noqa: PLC0415 - `generate` needs no client

    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("bootstrap_servers")
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--step-ms", type=int, default=10)
    options = parser.parse_args()
    create_topics(options.bootstrap_servers)
    producer = Producer({"bootstrap.servers": options.bootstrap_servers, "linger.ms": 20})
    for event in generate(options.events, options.seed, options.step_ms):
        while True:
            try:
                producer.produce(event.topic, json.dumps(event.record))
                break
            except BufferError:  # the client's queue is full
                producer.poll(0.1)
        producer.poll(0)
    producer.flush()


if __name__ == "__main__":
    main()
