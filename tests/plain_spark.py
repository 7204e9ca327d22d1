"""A streaming query as somebody writes it who has never heard of Ashore, and its checkpoints.

`run` is the program: it reads files of JSON and keeps state. Run as a module it writes checkpoints
of each kind that Spark 4.2 has, which are kept in `golden/whole_checkpoints`:

    python -m tests.plain_spark DIRECTORY [CASE ...]
"""

import json
import re
import shutil
import sys
import tarfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from tests.checkpoint_files import WHOLE

STREAMING = "spark.sql.streaming."
STORE = f"{STREAMING}stateStore."
ROCKSDB = {
    f"{STORE}providerClass": "org.apache.spark.sql.execution.streaming.state."
    "RocksDBStateStoreProvider"
}
CHANGELOG = {**ROCKSDB, f"{STORE}rocksdb.changelogCheckpointing.enabled": "true"}
SNAPSHOTS = {f"{STORE}maintenanceInterval": "300ms", f"{STORE}minDeltasForSnapshot": "2"}
FILES = 6  # that the kept checkpoints have read, in a batch each
COUNTRIES = ("DE", "CN", "IS")

_INPUTS = re.compile(r"file://[^\"]*/inputs/[^/\"]*")  # where a kept checkpoint has read them
COUNT = "SELECT country, count(*) AS n FROM clicks GROUP BY country"
WINDOW = "SELECT window(ts, '1 hour') AS w, country, count(*) AS n FROM clicks GROUP BY 1, 2"
GLOBAL = "SELECT count(*) AS n FROM clicks"
JOIN = "SELECT c.country, c.ts FROM clicks c JOIN views v ON c.country = v.country AND c.ts = v.ts"
UNION = "(SELECT country FROM clicks UNION ALL SELECT country FROM views)"


@dataclass(frozen=True, slots=True)
class Case:
    """A query, and the settings that say what its checkpoint looks like."""

    select: str
    settings: Mapping[str, str] = field(default_factory=dict)
    mode: str = "update"
    has_names: bool = False  # of its sources


CASES = {
    "rocksdb-changelog": Case(WINDOW, CHANGELOG),
    "rocksdb": Case(COUNT, ROCKSDB),
    "hdfs-backed": Case(COUNT),
    "format-2": Case(COUNT, {**CHANGELOG, f"{STORE}checkpointFormatVersion": "2"}),
    "no-keys": Case(GLOBAL, CHANGELOG),
    "stateless": Case("SELECT country FROM clicks", mode="append"),
    "named-sources": Case(
        f"SELECT country, count(*) AS n FROM {UNION} GROUP BY country",
        {
            f"{STREAMING}queryEvolution.enableSourceEvolution": "true",
            f"{STREAMING}offsetLog.formatVersion": "2",
        },
        has_names=True,
    ),
    "join-2": Case(JOIN, {**CHANGELOG, f"{STREAMING}join.stateFormatVersion": "2"}, "append"),
    "join-3": Case(JOIN, {**CHANGELOG, f"{STREAMING}join.stateFormatVersion": "3"}, "append"),
}


def feed(inputs: Path, number: int, minute: int) -> None:
    """Write a file of each source."""
    for view in ("clicks", "views"):
        directory = inputs / view
        directory.mkdir(parents=True, exist_ok=True)
        rows = [{"country": each, "ts": f"2026-11-21T08:0{minute}:00Z"} for each in COUNTRIES]
        made = directory / f".{number}"
        made.write_text("\n".join(map(json.dumps, rows)), "utf-8")
        made.rename(directory / f"{number}.json")


Rows = list[tuple[object, ...]]


def run(spark: SparkSession, case: Case, checkpoint: Path, inputs: Path) -> Rows:
    """Run a query over the files that are there, and return the rows that it emits."""
    session = spark.newSession()
    emitted: Rows = []
    session.conf.set("spark.sql.shuffle.partitions", "2")
    session.conf.set("spark.sql.session.timeZone", "UTC")
    for key, value in case.settings.items():
        session.conf.set(key, value)
    for view in ("clicks", "views"):
        reader = session.readStream.name(view) if case.has_names else session.readStream
        frame = reader.schema("country STRING, ts TIMESTAMP").option("maxFilesPerTrigger", "1")
        frame = frame.json(str(inputs / view)).withWatermark("ts", "1 hour")
        frame.createOrReplaceTempView(view)

    def collect(rows: DataFrame, _batch: int) -> None:
        emitted.extend(tuple(each) for each in rows.collect())

    writer = session.sql(case.select).writeStream.outputMode(case.mode).foreachBatch(collect)
    writer = writer.option("checkpointLocation", checkpoint.as_uri())
    writer.trigger(availableNow=True).start().awaitTermination()
    return emitted


def feed_again(checkpoint: Path, inputs: Path) -> int:
    """Write the files that a kept checkpoint has read, where it looks for them, and file 0 again.

    Returns how many it has read.
    """
    logs = [each for each in checkpoint.glob("sources/*/*") if each.name.isdigit()]
    for log in logs:
        log.write_text(_INPUTS.sub(inputs.as_uri(), log.read_text("utf-8")), "utf-8")
        log.with_name(f".{log.name}.crc").unlink(missing_ok=True)
    read = 1 + max(int(each.name) for each in logs)
    for number in range(read):
        feed(inputs, number, number)
    feed(inputs, read, 0)
    return read


def _write(root: Path, name: str, spark: SparkSession) -> None:
    inputs, checkpoint = root / "inputs" / name, root / name
    for number in range(FILES):
        feed(inputs, number, number)
        run(spark, CASES[name], checkpoint, inputs)
        time.sleep(0.5)  # so that its maintenance writes a snapshot
    shutil.rmtree(inputs)
    WHOLE.mkdir(exist_ok=True)
    with tarfile.open(WHOLE / f"{name}.tar.xz", "w:xz") as archive:
        archive.add(checkpoint, name, filter=_without_owner)


def _without_owner(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def _main(directory: str, *names: str) -> None:
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    for key, value in SNAPSHOTS.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    for name in names or CASES:
        _write(Path(directory), name, spark)
    spark.stop()


if __name__ == "__main__":
    _main(*sys.argv[1:])
