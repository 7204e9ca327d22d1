"""Spark's streaming query: Kafka source, from_json, a sink (Parquet or Delta), checkpoint.

What it is: what one writes who follows Spark's guides, run by `python -m bench.peers.spark_peer`.
What it promises: settings that Spark's documents advise for speed are set, and listed in SETTINGS.
What it must not know: Ashore.
"""

import os
import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

from ashore.jobs.jars import jar_paths
from bench.peers.lakehouse import table_directory
from bench.peers.packages import ensure_bench_jars
from bench.peers.peer import Order, land_all
from bench.peers.run import LAKEHOUSE
from bench.peers.settings import SPARK_CONF, SPARK_DELTA, SPARK_SOURCE
from bench.processes import receive, send


def start_session(order: Order) -> SparkSession:
    """Start Spark in this process."""
    builder = SparkSession.builder.appName("peer").master(f"local[{order.cores}]")
    jars, delta = jar_paths("spark-kafka"), {}
    if order.peer in LAKEHOUSE:
        jars += ensure_bench_jars("delta")
        delta = SPARK_DELTA
    quiet = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.jars": ",".join(map(str, jars)),
    }
    for key, value in {**quiet, **SPARK_CONF, **delta}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def read(spark: SparkSession, order: Order, topic: str) -> DataFrame:
    """Return the decoded records of a topic, as a stream."""
    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", order.servers)
        .option("subscribe", topic)
        .options(**SPARK_SOURCE)
        .load()
    )
    decoded = F.from_json(F.col("value").cast("string"), order.shape.ddl)
    return records.select(decoded.alias("record")).select("record.*")


def write(spark: SparkSession, order: Order, topic: str) -> DataStreamWriter:
    """Return the query that lands a topic, not started."""
    root = order.root(topic)
    is_delta = order.peer in LAKEHOUSE
    table = table_directory(root) if is_delta else root / "table"
    writer = (
        read(spark, order, topic)
        .writeStream.format("delta" if is_delta else "parquet")
        .option("path", f"file://{table}")
        .option("checkpointLocation", f"file://{root}/checkpoint")
    )
    by = order.shape.partition_by
    return writer.partitionBy(*by) if by else writer


def land(spark: SparkSession, order: Order, topic: str) -> None:
    """Land what is in a topic."""
    query: StreamingQuery = write(spark, order, topic).trigger(availableNow=True).start()
    query.awaitTermination()


def stream(spark: SparkSession, order: Order) -> None:
    """Land a topic until the parent speaks."""
    every = f"{order.interval_s * 1000:.0f} milliseconds"
    query = write(spark, order, order.topics[-1]).trigger(processingTime=every).start()
    send("ready", excluded=[os.getpid()])
    receive()
    query.stop()


def main() -> None:
    """Run one measurement."""
    order = Order.of_text(sys.argv[1])
    spark = start_session(order)
    try:
        if order.streams:
            stream(spark, order)
        else:
            land_all(order, lambda topic: land(spark, order, topic), [os.getpid()])
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
