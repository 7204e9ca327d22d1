"""Iceberg's own sink for Kafka Connect, in a standalone worker.

What it is: a worker that this process starts, and one connector a topic, made over its REST; the
worker stays for all topics, so that the measured connector is warm. Run by
`python -m bench.peers.connect_peer`.
What it promises: settings that documents advise for speed are set, and listed in SETTINGS. The sink
never ends: a topic is landed when the current snapshot has all records that Kafka has. The last
commit waits for its interval, however few records are left: the rate is the best one from the start
until a commit.
What it must not know: Ashore's writers.
"""

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from ashore.jobs.jars import find_java
from ashore_lab.services.ports import find_free_ports
from ashore_lab.services.producer import create_topics
from bench.peers.flink_cluster import LOG4J
from bench.peers.lakehouse import CATALOG, TABLE, count_rows, create_table, jdbc_options
from bench.peers.packages import ensure_bench_jars
from bench.peers.peer import Order, land_all
from bench.peers.settings import CONNECT_SINK, CONNECT_WORKER, JVM_HEAP
from bench.processes import receive, send

LOOK_EVERY_S = 0.1
START_DEADLINE_S = 90.0
LAND_DEADLINE_S = 300.0


class Worker:
    """The REST of a worker that runs."""

    def __init__(self, url: str) -> None:
        self._url = url

    def wait(self, process: subprocess.Popen[bytes]) -> None:
        """Wait until it answers. Raises RuntimeError if it ends or does not."""
        deadline_s = time.monotonic() + START_DEADLINE_S
        while process.poll() is None and time.monotonic() < deadline_s:
            try:
                urllib.request.urlopen(f"{self._url}/connectors", timeout=5).close()
            except OSError:
                time.sleep(0.2)
            else:
                return
        raise RuntimeError("the worker of Kafka Connect did not start")

    def create(self, order: Order, topic: str) -> None:
        """Make the connector that lands a topic, and the table that it fills."""
        create_table(order, topic)
        control = f"control-{topic}"
        create_topics(order.servers, {control: 1})
        config = {
            "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
            "tasks.max": str(order.cores),
            "topics": topic,
            "iceberg.tables": TABLE,
            "iceberg.catalog": CATALOG,
            "iceberg.control.topic": control,
            "iceberg.control.commit.interval-ms": str(round(order.interval_s * 1000)),
            **{
                f"iceberg.catalog.{key}": value for key, value in jdbc_options(order, topic).items()
            },
            **CONNECT_SINK,
        }
        body = json.dumps({"name": topic, "config": config}).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{self._url}/connectors", body, headers)
        urllib.request.urlopen(request, timeout=60).close()

    def require_running(self, topic: str) -> None:
        """Raise RuntimeError if a task of a connector has failed."""
        with urllib.request.urlopen(f"{self._url}/connectors/{topic}/status", timeout=60) as answer:
            status = json.load(answer)
        for each in (status["connector"], *status["tasks"]):
            if each["state"] == "FAILED":
                raise RuntimeError(f"{topic}: {each.get('trace', '')}")

    def delete(self, topic: str) -> None:
        """Remove the connector of a topic."""
        request = urllib.request.Request(f"{self._url}/connectors/{topic}", method="DELETE")
        urllib.request.urlopen(request, timeout=60).close()


@contextmanager
def started(order: Order) -> Iterator[Worker]:
    """Start a worker, which ends with the block."""
    directory = Path(order.directory)
    (port,) = find_free_ports(1)
    settings = {
        "bootstrap.servers": order.servers,
        "listeners": f"http://127.0.0.1:{port}",
        "offset.storage.file.filename": str(directory / "connect.offsets"),
        **CONNECT_WORKER,
    }
    properties = directory / "worker.properties"
    properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()), "utf-8")
    log4j = directory / "log4j2.properties"
    log4j.write_text(LOG4J, "utf-8")
    jars = ":".join(map(str, ensure_bench_jars("connect")))
    command = [str(find_java()), f"-Xmx{JVM_HEAP}", f"-Dlog4j2.configurationFile={log4j}"]
    command += ["-cp", jars, "org.apache.kafka.connect.cli.ConnectStandalone", str(properties)]
    with subprocess.Popen(command, cwd=directory, stdout=sys.stderr) as process:
        try:
            worker = Worker(f"http://127.0.0.1:{port}")
            worker.wait(process)
            yield worker
        finally:
            process.terminate()
            process.wait(20)


def count_records(order: Order, topic: str) -> int:
    """Return how many records a topic has."""
    consumer = Consumer({"bootstrap.servers": order.servers, "group.id": "counts"})
    try:
        ends = (
            consumer.get_watermark_offsets(TopicPartition(topic, each), 30)
            for each in range(order.shape.partitions)
        )
        return sum(end - start for start, end in ends)
    finally:
        consumer.close()


def land(worker: Worker, order: Order, topic: str) -> float:
    """Land what is in a topic. Return the seconds by its best rate until a commit."""
    count = count_records(order, topic)
    began_s = time.monotonic()
    worker.create(order, topic)
    rows, rate = 0, 0.0
    while rows < count and time.monotonic() < began_s + LAND_DEADLINE_S:
        time.sleep(LOOK_EVERY_S)
        worker.require_running(topic)
        rows = count_rows(order.root(topic))
        rate = max(rate, rows / (time.monotonic() - began_s))
    if rows != count:
        raise RuntimeError(f"the sink has {rows:,} of {count:,} records")
    worker.delete(topic)
    return count / rate


def stream(worker: Worker, order: Order) -> None:
    """Land a topic until the parent speaks."""
    worker.create(order, order.topics[-1])
    send("ready", excluded=[os.getpid()])
    receive()
    worker.delete(order.topics[-1])


def main() -> None:
    """Run one measurement."""
    order = Order.of_text(sys.argv[1])
    with started(order) as worker:
        if order.streams:
            stream(worker, order)
        else:
            land_all(order, lambda topic: land(worker, order, topic), [os.getpid()])


if __name__ == "__main__":
    main()
