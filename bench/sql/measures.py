"""The measures: each is a function that can be called alone.

What it is: `measure_rate`, `measure_latency`, `measure_recovery`, over a `Site` with a broker.
What it promises: figures come with DuckDB's proof of the rows of the very run. All that a run
wrote is removed after it.
What it must not know: what an engine is.
"""

import json
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from pathlib import Path
from statistics import median

import pyarrow.parquet as pq
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from ashore_lab.services.producer import create_topics
from bench.peers.streaming import Watcher
from bench.processes import ChildFailed
from bench.sql.engines import checkpoint_bytes, list_files, start
from bench.sql.inputs import Stream, fill
from bench.sql.order import Order
from bench.sql.proof import Proof, Prover
from bench.sql.queries import LATENESS_S, Query
from bench.sql.tree import Tree

FEW = 5_000  # records of a topic over which an engine does hardly more than start
STARTS = 3  # the first one reads the engine from the disk: the median counts
INTERVAL_S = 1.0
FIRST_ROW_S = 300.0  # until a stream must have given a row
LAST_ROW_S = 120.0  # until all rows must be there, after the stream has ended
LOOK_EVERY_S = 0.02
SLOW_S, WARM_S, STEADY_S = 30.0, 10.0, 30.0  # at a quarter of the rate, then at the rate; measured
KILLED_S = 90.0  # of a stream whose engine is killed
WINDOW_MS, DUE_MS = 10_000, 200


@dataclass(slots=True)
class Site:
    """A broker, a directory, and the topics that are there."""

    servers: str
    directory: Path
    say: Callable[[str], None]
    turn: int = 0
    topics: dict[tuple[str, int], tuple[Path, dict[str, str]]] = field(default_factory=dict)
    provers: dict[tuple[str, int], Prover] = field(default_factory=dict)  # the last one

    def filled(self, family: str, count: int) -> tuple[Path, dict[str, str]]:
        """Return the folder and the topics of a family with so many records."""
        if (family, count) not in self.topics:
            self.say(f"{family}: producing {count:,} records")
            folder = self.directory / f"{family}-{count}"
            self.topics[family, count] = folder, fill(self.servers, family, folder, count)
        return self.topics[family, count]

    def prover(self, query: Query, count: int) -> Prover:
        """Return what proves the rows of a query over so many records."""
        if (query.name, count) not in self.provers:
            folder, _ = self.filled(query.family, count)
            self.provers = {(query.name, count): Prover(query, folder)}
        return self.provers[query.name, count]

    def next_name(self) -> str:
        """Return a name for a run."""
        self.turn += 1
        return f"run-{self.turn:03d}"

    def stream(
        self, query: Query, engine: str, rate: int, seconds: float
    ) -> tuple[Stream, Order, Path]:
        """Return a stream, not started, an order over it, and the folder of its copies."""
        folder = self.directory / f"stream-{self.next_name()}"
        stream = Stream(self.servers, query.family, folder, rate, seconds)
        return stream, self.order(engine, query, stream.topics, INTERVAL_S), folder

    def order(
        self, engine: str, query: Query, topics: dict[str, str], interval_s: float = 0.0
    ) -> Order:
        """Return an order with a directory of its own, and with its output topic."""
        directory = self.directory / self.next_name()
        order = Order(engine, query.name, self.servers, topics, str(directory), interval_s)
        if query.key:
            create_topics(self.servers, {order.output_topic: 1})
        return order


@dataclass(frozen=True, slots=True)
class Figures:
    """What a measure gives."""

    records: int
    values: dict[str, float]
    proof: Proof


@dataclass(frozen=True, slots=True)
class _Run:
    seconds: float
    cpu_s: float
    rss_peak_bytes: int
    checkpoint_bytes: int


def measure_rate(site: Site, query: Query, engine: str, count: int) -> Figures:
    """Run to the end of a topic of few records, three times, then to the end of one of many."""
    few_topics, topics = site.filled(query.family, FEW)[1], site.filled(query.family, count)[1]
    order = site.order(engine, query, topics)
    starts = [_run(site.order(engine, query, few_topics)) for _ in range(STARTS)]
    many = _run(order)
    found = _prove(site.prover(query, count), order)
    shutil.rmtree(order.directory)
    start_s = median(each.seconds for each in starts)
    start_cpu_s = median(each.cpu_s for each in starts)
    seconds, cpu_s = many.seconds - start_s, many.cpu_s - start_cpu_s
    if min(seconds, cpu_s) <= 0:
        site.say(f"{count:,} records take no longer than {FEW:,}: more are needed for a rate")
        return Figures(count, {}, found)
    values = {
        "rate": (count - FEW) / seconds,
        "cpu_s_per_million": cpu_s / (count - FEW) * 1e6,
        "start_s": start_s,
        "start_cpu_s": start_cpu_s,
        "rss_peak_bytes": many.rss_peak_bytes,
        "checkpoint_bytes": many.checkpoint_bytes,
    }
    return Figures(count, values, found)


def measure_latency(site: Site, query: Query, engine: str, rate: int) -> Figures:
    """Run on a steady stream and see when rows become readable.

    Before that it is slower for a while: a JVM compiles for about a minute.
    """
    full_s = SLOW_S / 4 + WARM_S + STEADY_S  # of records at the whole rate
    stream, order, folder = site.stream(query, engine, rate, full_s)
    with stream, start(order) as tree, _watch(order) as watcher:
        _wait_for_row(watcher, tree, 0)
        stream.rate = rate // 4
        time.sleep(SLOW_S)
        stream.rate, from_ms = rate, (time.time() + WARM_S) * 1000
        time.sleep(WARM_S + STEADY_S)
        stream.stop()
        prover = Prover(query, folder)
        _wait_for_last_row(prover, order, tree)
    proof = _prove(prover, order)
    p50_s, p99_s = prover.waits_s(watcher.seen_ms, from_ms)
    shutil.rmtree(order.directory)
    return Figures(stream.count, {"rate": rate, "p50_s": p50_s, "p99_s": p99_s}, proof)


def measure_recovery(site: Site, query: Query, engine: str, rate: int) -> Figures:
    """Kill everything of an engine on a steady stream and start it again."""
    stream, order, folder = site.stream(query, engine, rate, KILLED_S)
    with stream, _watch(order) as watcher:
        with start(order) as tree:
            _wait_for_row(watcher, tree, 0)
            stream.rate = rate
            time.sleep(WARM_S)
            _wait_until_result_is_due()
            killed_ms = time.time() * 1000
            tree.kill()
        with start(order) as tree:
            next_ms = _wait_for_row(watcher, tree, killed_ms)
            time.sleep(WARM_S)
            stream.stop()
            prover = Prover(query, folder)
            _wait_for_last_row(prover, order, tree)
    proof = _prove(prover, order)
    shutil.rmtree(order.directory)
    return Figures(stream.count, {"next_result_s": (next_ms - killed_ms) / 1000}, proof)


MEASURES = {"rate": measure_rate, "latency": measure_latency, "recovery": measure_recovery}


def _run(order: Order) -> _Run:
    peak_bytes = 0

    def look() -> None:
        nonlocal peak_bytes
        peak_bytes = max(peak_bytes, checkpoint_bytes(order))

    began_s = time.perf_counter()
    with start(order, look) as tree:
        tree.wait()
        seconds = time.perf_counter() - began_s
    look()
    return _Run(seconds, tree.cpu_s, tree.rss_peak_bytes, peak_bytes)


def _watch(order: Order) -> Watcher:
    return Watcher(partial(list_files, order), LOOK_EVERY_S)


def _wait_for_row(watcher: Watcher, tree: Tree, after_ms: float) -> float:
    """Wait for a row that is readable since a moment, and return since when."""
    until_s, empty = time.monotonic() + FIRST_ROW_S, set[Path]()
    while time.monotonic() < until_s:
        tree.check()
        for path, seen_ms in sorted(watcher.seen_ms.items(), key=itemgetter(1)):
            if seen_ms > after_ms and path not in empty:
                if pq.read_metadata(path).num_rows:
                    return seen_ms
                empty.add(path)  # Spark writes one for a batch without rows
        time.sleep(LOOK_EVERY_S)
    raise ChildFailed(f"no row after {FIRST_ROW_S:g} s")


def _wait_for_last_row(prover: Prover, order: Order, tree: Tree) -> None:
    """Wait until all rows are there that must be, or for too long: the proof says which."""
    until_s = time.monotonic() + LAST_ROW_S
    while not _prove(prover, order).is_right and time.monotonic() < until_s:
        tree.check()
        time.sleep(1)


def _wait_until_result_is_due() -> None:
    """Wait until just before the watermark passes the end of a window."""
    due_ms = LATENESS_S * 1000 - DUE_MS
    time.sleep((due_ms - time.time() * 1000) % WINDOW_MS / 1000)


def _prove(prover: Prover, order: Order) -> Proof:
    if not order.query.key:
        return prover.compare(prover.select_files(sorted(list_files(order))))
    records = Path(order.directory, "output.jsonl")
    _copy_topic(order.servers, order.output_topic, records)
    return prover.compare(prover.select_records(records))


def _copy_topic(servers: str, topic: str, target: Path) -> None:
    """Write the records of a topic of one partition, in their order."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "copies"})
    partition = TopicPartition(topic, 0, OFFSET_BEGINNING)
    end = consumer.get_watermark_offsets(partition, timeout=30)[1]
    consumer.assign([partition])
    place = 0
    with target.open("w", encoding="utf-8") as lines:
        while place < end:
            for message in consumer.consume(10_000, timeout=1):
                place = (message.offset() or 0) + 1
                if message.value() is not None:
                    key, value = (each.decode() for each in (message.key(), message.value()))
                    record = {"place": place, "key": key, "value": json.loads(value)}
                    lines.write(json.dumps(record) + "\n")
    consumer.close()
