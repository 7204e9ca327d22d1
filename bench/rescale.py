"""What it costs to rescale state, against running the query again over all of its input.

    python -m bench rescale                                1 and 5 million keys
    python -m bench.rescale measure --keys 20000000        another number; nothing is kept

A topic of small records, one of each key, on a real broker; a query of plain Spark that counts by
key, with state in RocksDB and changelogs, on local disk. It runs over all of the topic with FROM
partitions: that is the checkpoint, and what is timed is the state rescaled to TO by the command.
Beside it: the same query run over all of the topic with TO partitions, into a checkpoint of its
own, which is what a team does that has no rescale. Both times are those of a whole process, with
the start of Spark; memory is the largest sum of the resident sets of its process tree. Megabytes
are those of the state that is read.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil
from pyspark.sql import DataFrame, SparkSession

from ashore.jobs.jars import jar_paths
from ashore_lab.services.kafka import Kafka
from ashore_lab.services.producer import create_topics
from bench.peers.workload import Sender
from bench.table import Row

TOPIC, INPUT_PARTITIONS = "keys", 2
FROM, TO = 8, 12
KEYS = (1_000_000, 5_000_000)
MEMORY = "4g"
SAMPLE_EVERY_S = 0.2
CHUNK = 100_000  # records that are handed to the producer at a time
STORE = "spark.sql.streaming.stateStore."
CONF = {
    f"{STORE}providerClass": "org.apache.spark.sql.execution.streaming.state."
    "RocksDBStateStoreProvider",
    f"{STORE}rocksdb.changelogCheckpointing.enabled": "true",
    "spark.driver.memory": MEMORY,
    "spark.ui.enabled": "false",
}


@dataclass(frozen=True, slots=True)
class Run:
    """A command that was run: what it took, and what it said last."""

    took_s: float
    rss_peak_bytes: int
    said: str
    jvm_peak_bytes: int = 0
    python_peak_bytes: int = 0


def watch(command: Sequence[str]) -> Run:
    """Run a command, and look at its process tree. Raises CalledProcessError where it fails."""
    began_s = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    has_ended, peaks = threading.Event(), [0, 0, 0]

    def sample() -> None:
        while not has_ended.wait(SAMPLE_EVERY_S):
            jvm, others = measure_tree(process.pid)
            peaks[:] = map(max, peaks, (jvm + others, jvm, others))

    sampler = threading.Thread(target=sample)
    sampler.start()
    try:
        said, _ = process.communicate()
    finally:
        has_ended.set()
        sampler.join()
    took_s = time.perf_counter() - began_s
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command, said)
    return Run(took_s, peaks[0], said, *peaks[1:])


def measure_tree(pid: int) -> tuple[int, int]:
    """Return the bytes in memory of the JVMs at or below a process, and of all others."""
    try:
        root = psutil.Process(pid)
        tree = [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return 0, 0
    jvm = others = 0
    for each in tree:
        try:
            size, is_jvm = each.memory_info().rss, each.name() == "java"
        except psutil.NoSuchProcess:  # it has just ended
            continue
        jvm, others = (jvm + size, others) if is_jvm else (jvm, others + size)
    return jvm, others


def fill(servers: str, keys: int, more: Mapping[str, object] | None = None) -> None:
    """Write a record of each key to the topic. `more`: what each record has besides."""
    sender = Sender(servers, linger_ms=50)
    for start in range(0, keys, CHUNK):
        end = min(start + CHUNK, keys)
        for partition in range(INPUT_PARTITIONS):
            numbers = range(start + partition, end, INPUT_PARTITIONS)
            records = ({"k": each, "v": each % 997, **(more or {})} for each in numbers)
            sender.send(TOPIC, partition, [json.dumps(each).encode() for each in records])
    sender.finish()


def query(servers: str, partitions: int, checkpoint: Path) -> list[str]:
    """Return the command that runs the query over all of the topic."""
    this = [sys.executable, "-m", "bench.rescale"]
    return [*this, "query", servers, str(partitions), checkpoint.as_uri()]


def run_query(servers: str, partitions: int, checkpoint: str) -> None:
    """Be the program: count the records of each key, and hand the rows to nobody."""
    jars = ",".join(map(str, jar_paths("spark-kafka")))
    builder = SparkSession.builder.master("local[2]").config("spark.jars", jars)
    for name, value in {**CONF, "spark.sql.shuffle.partitions": str(partitions)}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    records = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers)
    records = records.option("subscribe", TOPIC).option("startingOffsets", "earliest").load()
    rows = records.selectExpr("from_json(CAST(value AS STRING), 'k BIGINT, v BIGINT') AS r")
    counted = rows.groupBy("r.k").agg({"r.v": "sum", "*": "count"})
    writer = counted.writeStream.outputMode("update").option("checkpointLocation", checkpoint)
    writer.trigger(availableNow=True).foreachBatch(_drop).start().awaitTermination()
    spark.stop()


def _drop(rows: DataFrame, _batch: int) -> None:
    rows.write.format("noop").mode("append").save()


def size_of(state: Path) -> int:
    """Return the bytes below a directory."""
    return sum(each.stat().st_size for each in state.rglob("*") if each.is_file())


def measure(keys: int) -> Iterable[Row]:
    """Yield what a rescale of so many keys takes, and what the peer does."""
    with tempfile.TemporaryDirectory(prefix="ashore-rescale-") as name:
        folder = Path(name)
        with Kafka(folder / "kafka") as kafka:
            servers = kafka.bootstrap_servers
            create_topics(servers, {TOPIC: INPUT_PARTITIONS})
            fill(servers, keys)
            old, new = folder / "old", folder / "new"
            watch(query(servers, FROM, old))
            ashore = str(Path(sys.executable).with_name("ashore"))
            target = ["--partitions", str(TO), "--to", str(new), "--json"]
            rescaled = watch([ashore, "checkpoint", "rescale", str(old), *target])
            again = watch(query(servers, TO, folder / "again"))
        said = json.loads(rescaled.said)
        if said["rows"] != keys:
            raise RuntimeError(f"{said['rows']} rows of {keys} were rescaled")
        megabytes = size_of(old / "state") / 1e6
    yield from describe(keys, megabytes, rescaled, again)


def describe(keys: int, megabytes: float, rescaled: Run, again: Run) -> Iterable[Row]:
    """Yield what was measured."""
    what = f"{keys:,} keys, {FROM} partitions to {TO}"
    yield Row(f"{what}: rescaled, rows", keys / rescaled.took_s, "rows/s")
    yield Row(f"{what}: rescaled, state", megabytes / rescaled.took_s, "MB/s")
    yield Row(f"{what}: rescaled, in all", rescaled.took_s, "s")
    yield Row(f"{what}: rescaled, memory of all processes", rescaled.rss_peak_bytes / 1e6, "MB")
    yield Row(f"{what}: the query again over its input, rows", keys / again.took_s, "rows/s")
    yield Row(f"{what}: the query again, in all", again.took_s, "s")
    yield Row(f"{what}: the query again, memory of all processes", again.rss_peak_bytes / 1e6, "MB")
    yield Row(
        f"{what}: time of the rescale against the query again", rescaled.took_s / again.took_s
    )


def main(counts: Sequence[int] = KEYS) -> Iterable[Row]:
    """Yield the answers for each number of keys."""
    for keys in counts:
        print(f"   {keys:,} keys", flush=True)
        yield from measure(keys)


def run() -> None:
    """Run a command."""
    parser = argparse.ArgumentParser(prog="python -m bench.rescale")
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("measure", help="measure, and print")
    one.add_argument("--keys", type=int, action="append", help=f"without: {KEYS}")
    own = commands.add_parser("query", help="what is measured")
    own.add_argument("servers")
    own.add_argument("partitions", type=int)
    own.add_argument("checkpoint")
    options = parser.parse_args()
    if options.command == "query":
        run_query(options.servers, options.partitions, options.checkpoint)
        return
    for row in main(options.keys or KEYS):
        print(f"{row.question}: {row.figure:,.3g} {row.unit}")


if __name__ == "__main__":
    run()
