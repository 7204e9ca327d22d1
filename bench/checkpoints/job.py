"""The process that is measured: one query, which hears when to fill, to run and to stop.

What it is: run by `python -m bench.checkpoints.job ORDER`. It hears `fill`, `run SECONDS` and
`stop`, and tells of each batch.
What it promises: a start goes on from the checkpoint, whatever ran on it before.
What it must not know: what is measured.
"""

import json
import sys
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery, StreamingQueryListener
from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
)

from ashore.queries.spark.sql.settings import open_session
from ashore.queries.state.checkpoint import Checkpoint
from ashore.storage import open_storage
from ashore.topics.run.spark.session import start_session
from bench.checkpoints.modes import (
    CORES,
    FILL_INTERVAL_S,
    UPDATES_PER_S,
    Case,
    Order,
    fill_rate,
    key_of,
    settings_of,
    uniform_key,
)
from bench.processes import receive, send


class Reporter(StreamingQueryListener):
    """Tells the parent of each batch, and why a query has ended that failed."""

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        pass

    def onQueryIdle(self, event: object) -> None:  # noqa: N802
        pass

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        progress = json.loads(event.progress.json)
        state = progress["stateOperators"][0]
        if "triggerExecution" in progress["durationMs"]:
            send(
                "batch",
                batch=progress["batchId"],
                trigger_ms=progress["durationMs"]["triggerExecution"],
                commit_ms=state["commitTimeMs"],
                input_rows=progress["numInputRows"],
                updated=state["numRowsUpdated"],
                total=state["numRowsTotal"],
                memory_bytes=state["memoryUsedBytes"],
                metrics=state["customMetrics"],
            )

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        if event.exception:
            send("failed", why=event.exception[:2000])


class Job:
    """The query, over one checkpoint."""

    def __init__(self, spark: SparkSession, order: Order) -> None:
        self._spark = spark
        self._order = order
        storage = open_storage(order.checkpoint_root, options=order.hadoop)
        path = order.case.name
        self._checkpoint = Checkpoint(storage, path, f"{order.checkpoint_root}/{path}")
        self._query: StreamingQuery | None = None

    def fill(self) -> None:
        """Begin to meet all keys, as fast as it goes."""
        case = replace(self._order.case, interval_s=FILL_INTERVAL_S)
        self._start(case, uniform_key(case.keys), fill_rate(case.keys))

    def run(self, interval_s: float) -> None:
        """Run at the steady rate."""
        case = replace(self._order.case, interval_s=interval_s)
        self._start(case, key_of(case), UPDATES_PER_S)

    def stop(self) -> None:
        """Stop what runs."""
        if self._query is not None:
            self._query.stop()
        self._query = None

    def _start(self, case: Case, key: str, rows_per_s: int) -> None:
        self.stop()
        settings = settings_of(case, self._checkpoint)
        session = open_session(self._spark, settings)
        # Listeners belong to a session.
        session.streams.addListener(Reporter())
        self._query = (
            aggregate(session, key, rows_per_s)
            .writeStream.format("noop")
            .outputMode("update")
            .option("checkpointLocation", self._checkpoint.uri)
            .trigger(processingTime=f"{round(case.interval_s * 1000)} milliseconds")
            .start()
        )
        send("started", settings=settings)


def aggregate(session: SparkSession, key: str, rows_per_s: int) -> DataFrame:
    """Return the query: what it knows of each key."""
    rows = (
        session.readStream.format("rate")
        .option("rowsPerSecond", rows_per_s)
        .option("numPartitions", CORES)
        .load()
    )
    return (
        rows.selectExpr(f"{key} AS key", "value", "timestamp")
        .groupBy("key")
        .agg({"*": "count", "value": "sum", "timestamp": "max"})
    )


def main() -> None:
    """Do what the parent says until it says no more."""
    order = Order.of_text(sys.argv[1])
    conf = {
        "spark.driver.memory": "3g",
        "spark.local.dir": order.directory,
        **{f"spark.hadoop.{name}": value for name, value in order.hadoop.items()},
    }
    spark = start_session("checkpoints", f"local[{CORES}]", conf, [])
    job = Job(spark, order)
    send("ready")
    try:
        while True:
            match receive().split():
                case ["fill"]:
                    job.fill()
                case ["run", interval_s]:
                    job.run(float(interval_s))
                case ["stop"]:
                    job.stop()
                    send("stopped")
                case ["end"]:
                    return
                case words:
                    raise SystemExit(f"what is {words}?")
    finally:
        job.stop()
        spark.stop()


if __name__ == "__main__":
    main()
