"""The whole comparison: topics filled once, every peer measured on them, results written.

What it is: the order of measurements, and what is kept of each.
What it promises: the order of the peers rotates; the broker is warm; progress goes to stderr; all
that is written while it runs is in one temporary directory, which is gone at the end, as are all
processes.
What it must not know: peers.
"""

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ashore_lab.services.kafka import BrokerOptions, Kafka
from bench.machine import describe_commit, describe_machine
from bench.peers.measure import can_trace, count_calls, trace_prefix
from bench.peers.packages import ensure_bench_jars
from bench.peers.peer import CORES, Order
from bench.peers.results import Calls, Fresh, Results, Run
from bench.peers.run import ALONE, LAKEHOUSE, PEERS, run_bounded
from bench.peers.settings import CHECKPOINT_INTERVAL_S
from bench.peers.shapes import SHAPES, SMALL, WIDE, Shape
from bench.peers.streaming import run_streaming
from bench.peers.workload import fill_topic, read_repeatedly

PARTS = ("small", "large", "calls", "stream")  # what the README shows
ONE_CORE = "one-core"
WIDE_PARTS = (*(shape.name for shape in WIDE), ONE_CORE)
WIDE_PEERS = ("ashore", "spark", "flink")
STREAM_INTERVALS_S = (1.0, 0.2)
LAKEHOUSE_PARTS = ("small", "large", "stream")
# A sink that never ends waits for its interval before it commits what is left: it gets so many
# times the records that this is little of its time.
LONGER = {"connect-iceberg": 4}
JAR_SETS = ("flink", "connect", "delta", "flink-iceberg")
CALLS_S = 10.0
CALLS_RATE = 1_000  # records a second: calls go by batch and file, not by record
RETENTION = {"log.retention.ms": "-1", "log.retention.bytes": "-1"}


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is measured."""

    command: str
    divisor: int  # of the records of each shape
    repeats: int
    stream_s: float
    stream_rate: int  # records a second
    broker_s: float  # so long the broker is read from before the first peer
    peers: tuple[str, ...] = PEERS
    parts: tuple[str, ...] = PARTS
    intervals_s: tuple[float, ...] = STREAM_INTERVALS_S


FULL = Scale("make bench-peers", 1, 3, 20.0, 5_000, 15.0)
FULL_WIDE = replace(FULL, command="make bench-peers SHAPES=wide", repeats=2, peers=WIDE_PEERS)
FULL_LAKEHOUSE = Scale(
    command="make bench-peers SHAPES=lakehouse",
    divisor=2,
    repeats=1,
    stream_s=20.0,
    stream_rate=5_000,
    broker_s=15.0,
    peers=LAKEHOUSE,
    parts=LAKEHOUSE_PARTS,
    intervals_s=STREAM_INTERVALS_S[:1],
)
SMALL_SCALE = Scale("python -m bench.peers run --small", 20, 1, 12.0, 2_000, 1.0)


class Comparison:
    """One run of everything."""

    def __init__(self, scale: Scale, directory: Path, servers: str) -> None:
        self._scale = scale
        self._directory = directory
        self._servers = servers
        self._runs: list[Run] = []
        self._fresh: list[Fresh] = []
        self._calls: list[Calls] = []
        self._turn = 0
        self._began = time.monotonic()

    def run(self) -> Results:
        """Measure everything."""
        began, load = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), os.getloadavg()[0]
        for shape in SHAPES.values():
            if shape.name in self._scale.parts:
                self._compare(shape)
        if ONE_CORE in self._scale.parts:
            self._compare(SMALL, cores=1)
        if "calls" in self._scale.parts:
            self._count_calls()
        if "stream" in self._scale.parts:
            self._stream()
        return Results(
            commit=describe_commit(),
            command=self._scale.command,
            began=began,
            machine=describe_machine(),
            load_before=round(load, 2),
            runs=tuple(self._runs),
            fresh=tuple(self._fresh),
            calls=tuple(self._calls),
        )

    def _compare(self, shape: Shape, cores: int = CORES) -> None:
        count = shape.records // self._scale.divisor
        topic = f"{shape.name}-{cores}"
        factors = sorted({LONGER.get(peer, 1) for peer in self._scale.peers})
        self._say(f"{shape.name}: producing {count * sum(factors) + count // 4:,} records")
        fill_topic(self._servers, f"{topic}-warm", shape, count // 4)
        sizes = {
            factor: fill_topic(self._servers, f"{topic}-{factor}", shape, count * factor)
            for factor in factors
        }
        self._say(f"{shape.name}: reading, so that the broker is warm")
        measured = f"{topic}-{factors[0]}"
        read_repeatedly(self._servers, measured, shape.partitions, self._scale.broker_s)
        pinned = () if cores == CORES else ("taskset", "-c", f"0-{cores - 1}")
        for repeat in range(self._scale.repeats):
            for peer in rotated([each for each in self._scale.peers if each != ALONE], repeat):
                factor = LONGER.get(peer, 1)
                topics = (f"{topic}-warm", f"{topic}-{factor}")
                order = replace(self._order(peer, shape, topics), cores=cores)
                done = run_bounded(order, count * factor, pinned)
                shutil.rmtree(order.directory)
                run = Run(
                    shape=shape.name,
                    peer=peer,
                    repeat=repeat,
                    records=count * factor,
                    value_bytes=sizes[factor],
                    seconds=round(done.seconds, 3),
                    cpu_s=round(done.usage.cpu_s, 2),
                    rss_peak_bytes=done.usage.rss_peak_bytes,
                    files=done.stored.files,
                    stored_bytes=done.stored.size_bytes,
                    cores=cores,
                    metadata_bytes=done.stored.metadata_bytes,
                )
                self._runs.append(run)
                self._say(
                    f"{shape.name} {repeat + 1}/{self._scale.repeats} {peer}: "
                    f"{count * factor / done.seconds:,.0f} records/s in {done.seconds:.1f} s, "
                    f"{done.usage.cpu_s:.1f} s CPU, {done.usage.rss_peak_bytes / 1e6:,.0f} MB, "
                    f"{done.stored.files} files, {done.stored.size_bytes / 1e6:.1f} MB"
                )

    def _count_calls(self) -> None:
        """Stream once under strace, which is too slow to take times from."""
        if not can_trace():
            self._say("no strace on this machine: storage calls are not counted")
            return
        for peer in self._scale.peers:
            order = self._order(peer, SMALL, (f"calls-{peer}",), streams=True)
            trace = Path(order.directory).with_suffix(".trace")
            seconds = min(CALLS_S, self._scale.stream_s)
            done = run_streaming(order, CALLS_RATE, seconds, trace_prefix(trace))
            found = count_calls(trace, order.root(order.topics[-1]), done.began_s)
            self._calls.append(Calls(peer, done.records, done.files, dict(sorted(found.items()))))
            self._say(f"storage calls {peer}: {found.total()} for {done.files} files")
            trace.unlink()
            shutil.rmtree(order.directory)

    def _stream(self) -> None:
        for interval_s in self._scale.intervals_s:
            for peer in self._scale.peers:
                if interval_s == self._scale.intervals_s[0] or peer != "ashore-provenance":
                    self._stream_at(peer, interval_s)

    def _stream_at(self, peer: str, interval_s: float) -> None:
        topic = f"stream-{peer}-{round(interval_s * 1000)}"
        order = self._order(peer, SMALL, (topic,), streams=True, interval_s=interval_s)
        seconds = self._scale.stream_s * (1.0 if interval_s >= 1 else 0.5)
        done = run_streaming(order, self._scale.stream_rate, seconds)
        times = (round(each, 3) for each in (done.p50_s, done.p99_s, done.last_s))
        self._fresh.append(Fresh(peer, done.records, *times, interval_s, round(done.between_s, 3)))
        self._say(
            f"freshness {peer}, {interval_s:g} s: half in {done.p50_s:.2f} s, 99 % in "
            f"{done.p99_s:.2f} s, the last in {done.last_s:.2f} s, {done.between_s:.2f} s between"
        )
        shutil.rmtree(order.directory)

    def _order(
        self,
        peer: str,
        shape: Shape,
        topics: tuple[str, ...],
        *,
        streams: bool = False,
        interval_s: float = 1.0,
    ) -> Order:
        self._turn += 1
        directory = self._directory / f"{self._turn:03d}-{peer}"
        rhythm_s = interval_s if streams else float(CHECKPOINT_INTERVAL_S)
        return Order(
            peer, shape.name, self._servers, topics, str(directory), rhythm_s, streams=streams
        )

    def _say(self, text: str) -> None:
        passed_s = round(time.monotonic() - self._began)
        print(f"{passed_s // 60:02d}:{passed_s % 60:02d} {text}", file=sys.stderr, flush=True)


def rotated(peers: Sequence[str], repeat: int) -> list[str]:
    """Return the peers, each repeat beginning with another."""
    first = repeat % len(peers)
    return [*peers[first:], *peers[:first]]


def compare(scale: Scale) -> Results:
    """Measure everything, on a broker of its own."""
    if len(os.sched_getaffinity(0)) < CORES:
        raise SystemExit(f"this wants {CORES} cores")
    for name in JAR_SETS:
        ensure_bench_jars(name, lambda text: print(text, file=sys.stderr))
    with tempfile.TemporaryDirectory(prefix="ashore-peers-") as name:
        directory = Path(name)
        options = BrokerOptions(settings=RETENTION, heap="1g")
        with Kafka(directory / "kafka", options) as kafka:
            return Comparison(scale, directory, kafka.bootstrap_servers).run()
