"""One measurement: a peer's process started, talked to, measured and ended.

What it is: `PeerProcess`, and `run_bounded`, which lands topics with it.
What it promises: a measurement that has not landed all rows raises.
What it must not know: how a peer lands.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.peers.lakehouse import measure_table
from bench.peers.measure import Stored, list_table
from bench.peers.peer import Order
from bench.processes import Child, ChildFailed, Meter, Usage

# Its workers are new with each job, so that a bounded run would measure their start: streams only.
ALONE = "ashore-alone"
PEERS = ("ashore", "ashore-provenance", ALONE, "spark", "flink")
LAKEHOUSE = ("ashore-iceberg", "connect-iceberg", "flink-iceberg", "ashore-delta", "spark-delta")
DEADLINE_S = 400.0


class PeerProcess(Child):
    """A peer. A context manager: all of its session is gone after it."""

    def __init__(self, order: Order, prefix: Sequence[str] = ()) -> None:
        module = f"bench.peers.{order.peer.partition('-')[0]}_peer"
        command = [*prefix, sys.executable, "-m", module, order.to_text()]
        super().__init__(command, Path(order.directory, "peer.log"), DEADLINE_S)


@dataclass(frozen=True, slots=True)
class Bounded:
    """What landing one topic took."""

    seconds: float
    usage: Usage
    stored: Stored


def table_path(order: Order, topic: str) -> Path:
    """Return where a peer's table of a topic is."""
    name = "peers.db/records" if order.peer.startswith("ashore") else "table"
    return order.root(topic) / name


def run_bounded(order: Order, records: int, prefix: Sequence[str] = ()) -> Bounded:
    """Land the topics of an order and return what the last one took."""
    with PeerProcess(order, prefix) as process:
        ready = process.expect("ready")
        excluded = ready["excluded"]
        with Meter(process.session, excluded if isinstance(excluded, list) else []) as meter:
            process.answer()
            seconds = float(str(process.expect("landed")["seconds"]))
        process.answer()
        process.wait()
    topic = order.topics[-1]
    is_lakehouse = order.peer in LAKEHOUSE
    stored = measure_table(order, topic) if is_lakehouse else list_table(table_path(order, topic))
    if stored.rows != records:
        raise ChildFailed(f"{order.peer} landed {stored.rows:,} rows of {records:,}")
    return Bounded(seconds, meter.usage, stored)
