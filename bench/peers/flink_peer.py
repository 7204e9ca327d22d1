"""Flink SQL: Kafka source, JSON, FileSink with Parquet or Iceberg's sink, checkpoints.

What it is: a cluster of two slots, which this process drives; it stays for all topics, so that the
measured job is warm. Run by `python -m bench.peers.flink_peer`.
What it promises: settings that Flink's documents advise for speed are set, and listed in SETTINGS.
What it must not know: Ashore.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.peers.flink_cluster import FlinkCluster, options
from bench.peers.lakehouse import CATALOG, TABLE, create_table, jdbc_options
from bench.peers.peer import Order, land_all
from bench.peers.run import LAKEHOUSE
from bench.peers.settings import FLINK_CONF, FLINK_SINK, FLINK_SOURCE
from bench.processes import receive, send


def submit(cluster: FlinkCluster, order: Order, topic: str, bounds: Mapping[str, str]) -> Any:
    """Start the job that lands a topic."""
    environment = cluster.environment(
        {
            **FLINK_CONF,
            "parallelism.default": str(order.cores),
            "execution.checkpointing.interval": f"{order.interval_s * 1000:.0f} ms",
            "execution.checkpointing.storage": "filesystem",
            "execution.checkpointing.dir": f"file://{order.root(topic)}/checkpoint",
        }
    )
    source = {
        "connector": "kafka",
        "topic": topic,
        "properties.bootstrap.servers": order.servers,
        "format": "json",
        **FLINK_SOURCE,
        **bounds,
    }
    columns = order.shape.flink_ddl
    environment.executeSql(f"CREATE TABLE source ({columns}) WITH ({options(source)})")
    if order.peer in LAKEHOUSE:
        create_table(order, topic)
        catalog = {"type": "iceberg", **jdbc_options(order, topic)}
        environment.executeSql(f"CREATE CATALOG {CATALOG} WITH ({options(catalog)})")
        return environment.executeSql(f"INSERT INTO {CATALOG}.{TABLE} SELECT * FROM source")
    path = f"file://{order.root(topic)}/table"
    sink = {"connector": "filesystem", "path": path, "format": "parquet", **FLINK_SINK}
    by = order.shape.partition_by
    partitioned = f" PARTITIONED BY ({', '.join(by)})" if by else ""
    environment.executeSql(f"CREATE TABLE sink ({columns}){partitioned} WITH ({options(sink)})")
    return environment.executeSql("INSERT INTO sink SELECT * FROM source")


def land(cluster: FlinkCluster, order: Order, topic: str) -> None:
    """Land what is in a topic."""
    cluster.wait(submit(cluster, order, topic, {"scan.bounded.mode": "latest-offset"}))


def stream(cluster: FlinkCluster, order: Order) -> None:
    """Land a topic until the parent speaks."""
    job = submit(cluster, order, order.topics[-1], {})
    send("ready", excluded=[])
    receive()
    cluster.cancel(job)


def main() -> None:
    """Run one measurement."""
    order = Order.of_text(sys.argv[1])
    jars = ("flink", "flink-iceberg") if order.peer in LAKEHOUSE else ("flink",)
    with FlinkCluster(Path(order.directory), order.cores, jars=jars) as cluster:
        if order.streams:
            stream(cluster, order)
        else:
            land_all(order, lambda topic: land(cluster, order, topic), [])


if __name__ == "__main__":
    main()
