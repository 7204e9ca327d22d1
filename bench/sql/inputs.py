"""Topics that the queries read: Nexmark's, and orders with their payments.

What it is: families of topics, the records of each, and two ways to produce them: all at once, with
a copy as JSON lines for DuckDB, or steadily by the machine's clock.
What it promises: the same call makes the same records, but for the clock. Records of a topic go to
its partitions in turn, so event time is even among them.
What it must not know: who reads.
"""

import importlib.util
import json
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import NamedTuple, Self

from ruamel.yaml import YAML

from ashore_lab.services.producer import create_topics
from bench.peers.shapes import COUNTRIES, SEED, SHORT
from bench.peers.workload import PARTITIONS, Sender

EXAMPLE = Path(__file__).parents[2] / "examples" / "nexmark"
FIRST_MS = 1_795_000_000_000
CHUNK = 4_000  # records between two looks at the queue of the producer
TICK_S = 0.01
TRICKLE, TRICKLE_S = 200, 300  # records a second until an engine has started, and how long
MARK = b"@TIME@"
CUSTOMERS = 100_000
ORDERS_SPAN_MS = 60_000  # of event time in a topic of orders, however many there are
BID_STEP_MS = 1.0
HOUSE_STEP_MS = 12.5  # persons and auctions are 4 of 50 events
PAYMENT_EVERY = 5  # one record of five pays an order


def load_example(name: str) -> ModuleType:
    """Return a module of the folder of Nexmark's example."""
    spec = importlib.util.spec_from_file_location(f"nexmark_{name}", EXAMPLE / f"{name}.py")
    if spec is None or spec.loader is None:
        raise ImportError(name)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Record(NamedTuple):
    """A record before its time is known: `value` has a mark where it goes."""

    view: str
    value: bytes
    time_ms: float  # since the first record

    def at(self, first_ms: float, write_time: Callable[[int], bytes]) -> bytes:
        """Return the value of a stream that begins at a moment."""
        return self.value.replace(MARK, write_time(int(first_ms + self.time_ms)))


@dataclass(frozen=True, slots=True)
class Family:
    """Topics that are produced together. `make` is called with the step in ms between records."""

    views: tuple[str, ...]
    time: str  # the column with the event time
    make: Callable[[float], Iterator[Record]]
    write_time: Callable[[int], bytes]
    step_ms: Callable[[int], float]  # by how many records there are


def _make_events(step_ms: float, views: tuple[str, ...]) -> Iterator[Record]:
    nexmark = load_example("generate")
    places = [place for place in range(50) if ("bid" in views) == (place > 3)]
    # A step is between records that are kept.
    house = nexmark.House(7, step_ms * len(places) / 50)
    number = 0
    while True:
        place = number % 50
        if place in places or place <= 3:  # bids name persons and auctions
            event = house.event(number)
            if event.topic in views:
                text = event.record["date_time"]
                value = json.dumps({**event.record, "date_time": MARK.decode()})
                value = value.replace("+00:00", "Z")
                yield Record(event.topic, value.encode(), _since_first(nexmark, str(text)))
        number += 1


def _since_first(nexmark: ModuleType, text: str) -> float:
    since = nexmark.datetime.fromisoformat(text) - nexmark.FIRST_TIME
    return float(since.total_seconds() * 1000)


def _make_orders(step_ms: float, views: tuple[str, ...]) -> Iterator[Record]:
    choose, number = random.Random(SEED), -1
    while True:
        number += 1
        part = choose.getrandbits(50)
        if len(views) > 1 and number % PAYMENT_EVERY == PAYMENT_EVERY - 1:
            paid = number - 1 - PAYMENT_EVERY * (part % 40)
            if paid >= 0:
                value = f'{{"id":{paid},"ts":{MARK.decode()},"method":"card-{part % 7}"}}'
                yield Record("payments", value.encode(), number * step_ms)
            continue
        value = (
            f'{{"id":{number},"customer":{part % CUSTOMERS},"ts":{MARK.decode()},'
            f'"country":"{COUNTRIES[part % 14]}","amount":{part >> 20 & 0xFFFF},'
            f'"text":"{SHORT[part & 8191]} {SHORT[part >> 20 & 8191]}"}}'
        )
        yield Record("orders", value.encode(), number * step_ms)


@lru_cache(100_000)
def _write_iso(time_ms: int) -> bytes:
    seconds, rest = divmod(time_ms, 1000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{rest:03}Z".encode()


def _write_number(time_ms: int) -> bytes:
    return str(time_ms).encode()


def _nexmark(views: tuple[str, ...], step_ms: float) -> Family:
    return Family(
        views, "date_time", partial(_make_events, views=views), _write_iso, lambda _count: step_ms
    )


def _orders(views: tuple[str, ...]) -> Family:
    make = partial(_make_orders, views=views)
    return Family(views, "ts", make, _write_number, lambda count: ORDERS_SPAN_MS / count)


FAMILIES: Mapping[str, Family] = {
    "bids": _nexmark(("bid",), BID_STEP_MS),
    "house": _nexmark(("person", "auction"), HOUSE_STEP_MS),
    "orders": _orders(("orders",)),
    "pairs": _orders(("orders", "payments")),
}
ORDERS_DDL = {
    "orders": "id BIGINT, customer BIGINT, ts BIGINT, country STRING, amount BIGINT, text STRING",
    "payments": "id BIGINT, ts BIGINT, method STRING",
}
NEXMARK_DDL = {
    item["topic"]: item["schema"]
    for item in YAML(typ="safe").load(EXAMPLE / "nexmark.yaml")["tables"]
    if "topic" in item
}
DDL: Mapping[str, str] = {**NEXMARK_DDL, **ORDERS_DDL}


def columns_of(view: str) -> dict[str, str]:
    """Return the SQL types of the columns of a view."""
    pairs = (column.strip().split(" ") for column in DDL[view].split(","))
    return dict(pairs)


class Producing:
    """Produces records of a family, and writes a copy of each topic as `<folder>/<view>.jsonl`.

    Its topics are named after the folder. A context manager.
    """

    def __init__(self, servers: str, family: Family, folder: Path, linger_ms: int) -> None:
        self.topics = {view: f"{folder.name}-{view}" for view in family.views}
        self.count = 0
        self._family = family
        self._sender = Sender(servers, linger_ms)
        folder.mkdir(parents=True)
        create_topics(servers, dict.fromkeys(self.topics.values(), PARTITIONS))
        self._copies = {view: (folder / f"{view}.jsonl").open("wb") for view in family.views}
        self._counts = dict.fromkeys(family.views, 0)

    def send(self, records: Iterator[Record], first_ms: float) -> None:
        """Send records."""
        values: dict[tuple[str, int], list[bytes]] = {}
        for record in records:
            place = record.view, self._counts[record.view] % PARTITIONS
            self._counts[record.view] += 1
            values.setdefault(place, []).append(record.at(first_ms, self._family.write_time))
        for (view, partition), batch in values.items():
            self._copies[view].write(b"\n".join(batch) + b"\n")
            self._sender.send(self.topics[view], partition, batch)
            self.count += len(batch)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for copy in self._copies.values():
            copy.close()
        self._sender.finish()


def fill(servers: str, name: str, folder: Path, count: int) -> dict[str, str]:
    """Produce `count` records of a family. Returns its topics by view."""
    family = FAMILIES[name]
    records = islice(family.make(family.step_ms(count)), count)
    with Producing(servers, family, folder, 50) as producing:
        while chunk := list(islice(records, CHUNK)):
            producing.send(iter(chunk), FIRST_MS)
    return producing.topics


class Stream:
    """Produces a family steadily in a thread, with the clock as event time. A context manager.

    It begins at a low rate. The records for `seconds` at a rate are made before, as making them
    takes more time than sending.
    """

    def __init__(self, servers: str, name: str, folder: Path, rate: int, seconds: float) -> None:
        family = FAMILIES[name]
        count = int(TRICKLE * TRICKLE_S + rate * seconds)
        self._records = list(islice(family.make(1.0), count))
        self._producing = Producing(servers, family, folder, 0)
        self._thread = threading.Thread(target=self._run, name="stream", daemon=True)
        self._stopped = threading.Event()
        self.topics = self._producing.topics
        self.rate = TRICKLE  # records a second; may be changed
        self.seconds = seconds

    @property
    def count(self) -> int:
        """Records so far."""
        return self._producing.count

    def stop(self) -> None:
        """Stop producing, and wait until all is delivered."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        with self._producing as producing:
            before_s, due, sent = time.monotonic(), 0.0, 0
            while sent < len(self._records) and not self._stopped.wait(TICK_S):
                now_s = time.monotonic()
                due, before_s = due + (now_s - before_s) * self.rate, now_s
                records = self._records[sent : int(due)]
                producing.send((each._replace(time_ms=0) for each in records), time.time() * 1000)
                sent += len(records)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
