"""Queries of plain Spark whose SQL changes, with their state rewritten."""

import json
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from tests.checkpoint_files import opened

from ashore.jobs.events import Event, StateMigrated
from ashore.log import names
from ashore.plans.change.judge import judge_query
from ashore.plans.change.rewriting import StateRewrite, move_kept, plan_rewrite
from ashore.plans.graph import StoredPlan
from ashore.queries.spark.internals.reading import check_streaming
from ashore.queries.spark.state.rewrite import Migration, NewQuery, migrate
from ashore.queries.state.checkpoint import Checkpoint
from ashore.queries.state.layout import BatchLog, BatchPath, SourcePath
from ashore.queries.state.migration import lay_out as lay_out_target
from ashore.queries.state.migration import plan_target
from ashore.queries.state.rescaling import finish

COLUMNS = "k INT, v BIGINT, w BIGINT, s STRING, d DOUBLE, m DECIMAL(12,2), ts TIMESTAMP"
Rows = list[tuple[object, ...]]


class Changed:
    """A query over two streams of files, whose SQL changes on its way."""

    def __init__(self, spark: SparkSession, home: Path, mode: str = "update") -> None:
        self.spark, self.home, self.mode = spark, home, mode
        self._files = 0
        self.events: list[Event] = []
        for name in ("clicks", "views"):
            (home / name).mkdir(parents=True)

    def put(self, count: int = 120) -> None:
        """Write a file of each stream: a minute of event time each row."""
        first = self._files * count
        for stream in ("clicks", "views"):
            rows = [json.dumps(_row(number)) for number in range(first, first + count)]
            (self.home / stream / f"{self._files}.json").write_text("\n".join(rows), "utf-8")
        self._files += 1

    def frame(self, sql: str) -> DataFrame:
        for stream in ("clicks", "views"):
            reader = self.spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1)
            frame = reader.json(str(self.home / stream)).withWatermark("ts", "10 hours")
            frame.createOrReplaceTempView(stream)
        return self.spark.sql(sql)

    def plan(self, sql: str) -> StoredPlan:
        return StoredPlan("one", (sql,), (), check_streaming(self.frame(sql), self.mode))

    def run(self, sql: str, checkpoint: Path) -> Rows:
        """Run it over the files that are there; return what it emits, sorted."""
        found: Rows = []

        def take(rows: DataFrame, _batch: int) -> None:
            found.extend(tuple(row) for row in rows.collect())

        writer = self.frame(sql).writeStream.outputMode(self.mode).foreachBatch(take)
        writer = writer.option("checkpointLocation", checkpoint.as_uri())
        writer.trigger(availableNow=True).start().awaitTermination()
        return sorted(found, key=str)

    def at_once(self, sql: str, files: list[str]) -> Rows:
        """Run it over some files, without a stream."""
        for stream in ("clicks", "views"):
            places = [str(self.home / stream / each) for each in files]
            frame = self.spark.read.schema(COLUMNS).json(places)
            frame.createOrReplaceTempView(stream)
        return sorted((tuple(row) for row in self.spark.sql(sql).collect()), key=str)

    def rewrite(self, old: str, new: str) -> StateRewrite:
        before, after = self.plan(old), self.plan(new)
        return plan_rewrite(before, after, judge_query(before, after))

    def migrate(
        self, old: str, new: str, source: Path, target: Path, partitions: int | None = None
    ) -> StateMigrated:
        """Rewrite the state of a checkpoint into a new one, as `migrate apply` does."""
        one, other = opened(source), opened(target)
        plan = plan_target(one, partitions)
        batch = plan.batch
        lay_out_target(one, other, plan)
        rewrite = self.rewrite(old, new)
        if plan.partitions is not None:
            rewrite = move_kept(rewrite)
        migration = Migration(one, other, batch, rewrite)
        query = NewQuery(self.frame(new), self.mode)
        done = migrate(self.spark, migration, query, self.events.append)
        finish(one, other)
        return done


def lay_out(source: Checkpoint, target: Checkpoint, batch: int) -> None:
    """Copy what a new version takes as it is."""
    for each in source.list_files():
        match each.of:
            case BatchPath(BatchLog.OFFSETS, number) if number in {batch, batch - 1}:
                pass
            case SourcePath():
                pass
            case _:
                continue
        data = source.storage.read(names.join(source.path, each.path))
        target.storage.create(names.join(target.path, each.path), data)


def _row(number: int) -> dict[str, object]:
    day, minute = 1 + number // 1440, number % 1440
    return {
        "k": number % 7,
        "v": number,
        "w": number * 10,
        "s": f"{'long' * (number % 3)}-{number % 11}",
        "d": number / 8,
        "m": f"{number}.25",
        "ts": f"2026-01-{day:02}T{minute // 60:02}:{minute % 60:02}:00Z",
    }


Make = Callable[[], Changed]
