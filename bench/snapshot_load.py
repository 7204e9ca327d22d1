"""How long a task takes to load state from a checkpoint: snapshots, then the changes since.

    python -m bench snapshot_load                                   1, 200 and 1,000 thousand keys
    python -m bench.snapshot_load measure --keys 10000              another number; nothing is kept

A query of plain Spark counts by key, in RocksDB and in Spark's HDFS-backed provider; each file of
its source is a batch. It is stopped where the newest snapshot is of its last batch, started again
for a small one, and what its stores took to load is read in the log of the provider. (The progress
has a figure for RocksDB too: that of the last load of a batch, which finds all in place, since an
aggregate loads its store twice.) The same again after CHANGES batches, each of which changes
a tenth of the keys: then snapshot and changes are loaded. Beside both stands what `ashore
checkpoint inspect` says before the start. Seconds are those of all stores added up, with two of
them loading at a time, in a JVM that has just been started; files are in the cache of the disk.
"""

import argparse
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from bench.rescale import watch
from bench.table import Row

KEYS = (1_000, 200_000, 1_000_000)
PARTITIONS = 8
CHANGES = 20
SMALL = 100  # rows of the batch that loads the state
SNAPSHOT_WAIT_S = 6  # maintenance looks each second, and then writes
STORE = "spark.sql.streaming.stateStore."
CLASSES = "org.apache.spark.sql.execution.streaming.state."
PROVIDERS = {"RocksDB": "RocksDBStateStoreProvider", "HDFS-backed": "HDFSBackedStateStoreProvider"}
TAKES = re.compile(r"Loading state for .* takes (\d+) ms")
LOADS = re.compile(r"(\d+) .* partitionId=(\d+), .*\] (Loading|Loaded) \d+\b")
LOG4J = """\
rootLogger.level = error
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {log}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{UNIX_MILLIS}} %c %m%n
logger.store.name = {name}
logger.store.level = {level}
logger.store.appenderRef.file.ref = file
logger.store.additivity = false
"""


@dataclass(frozen=True, slots=True)
class Case:
    """A state, and where its query reads and keeps it."""

    provider: str
    keys: int
    folder: Path

    @property
    def checkpoint(self) -> Path:
        """Where the query keeps its state."""
        return self.folder / "checkpoint"

    def add_batch(self, rows: int, first: int = 0) -> None:
        """Have a batch of so many keys, each once, from the first on."""
        source = self.folder / "source"
        source.mkdir(exist_ok=True)
        number = len(list(source.iterdir()))
        file = source / f"{number:04d}.parquet"
        wanted = [each % self.keys for each in range(first, first + rows)]
        pq.write_table(pa.table({"k": pa.array(wanted, pa.int64())}), file)
        os.utime(file, (1_700_000_000 + number,) * 2)  # Spark sorts files by time

    def run(self, *, has_snapshot: bool) -> float:
        """Run the query over what is new, and return the seconds that its first batch loaded.

        Arguments:
            has_snapshot: leave a snapshot of the last batch.

        """
        this = [sys.executable, "-m", "bench.snapshot_load", "query", self.provider]
        said = watch([*this, str(self.folder), *(["--snapshot"] if has_snapshot else [])]).said
        return float(said.splitlines()[-1])

    def inspect(self) -> dict[str, float]:
        """Return what a restore reads, as the command says it, and the seconds that it expects."""
        ashore = str(Path(sys.executable).with_name("ashore"))
        said = watch([ashore, "checkpoint", "inspect", str(self.checkpoint), "--json"]).said
        found = json.loads(said)
        parts = found["operators"][0]["by_partition"]
        return {
            "bytes": sum(each["bytes"] for each in parts),
            "change_bytes": sum(each["change_bytes"] for each in parts),
            "changes": sum(each["changes"] for each in parts),
            "snapshots": sum(each["snapshot"] is not None for each in parts),
            "restore_s": found["restore"]["core_s"],
        }


def run_query(provider: str, folder: Path, *, has_snapshot: bool) -> None:
    """Be the program: run over what is new, and print what the first batch took to load."""
    log, config = folder / "store.log", folder / "log4j2.properties"
    log.unlink(missing_ok=True)
    level = "info" if provider == "RocksDB" else "debug"
    config.write_text(LOG4J.format(log=log, name=CLASSES.rstrip("."), level=level), "utf-8")
    conf = {
        "spark.driver.memory": "4g",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={config}",
        "spark.sql.shuffle.partitions": str(PARTITIONS),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        f"{STORE}providerClass": CLASSES + PROVIDERS[provider],
        f"{STORE}rocksdb.changelogCheckpointing.enabled": str(not has_snapshot).lower(),
        f"{STORE}minDeltasForSnapshot": "1" if has_snapshot else "1000",
        f"{STORE}maintenanceInterval": "1s",
    }
    builder = SparkSession.builder.master("local[2]")
    for name, value in conf.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    files = spark.readStream.schema("k BIGINT").option("maxFilesPerTrigger", 1)
    counted = files.parquet(str(folder / "source")).groupBy("k").count()

    def drop(rows: DataFrame, _batch: int) -> None:
        rows.write.format("noop").mode("append").save()
        if has_snapshot:
            time.sleep(SNAPSHOT_WAIT_S)

    writer = counted.writeStream.outputMode("update").foreachBatch(drop)
    writer = writer.option("checkpointLocation", (folder / "checkpoint").as_uri())
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    spark.stop()
    print(sum(_loads_ms(provider, log.read_text("utf-8"))) / 1000)


def _loads_ms(provider: str, log: str) -> Sequence[int]:
    """Return what the first load of each store took: later ones find theirs in memory."""
    if provider != "RocksDB":
        return [int(each) for each in TAKES.findall(log)[:PARTITIONS]]
    begun, taken = dict[str, int](), dict[str, int]()
    for at_ms, partition, what in LOADS.findall(log):
        if what == "Loading":
            begun.setdefault(partition, int(at_ms))
        else:
            taken.setdefault(partition, int(at_ms) - begun[partition])
    if len(taken) < PARTITIONS:
        raise RuntimeError(f"the log has loads of {len(taken)} of {PARTITIONS} stores")
    return list(taken.values())


def measure(provider: str, keys: int) -> Iterable[Row]:
    """Yield what a state of so many keys takes to load."""
    with tempfile.TemporaryDirectory(prefix="ashore-load-") as name:
        case = Case(provider, keys, Path(name))
        case.add_batch(keys)
        case.add_batch(SMALL)  # the HDFS-backed provider has a snapshot once there are two changes
        case.run(has_snapshot=True)
        before = case.inspect()
        if before["snapshots"] != PARTITIONS or before["changes"]:
            raise RuntimeError(f"a snapshot of each store is wanted, not {before}")
        case.add_batch(SMALL)
        snapshot_s = case.run(has_snapshot=False)
        for number in range(CHANGES):
            case.add_batch(max(1, keys // 10), number * keys // 10)
        case.run(has_snapshot=False)
        after = case.inspect()
        case.add_batch(SMALL)
        all_s = case.run(has_snapshot=False)
    what = f"{provider}, {keys:,} keys in {PARTITIONS} partitions"
    yield Row(f"{what}: snapshots", before["bytes"] / 1e6, "MB")
    yield Row(f"{what}: snapshots loaded, of one core", snapshot_s, "s")
    yield Row(f"{what}: the same, as inspect expects", before["restore_s"], "s")
    yield Row(f"{what}: rate", before["bytes"] / 1e6 / snapshot_s, "MB/s")
    yield Row(f"{what}: changes then", after["change_bytes"] / 1e6, "MB")
    yield Row(f"{what}: files of changes then", after["changes"], "files")
    yield Row(f"{what}: snapshots and changes loaded, of one core", all_s, "s")
    yield Row(f"{what}: the same, as inspect expects", after["restore_s"], "s")


def main(counts: Sequence[int] = KEYS) -> Iterable[Row]:
    """Yield the answers for each provider and number of keys."""
    for provider in PROVIDERS:
        for keys in counts:
            print(f"   {provider}, {keys:,} keys", flush=True)
            yield from measure(provider, keys)


def run() -> None:
    """Run a command."""
    parser = argparse.ArgumentParser(prog="python -m bench.snapshot_load")
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("measure", help="measure, and print")
    one.add_argument("--keys", type=int, action="append", help=f"without: {KEYS}")
    own = commands.add_parser("query", help="what is measured")
    own.add_argument("provider", choices=PROVIDERS)
    own.add_argument("folder", type=Path)
    own.add_argument("--snapshot", action="store_true")
    options = parser.parse_args()
    if options.command == "query":
        run_query(options.provider, options.folder, has_snapshot=options.snapshot)
        return
    for row in main(options.keys or KEYS):
        print(f"{row.question}: {row.figure:,.3g} {row.unit}", flush=True)


if __name__ == "__main__":
    run()
