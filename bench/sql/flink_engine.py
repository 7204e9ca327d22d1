"""Flink SQL: Kafka source, JSON, RocksDB, exactly-once file sink or upsert into Kafka.

What it is: a cluster of one task manager and a job on it, run by
`python -m bench.sql.flink_engine`.
What it promises: settings that Flink's documents advise for speed are set, and listed in SETTINGS.
A run over a directory that has a checkpoint goes on from its newest one.
What it must not know: Ashore.
"""

import signal
import sys
from pathlib import Path
from typing import Any

from bench.peers.flink_cluster import FlinkCluster, options
from bench.peers.settings import FLINK_SINK, FLINK_SOURCE
from bench.sql.inputs import columns_of
from bench.sql.order import CORES, Order
from bench.sql.queries import LATENESS_S
from bench.sql.settings import FLINK_CLUSTER, FLINK_CONF, FLINK_JSON, FLINK_TIMES

TYPES = {"TIMESTAMP": "TIMESTAMP_LTZ(3)"}


def find_checkpoint(directory: Path) -> str:
    """Return the newest complete checkpoint of any job of this order, or nothing."""
    complete = [path.parent for path in directory.glob("*/chk-*/_metadata")]
    newest = max(complete, key=lambda path: path.stat().st_mtime, default=None)
    return f"file://{newest}" if newest else ""


def make_environment(cluster: FlinkCluster, order: Order) -> Any:
    """Return the environment of the query."""
    settings = {
        **FLINK_CONF,
        "execution.checkpointing.dir": f"file://{order.checkpoint}",
        "table.local-time-zone": "UTC",
    }
    if found := find_checkpoint(order.checkpoint):
        settings["execution.state-recovery.path"] = found
    if order.interval_s:
        settings["execution.checkpointing.interval"] = f"{order.interval_s * 1000:.0f} ms"
    return cluster.environment(settings)


def create_source(environment: Any, order: Order, view: str) -> None:
    """Create the table of a view's topic."""
    columns = columns_of(view)
    parts = [f"`{name}` {TYPES.get(kind, kind)}" for name, kind in columns.items()]
    if order.query.is_timed:
        time = "date_time"
        if "ts" in columns:
            time = "event_time"
            parts.append("event_time AS TO_TIMESTAMP_LTZ(ts, 3)")
        parts.append(f"WATERMARK FOR {time} AS {time} - INTERVAL '{LATENESS_S}' SECOND")
    source = {
        "connector": "kafka",
        "topic": order.topics[view],
        "properties.bootstrap.servers": order.servers,
        "format": "json",
        **FLINK_JSON,
        **FLINK_SOURCE,
    }
    if not order.interval_s:
        source["scan.bounded.mode"] = "latest-offset"
    environment.executeSql(f"CREATE TABLE {view} ({', '.join(parts)}) WITH ({options(source)})")


def create_sink(environment: Any, order: Order) -> None:
    """Create the table that the query writes."""
    columns = order.query.types
    sink = {
        "connector": "filesystem",
        "path": f"file://{order.table}",
        "format": "parquet",
        **FLINK_TIMES,
        **FLINK_SINK,
    }
    if order.query.key:
        columns = f"{columns}, PRIMARY KEY ({', '.join(order.query.key)}) NOT ENFORCED"
        sink = {
            "connector": "upsert-kafka",
            "topic": order.output_topic,
            "properties.bootstrap.servers": order.servers,
            "key.format": "json",
            "value.format": "json",
        }
    environment.executeSql(f"CREATE TABLE sink ({columns}) WITH ({options(sink)})")


def main() -> None:
    """Run a query until the end of its topics, or until it is killed."""
    order = Order.of_text(sys.argv[1])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with FlinkCluster(Path(order.directory), CORES, FLINK_CLUSTER) as cluster:
        environment = make_environment(cluster, order)
        for view in order.topics:
            create_source(environment, order, view)
        create_sink(environment, order)
        cluster.wait(environment.executeSql(f"INSERT INTO sink {order.query.flink_text}"))


if __name__ == "__main__":
    main()
