"""From produced to readable: a steady stream, and a watcher of the table's directory.

What it is: one streaming run of a peer while records arrive at a moderate rate.
What it promises: a file counts from the moment that a reader may see it: for Spark when its sink's
metadata names it (readers of Spark's tables wait for that), for Ashore and Flink when it has its
final name; in a lakehouse table when the current snapshot or version names it. Each record has the
clock of its making in `ts`; the directory is looked at each 20 ms.
What it must not know: how a peer lands.
"""

import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow.parquet as pq

from ashore_lab.services.producer import create_topics
from bench.peers.lakehouse import lister
from bench.peers.measure import is_visible
from bench.peers.peer import Order
from bench.peers.run import LAKEHOUSE, PeerProcess, table_path
from bench.peers.workload import PARTITIONS, produce_steadily
from bench.processes import ChildFailed

LOOK_EVERY_S = 0.02
ARRIVAL_DEADLINE_S = 60.0
SAME_MOMENT_MS = 50.0
WARM_SHARE = 1 / 3  # of the time, before: a young virtual machine is slow


@dataclass(frozen=True, slots=True)
class Streamed:
    """How long records took from being produced to being readable, and what was seen besides."""

    records: int
    p50_s: float
    p99_s: float
    last_s: float  # of the record produced last
    files: int
    began_s: float  # by the machine's clock: the stream was warm
    between_s: float  # between two moments at which something became readable; median


class Watcher:
    """Notes when each file became readable. A context manager."""

    def __init__(
        self, list_readable: Callable[[], set[Path]], every_s: float = LOOK_EVERY_S
    ) -> None:
        self._list = list_readable
        self._every_s = every_s
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watcher", daemon=True)
        self.seen_ms: dict[Path, float] = {}

    def _watch(self) -> None:
        while not self._ended.is_set():
            found = self._list() - self.seen_ms.keys()
            now_ms = time.time() * 1000
            self.seen_ms.update(dict.fromkeys(found, now_ms))
            self._ended.wait(self._every_s)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()


def list_final(root: Path) -> set[Path]:
    """Return the visible files below `root`."""
    found = root.rglob("*") if root.exists() else ()
    return {path for path in found if is_visible(path, root) and path.is_file()}


def list_committed(root: Path) -> set[Path]:
    """Return the files that the metadata of Spark's sink names."""
    found = set()
    for log in (root / "_spark_metadata").glob("[0-9]*"):
        for line in log.read_text("utf-8").splitlines()[1:]:
            found.add(Path(json.loads(line)["path"].removeprefix("file://")))
    return found


def readable_by(order: Order, topic: str) -> Callable[[], set[Path]]:
    """Return what lists the files that readers of a peer's table see now."""
    if order.peer in LAKEHOUSE:
        return lister(order, topic)
    root = table_path(order, topic)
    list_readable = list_committed if order.peer == "spark" else list_final
    return lambda: list_readable(root)


def run_streaming(order: Order, rate: int, seconds: float, prefix: Sequence[str] = ()) -> Streamed:
    """Let a peer stream while records are produced, and return how fresh they were."""
    topic = order.topics[-1]
    create_topics(order.servers, {topic: PARTITIONS})
    with PeerProcess(order, prefix) as process, Watcher(readable_by(order, topic)) as watcher:
        process.expect("ready")
        warm = produce_steadily(order.servers, topic, rate, seconds * WARM_SHARE)
        wait_for_rows(watcher, warm)
        began_ms = time.time() * 1000
        count = produce_steadily(order.servers, topic, rate, seconds)
        wait_for_rows(watcher, warm + count)
        process.answer()
        process.wait()
    found = summarize(watcher.seen_ms, began_ms)
    if found.records != count:
        raise ChildFailed(f"{order.peer} landed {found.records:,} records of {count:,}")
    return found


def wait_for_rows(watcher: Watcher, count: int, deadline_s: float = ARRIVAL_DEADLINE_S) -> None:
    """Wait until so many rows are readable. Raises ChildFailed after the deadline."""
    deadline_s += time.monotonic()
    rows: dict[Path, int] = {}
    while sum(rows.values()) < count:
        for path in list(watcher.seen_ms):
            if path not in rows:
                rows[path] = pq.read_metadata(path).num_rows
        if time.monotonic() > deadline_s:
            raise ChildFailed(f"{sum(rows.values()):,} of {count:,} rows are readable")
        time.sleep(LOOK_EVERY_S)


def summarize(seen_ms: dict[Path, float], from_ms: float) -> Streamed:
    """Return how fresh the records were that were made from a moment on."""
    waits, lasts = [], []
    for path, seen in seen_ms.items():
        produced_ms = pq.read_table(path, columns=["ts"])["ts"].to_numpy()
        if len(produced_ms):
            lasts.append((int(produced_ms.max()), seen))
        waits.append(seen - produced_ms[produced_ms >= from_ms])
    every = np.concatenate(waits) / 1000
    last_ms = max(produced for produced, _ in lasts)
    last_s = max(seen - produced for produced, seen in lasts if produced == last_ms) / 1000
    p50_s, p99_s = np.percentile(every, (50, 99))
    files = sum(seen >= from_ms for seen in seen_ms.values())
    between_s = time_between([seen for seen in seen_ms.values() if seen >= from_ms])
    times = (float(p50_s), float(p99_s), last_s)
    return Streamed(len(every), *times, files, from_ms / 1000, between_s)


def time_between(seen_ms: Sequence[float]) -> float:
    """Return the median time between two moments; files that come within 50 ms are of one."""
    if not seen_ms:
        return 0.0
    steps = np.diff(np.sort(seen_ms))
    ends = np.flatnonzero(steps > SAME_MOMENT_MS)
    moments = np.sort(seen_ms)[np.concatenate(([0], ends + 1))]
    return float(np.median(np.diff(moments))) / 1000 if len(moments) > 1 else 0.0
