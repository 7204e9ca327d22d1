"""Ashore: jobs put together as its job process does it, one after the other in one process.

What it is: the parts of `ashore.queries.spark.main` over a session that stays, so that the measured
job is warm as those of the other peers are; or those of `ashore.topics.run.processes.main`, whose
workers are new with
each job. Run by `python -m bench.peers.ashore_peer`.
What it promises: each topic is a job of its own with a lake of its own, from the probe of the lake
to the entry that closes the last batch. Nothing is set that a user would not set.
What it must not know: how Ashore lands.
"""

import json
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from ashore.base.clock import SystemClock
from ashore.jobs.file import Job
from ashore.jobs.jars import jar_paths
from ashore.log.progress import Quiet
from ashore.queries.spark.sql.assembly import SparkJob, assembled
from ashore.topics.loop.job import load_job_file
from ashore.topics.run.processes import runner as local
from ashore.topics.run.spark.session import LIGHT_JVM, start_session
from bench.peers.peer import Order, land_all
from bench.peers.run import ALONE, LAKEHOUSE
from bench.peers.settings import ASHORE_BATCH
from bench.processes import receive, send

Assemble = Callable[[Job], AbstractContextManager[SparkJob | local.LocalJob]]


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
    if order.peer in LAKEHOUSE:
        table["format"] = order.peer.partition("-")[2]
    job = {
        "job": topic,
        "lake": f"file://{root}",
        "source": {
            "kafka": {"bootstrap_servers": order.servers},
            "first_start": {"default": "earliest"},
        },
        "tables": [table],
        "batch": {**ASHORE_BATCH, "interval": f"{round(order.interval_s * 1000)}ms"},
        "spark": "none" if order.peer == ALONE else {"master": f"local[{order.cores}]"},
    }
    path = root.with_suffix(".yaml")
    path.write_text(json.dumps(job, indent=1), "utf-8")
    return path


def land(assemble: Assemble, order: Order, topic: str) -> None:
    """Land what is in a topic."""
    with assemble(load_job_file(write_job_file(order, topic))) as found:
        found.loop(until_drained=True).run(probe=found.runner)


def stream(assemble: Assemble, order: Order) -> None:
    """Land a topic until the parent speaks."""
    with assemble(load_job_file(write_job_file(order, order.topics[-1]))) as found:
        loop = found.loop(until_drained=False)
        thread = threading.Thread(target=loop.run, args=(found.runner,))
        thread.start()
        send("ready", excluded=[])
        receive()
        loop.stop()
        thread.join()


@contextmanager
def started(order: Order) -> Iterator[Assemble]:
    """Start what is to land, and return how a job of it is put together."""
    if order.peer == ALONE:
        yield lambda job: local.assembled(job, Loud(), SystemClock())
        return
    spark = start_session("peers", f"local[{order.cores}]", LIGHT_JVM, jar_paths("spark-kafka"))
    try:
        yield lambda job: assembled(job, spark, Loud())
    finally:
        spark.stop()


def main() -> None:
    """Run one measurement."""
    order = Order.of_text(sys.argv[1])
    with started(order) as assemble:
        if order.streams:
            stream(assemble, order)
        else:
            land_all(order, lambda topic: land(assemble, order, topic), [])


if __name__ == "__main__":
    main()
