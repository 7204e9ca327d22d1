"""Reading a topic in Spark SQL: the source `ashore` against Spark's Kafka source with from_json.

    python -m bench.sql_source [RECORDS]

Each query runs with available-now over a topic of eight partitions, lz4, with state in RocksDB:
a filter, and counts and sums by a window of a minute for each country and for each user. Both ways
are turns of one session; the first turn of each warms up and is not counted. Figures are CPU time
of the JVM and all of its Python processes, for everything that a query does: what it takes over a
topic of a few records is its start, what it takes more over the large one is for the records. Rates
depend on what else the machine does. Both ways must give the same result.
"""

import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import psutil
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from ashore.jobs.jars import jar_paths
from ashore.topics.run.spark.session import start_session
from ashore.topics.run.spark.source.data_source import SparkSource
from ashore_lab.services.kafka import Kafka
from bench.peers.shapes import SMALL
from bench.peers.workload import fill_topic
from bench.table import Row

RECORDS = 2_000_000
FEW = 1_000  # records of a topic over which a query does hardly more than start
ROUNDS = 2  # that are counted, after one that warms up
CORES = 2
WATERMARK = "10 minutes"
CONF = {
    "spark.driver.memory": "2g",
    "spark.sql.shuffle.partitions": str(CORES),
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}


class Spent(NamedTuple):
    """What a run of a query took, and what came out of it."""

    cpu_s: float
    wall_s: float
    result: tuple[object, ...]


def read_by_spark(spark: SparkSession, servers: str, topic: str) -> DataFrame:
    """Return records as Spark's own source and decoder give them."""
    frame = spark.readStream.format("kafka").options(
        **{"kafka.bootstrap.servers": servers, "kafka.isolation.level": "read_committed"},
        subscribe=topic,
        startingOffsets="earliest",
    )
    decoded = F.from_json(F.col("value").cast("string"), SMALL.ddl).alias("decoded")
    return frame.load().select(decoded).select("decoded.*")


def read_by_ashore(spark: SparkSession, servers: str, topic: str) -> DataFrame:
    """Return records as the source `ashore` gives them."""
    frame = spark.readStream.format("ashore").options(
        **{"kafka.bootstrap.servers": servers},
        subscribe=topic,
        schema=SMALL.ddl,
        minPartitions=str(CORES),
        columns="decoded",
    )
    return frame.load().where("decoded IS NOT NULL").select("decoded.*")


WAYS: dict[str, Callable[[SparkSession, str, str], DataFrame]] = {
    "Spark's source": read_by_spark,
    "ashore": read_by_ashore,
}


def keep_some(records: DataFrame) -> DataFrame:
    return records.where("country = 'DE' AND amount > 10").select("id", "user", "amount")


def count_by(key: str) -> Callable[[DataFrame], DataFrame]:
    def query(records: DataFrame) -> DataFrame:
        timed = records.withColumn("time", F.timestamp_millis("ts"))
        timed = timed.withWatermark("time", WATERMARK)
        window = F.window("time", "1 minute")
        return timed.groupBy(window, key).agg(F.count("*").alias("n"), F.sum("amount").alias("s"))

    return query


QUERIES: dict[str, tuple[str, Callable[[DataFrame], DataFrame]]] = {
    "filter": ("append", keep_some),
    "window by country": ("update", count_by("country")),
    "window by user": ("update", count_by("user")),
}


def cpu_of_all() -> float:
    """Return the CPU time of this process and all that it has started, so far."""
    here = psutil.Process()
    spent = 0.0
    for each in [here, *here.children(recursive=True)]:
        try:
            times = each.cpu_times()
        except psutil.Error:
            continue
        spent += times.user + times.system + times.children_user + times.children_system
    return spent


def run_once(frame: DataFrame, mode: str) -> Spent:
    """Run a query over all that is there."""
    checkpoint = tempfile.mkdtemp()
    seen: dict[str, object] = {}

    def take(batch: DataFrame, _number: int) -> None:
        sums = [F.count("*")] + [F.sum(name) for name in ("n", "id") if name in batch.columns]
        row = batch.agg(*sums).first()
        seen["result"] = tuple(row or ())

    began_cpu, began = cpu_of_all(), time.monotonic()
    query = (
        frame.writeStream.outputMode(mode)
        .foreachBatch(take)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spent = Spent(cpu_of_all() - began_cpu, time.monotonic() - began, (seen.get("result"),))
    shutil.rmtree(checkpoint)
    return spent


def measure(spark: SparkSession, servers: str, topics: dict[str, int]) -> Iterator[Row]:
    """Run each query by each way over both topics, turn by turn."""
    few, many = topics.values()
    for name, (mode, query) in QUERIES.items():
        best: dict[tuple[str, str], Spent] = {}
        for number in range(1 + ROUNDS):
            for topic in topics:
                found = {
                    way: run_once(query(read(spark, servers, topic)), mode)
                    for way, read in WAYS.items()
                }
                if len({each.result for each in found.values()}) > 1:
                    raise RuntimeError(f"{name}: the results differ: {found}")
                for way, spent in found.items() if number else ():
                    best[way, topic] = min(spent, best.get((way, topic), spent))
        costs: dict[str, float] = {}
        for way in WAYS:
            start, whole = (best[way, topic] for topic in topics)
            costs[way] = (whole.cpu_s - start.cpu_s) / (many - few) * 1e6
            rate = many / whole.wall_s / 1000
            print(
                f"  {name:18} {way:15} {costs[way]:6.2f} CPU s/M, start {start.cpu_s:5.2f} CPU s, "
                f"{rate:7,.0f} k records/s",
                flush=True,
            )
            yield Row(f"{name}, {way}: CPU time per million records", costs[way], "s")
            yield Row(f"{name}, {way}: CPU time of a start", start.cpu_s, "s")
            yield Row(f"{name}, {way}: records a second", rate, "thousand")
        ratio = costs["Spark's source"] / costs["ashore"]
        yield Row(f"{name}: CPU time per record of Spark's source, ashore = 1", ratio)


def main(count: int = RECORDS) -> list[Row]:
    """Fill topics and measure."""
    topics = {"few": FEW, "many": count}
    with tempfile.TemporaryDirectory() as folder, Kafka(Path(folder)) as kafka:
        for topic, records in topics.items():
            fill_topic(kafka.bootstrap_servers, topic, SMALL, records)
        spark = start_session("bench", f"local[{CORES}]", CONF, jar_paths("spark-kafka"))
        spark.dataSource.register(SparkSource)
        rows = list(measure(spark, kafka.bootstrap_servers, topics))
        spark.stop()
        return rows


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else RECORDS)
