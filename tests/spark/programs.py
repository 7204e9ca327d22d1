"""Queries of plain Spark with every kind of state, and tools of Ashore applied to them."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.streaming.state import GroupState
from tests.checkpoint_files import opened

from ashore.queries.spark.sql.settings import CHANGELOG, FORMAT, JOIN_FORMAT, ROCKSDB
from ashore.queries.spark.state.rewrite import Cut, rescale
from ashore.queries.state.layout import PROVIDER
from ashore.queries.state.rescaling import finish, lay_out, plan_rescale

PARTITIONS = "spark.sql.shuffle.partitions"
Rows = list[tuple[int, list[str]]]


def clicks(spark: SparkSession, directory: Path) -> DataFrame:
    stream = spark.readStream.schema("k INT, v BIGINT, ts TIMESTAMP")
    return stream.option("maxFilesPerTrigger", 1).json(str(directory)).withWatermark("ts", "1 hour")


def joined(stream: DataFrame, other: DataFrame, how: str) -> DataFrame:
    condition = "a.k = b.k AND a.v = b.v AND a.ts = b.ts"
    both = stream.alias("a").join(other.alias("b"), F.expr(condition), how)
    return both.selectExpr("a.k", "a.v", "b.v AS w")


QUERIES: dict[str, tuple[str, Callable[[DataFrame, DataFrame], DataFrame]]] = {
    "aggregate": ("update", lambda s, _: s.groupBy("k").agg(F.sum("v"), F.count("*"))),
    "total": ("update", lambda s, _: s.agg(F.sum("v"), F.count("*"))),
    "window": ("update", lambda s, _: s.groupBy(F.window("ts", "5 minutes"), "k").agg(F.avg("v"))),
    "session window": (
        "append",
        lambda s, _: s.groupBy(F.session_window("ts", "1 minute"), "k").count(),
    ),
    "distinct": ("append", lambda s, _: s.dropDuplicates(["k"])),
    # Rows of one key are equal, see `Program.put`: which of them Spark keeps, and in which order it
    # reads files of one millisecond, makes no difference.
    "distinct within watermark": (
        "append",
        lambda s, _: (
            s.withColumn("k", F.expr("CAST(v DIV 40 AS INT)"))
            .drop("v")
            .dropDuplicatesWithinWatermark(["k"])
        ),
    ),
    "inner join": ("append", lambda s, o: joined(s, o, "inner")),
    "outer join": ("append", lambda s, o: joined(s, o, "leftOuter")),
    "two operators": ("update", lambda s, _: s.dropDuplicates(["k", "v"]).groupBy("k").count()),
}


def grouped(spark: SparkSession, home: Path, timeout: str) -> Path:
    """Run a query of plain Spark that keeps a count and a total for each key; the checkpoint.

    Rows k = n % 5, v = n, ts = minute n: first n below 10, then n below 23. With event time a key
    times out at minute 1000 plus k, but for key 0, which has no timeout.
    """

    def count(
        key: tuple[int], frames: Iterator[pd.DataFrame], state: GroupState
    ) -> Iterator[pd.DataFrame]:
        rows, total = state.get if state.exists else (0, 0)
        for frame in frames:
            rows, total = rows + len(frame), total + int(frame["v"].sum())
        state.update((rows, total))
        if timeout == "EventTimeTimeout" and key[0]:
            state.setTimeoutTimestamp(1_767_225_600_000 + (1000 + int(key[0])) * 60_000)
        yield pd.DataFrame({"k": [key[0]], "n": [rows]})

    (home / "in").mkdir(parents=True)
    checkpoint = home / "checkpoint"
    stream = clicks(spark, home / "in").groupBy("k")
    frame = stream.applyInPandasWithState(
        count, "k INT, n BIGINT", "n BIGINT, total BIGINT", "update", timeout
    )
    for number, (first, end) in enumerate(((0, 10), (10, 23))):
        lines = [
            json.dumps({"k": n % 5, "v": n, "ts": f"2026-01-01T00:{n:02}:00Z"})
            for n in range(first, end)
        ]
        (home / "in" / f"{number}.json").write_text("\n".join(lines), "utf-8")
        writer = frame.writeStream.outputMode("update").format("noop")
        query = writer.option("checkpointLocation", str(checkpoint)).start()
        try:
            query.processAllAvailable()
        finally:
            query.stop()
    return checkpoint


class Program:
    """A query of plain Spark, and what it handed to its sink."""

    def __init__(self, spark: SparkSession, home: Path, kind: str) -> None:
        self.spark, self.home, self.kind = spark, home, kind
        self._files = 0
        (home / "in").mkdir(parents=True)

    def put(self, count: int = 100) -> None:
        first = self._files * count
        step = 40 if self.kind == "distinct within watermark" else 1  # forty rows have one time
        lines = [
            json.dumps({"k": n % 250, "v": n, "ts": f"2026-01-01T{at // 60:02}:{at % 60:02}:00Z"})
            for n in range(first, first + count)
            for at in [n - n % step]
        ]
        (self.home / "in" / f"{self._files}.json").write_text("\n".join(lines), "utf-8")
        self._files += 1

    def run(self, checkpoint: Path) -> Rows:
        mode, make = QUERIES[self.kind]
        frame = make(clicks(self.spark, self.home / "in"), clicks(self.spark, self.home / "in"))
        found: Rows = []

        def take(rows: DataFrame, batch: int) -> None:
            found.append((batch, sorted(str(tuple(row)) for row in rows.collect())))

        writer = frame.writeStream.outputMode(mode).option("checkpointLocation", str(checkpoint))
        writer.trigger(availableNow=True).foreachBatch(take).start().awaitTermination()
        return found


Use = Callable[[dict[str, str]], None]


def conf(state_format: int = 1, join: int = 3, partitions: int = 2) -> dict[str, str]:
    return {
        PROVIDER: ROCKSDB,
        CHANGELOG: "true",
        FORMAT: str(state_format),
        JOIN_FORMAT: str(join),
        PARTITIONS: str(partitions),
    }


def rescaled(spark: SparkSession, source: Path, wanted: int, target: Path | None = None) -> Path:
    """Do what `ashore checkpoint rescale` does, with the Spark of this process."""
    target = target or source.with_name(f"{source.name}-{wanted}")
    old, new = opened(source), opened(target)
    plan = plan_rescale(old, wanted)
    lay_out(old, new, plan)
    done = rescale(spark, old, new, Cut(plan.batch, wanted), lambda _event: None)
    assert sum(each.rows for each in done.stores) > 0
    finish(old, new)
    return target


def contents(directory: Path) -> dict[str, bytes]:
    """Return every file below a directory."""
    files = (each for each in directory.rglob("*") if each.is_file())
    return {str(each.relative_to(directory)): each.read_bytes() for each in files}
