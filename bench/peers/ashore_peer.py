"""Ashore: jobs put together as its job process does it, one after the other in one process.

What it is: the parts of `ashore.spark.main` over a session that stays, so that the measured job is
warm as those of the other peers are. Run by `python -m bench.peers.ashore_peer`.
What it promises: each topic is a job of its own with a lake of its own, from the probe of the lake
to the entry that closes the last batch. Nothing is set that a user would not set.
What it must not know: how Ashore lands.
"""

import json
import sys
import threading
from pathlib import Path

from pyspark.sql import SparkSession

from ashore.jobs.jars import jar_paths
from ashore.landing.committer import Quiet
from ashore.landing.job import load_job_file
from ashore.spark.assembly import assembled
from ashore.spark.session import LIGHT_JVM, start_session
from bench.peers.peer import Order, land_all
from bench.peers.settings import ASHORE_BATCH
from bench.processes import receive, send


class Loud(Quiet):
    """A progress that tells of trouble: a measurement with trouble is none."""

    def warn(self, slice_name: str, message: str) -> None:
        """Say it where the parent keeps what processes say."""
        print(f"trouble: {slice_name}: {message}", file=sys.stderr)


def write_job_file(order: Order, topic: str) -> Path:
    """Write the job that lands a topic and return its path."""
    root = order.root(topic)
    root.mkdir(parents=True)
    table = {
        "topic": topic,
        "table": "peers.records",
        "schema": order.shape.ddl,
        "partition_by": list(order.shape.partition_by),
        "provenance": order.peer == "ashore-provenance",
    }
    job = {
        "job": topic,
        "lake": f"file://{root}",
        "source": {
            "kafka": {"bootstrap_servers": order.servers},
            "first_start": {"default": "earliest"},
        },
        "tables": [table],
        "batch": {**ASHORE_BATCH, "interval": f"{round(order.interval_s * 1000)}ms"},
        "spark": {"master": f"local[{order.cores}]"},
    }
    path = root.with_suffix(".yaml")
    path.write_text(json.dumps(job, indent=1), "utf-8")
    return path


def land(spark: SparkSession, order: Order, topic: str) -> None:
    """Land what is in a topic."""
    job = load_job_file(write_job_file(order, topic))
    with assembled(job, spark, Loud()) as found:
        found.loop(until_drained=True).run(probe=found.runner)


def stream(spark: SparkSession, order: Order) -> None:
    """Land a topic until the parent speaks."""
    job = load_job_file(write_job_file(order, order.topics[-1]))
    with assembled(job, spark, Loud()) as found:
        loop = found.loop(until_drained=False)
        thread = threading.Thread(target=loop.run, args=(found.runner,))
        thread.start()
        send("ready", excluded=[])
        receive()
        loop.stop()
        thread.join()


def main() -> None:
    """Run one measurement."""
    order = Order.of_text(sys.argv[1])
    spark = start_session("peers", f"local[{order.cores}]", LIGHT_JVM, jar_paths("spark-kafka"))
    try:
        if order.streams:
            stream(spark, order)
        else:
            land_all(order, lambda topic: land(spark, order, topic), [])
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
