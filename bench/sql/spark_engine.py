"""Spark's streaming SQL: Kafka source, from_json, RocksDB, Parquet file sink or Kafka sink.

What it is: what one writes who follows Spark's guides, run by `python -m bench.sql.spark_engine`.
With the engine `spark-ashore` topics are read by the source `ashore`, and all else is the same.
What it promises: settings that Spark's documents advise for speed are set, and listed in SETTINGS.
What it must not know: jobs of Ashore.
"""

import signal
import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.streaming import DataStreamWriter

from ashore.jobs.jars import jar_paths
from bench.peers.settings import SPARK_SOURCE
from bench.sql.inputs import DDL
from bench.sql.order import CORES, Order
from bench.sql.queries import LATENESS_S
from bench.sql.settings import SPARK_CONF

SOURCE_ASHORE = "spark-ashore"


def start_session() -> SparkSession:
    """Start Spark in this process."""
    quiet = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
        "spark.jars": ",".join(map(str, jar_paths("spark-kafka"))),
    }
    builder = SparkSession.builder.appName("sql").master(f"local[{CORES}]")
    for key, value in {**quiet, **SPARK_CONF}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def read(spark: SparkSession, order: Order, view: str) -> DataFrame:
    """Return the decoded records of a view's topic, as a stream."""
    reader = spark.readStream.option("kafka.bootstrap.servers", order.servers)
    reader = reader.option("subscribe", order.topics[view])
    if order.engine == SOURCE_ASHORE:
        from ashore import SparkSource  # noqa: PLC0415 - plain Spark runs without it

        spark.dataSource.register(SparkSource)
        records = reader.format("ashore").option("schema", DDL[view]).load()
        rows = records.where("decoded IS NOT NULL").select("decoded.*")
    else:
        records = reader.format("kafka").options(**SPARK_SOURCE).load()
        decoded = F.from_json(F.col("value").cast("string"), DDL[view])
        rows = records.select(decoded.alias("record")).select("record.*")
    if not order.query.is_timed:
        return rows
    if "ts" in rows.columns:
        rows = rows.withColumn("event_time", F.timestamp_millis("ts"))
    time = "event_time" if "ts" in rows.columns else "date_time"
    return rows.withWatermark(time, f"{LATENESS_S} seconds")


def write(spark: SparkSession, order: Order) -> DataStreamWriter:
    """Return the query's writer, not started."""
    rows, key = spark.sql(order.query.spark), order.query.key
    if not key:
        return rows.writeStream.format("parquet").option("path", f"file://{order.table}")
    keys = F.to_json(F.struct(*key)).alias("key")
    values = rows.select(keys, F.to_json(F.struct("*")).alias("value"))
    writer = values.writeStream.format("kafka").outputMode("update")
    return writer.options(**{"kafka.bootstrap.servers": order.servers, "topic": order.output_topic})


def main() -> None:
    """Run a query until the end of its topics, or until it is killed."""
    order = Order.of_text(sys.argv[1])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    spark = start_session()
    for view in order.topics:
        read(spark, order, view).createOrReplaceTempView(view)
    writer = write(spark, order).option("checkpointLocation", f"file://{order.checkpoint}")
    every = f"{order.interval_s * 1000:.0f} milliseconds"
    timed = {"processingTime": every} if order.interval_s else {"availableNow": True}
    writer.trigger(**timed).start().awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
