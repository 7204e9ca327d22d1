"""Requests to a store of S3 for each batch: Ashore beside Flink's filesystem sink.

    python -m bench.bucket_requests ashore | flink

A proxy before s3proxy counts requests by kind while a topic of one partition gets records at a
steady rate, and a batch, or a checkpoint, is made every few seconds, of one file each.
"""

import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event, Thread

from ashore.jobs.launch import JobLaunch, LaunchOptions
from ashore_lab.services.kafka import Kafka
from ashore_lab.services.producer import create_topics
from ashore_lab.services.s3 import BUCKET, KEY_ID, S3, SECRET_KEY
from ashore_lab.testing.bucket_proxy import BucketProxy
from bench.peers.flink_cluster import FlinkCluster, options
from bench.peers.packages import ensure_bench_jars
from bench.peers.settings import FLINK_CONF, FLINK_SINK, FLINK_SOURCE
from bench.peers.workload import Sender

TOPIC, RECORDS_PER_SEND, SEND_EVERY_S = "records", 500, 0.5
INTERVAL_S, WARM_S, BATCHES = 3, 30, 10


@contextmanager
def steady(servers: str) -> Iterator[None]:
    """Send records at a steady rate meanwhile."""
    is_over, sender = Event(), Sender(servers, linger_ms=5)
    record = json.dumps({"id": 1, "text": "x" * 100}).encode()

    def send() -> None:
        while not is_over.wait(SEND_EVERY_S):
            sender.send(TOPIC, 0, [record] * RECORDS_PER_SEND)

    thread = Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def count(proxy: BucketProxy, files: str) -> dict[str, float]:
    """Return requests for each file that gets its final name, by kind, over some batches."""
    time.sleep(WARM_S)
    first = len(proxy.requests)
    time.sleep(INTERVAL_S * BATCHES)
    seen = proxy.requests[first:]
    done = sum(each.kind == "complete" and files in each.path for each in seen)
    kinds = Counter(each.kind for each in seen)
    return {"files": done, **{kind: round(kinds[kind] / done, 2) for kind in sorted(kinds)}}


def run_ashore(servers: str, proxy: BucketProxy, directory: Path) -> dict[str, float]:
    """Land the topic by a job without Spark."""
    content = {
        "job": "landing",
        "lake": f"s3://{BUCKET}/ashore",
        "s3": {
            "endpoint": proxy.endpoint,
            "region": "us-east-1",
            "access_key_id": KEY_ID,
            "secret_access_key": SECRET_KEY,
        },
        "source": {
            "kafka": {"bootstrap_servers": servers},
            "first_start": {"default": "earliest"},
        },
        "batch": {"interval": f"{INTERVAL_S}s"},
        "tables": [
            {
                "topic": TOPIC,
                "table": "ods.events",
                "schema": "id BIGINT, text STRING",
                "partition_by": [],
            }
        ],
        "spark": "none",
    }
    job_file = directory / "job.yaml"
    job_file.write_text(json.dumps(content))
    launch = JobLaunch("run", job_file, LaunchOptions(uses_spark=False))
    launch.start()
    Thread(target=lambda: list(launch.events()), daemon=True).start()
    try:
        return count(proxy, ".parquet")
    finally:
        launch.kill()
        launch.wait()


def run_flink(servers: str, proxy: BucketProxy, directory: Path) -> dict[str, float]:
    """Land the topic by SQL; checkpoints are on the local disk, as Ashore's state is nowhere."""
    plugin = directory / "plugins" / "s3"
    plugin.mkdir(parents=True)
    for jar in ensure_bench_jars("flink-s3"):
        (plugin / jar.name).symlink_to(jar)
    os.environ["FLINK_PLUGINS_DIR"] = str(plugin.parent)
    settings = {
        "s3.endpoint": proxy.endpoint,
        "s3.path.style.access": "true",
        "s3.access-key": KEY_ID,
        "s3.secret-key": SECRET_KEY,
    }
    with FlinkCluster(directory, 1, settings) as cluster:
        environment = cluster.environment(
            {
                **FLINK_CONF,
                "parallelism.default": "1",
                "execution.checkpointing.interval": f"{INTERVAL_S} s",
                "execution.checkpointing.storage": "filesystem",
                "execution.checkpointing.dir": f"file://{directory}/checkpoint",
            }
        )
        source = {
            "connector": "kafka",
            "topic": TOPIC,
            "properties.bootstrap.servers": servers,
            "format": "json",
            **FLINK_SOURCE,
        }
        path = f"s3://{BUCKET}/flink"
        sink = {"connector": "filesystem", "path": path, "format": "parquet", **FLINK_SINK}
        columns = "id BIGINT, text STRING"
        environment.executeSql(f"CREATE TABLE source ({columns}) WITH ({options(source)})")
        environment.executeSql(f"CREATE TABLE sink ({columns}) WITH ({options(sink)})")
        job = environment.executeSql("INSERT INTO sink SELECT * FROM source")
        try:
            return count(proxy, "part-")
        finally:
            cluster.cancel(job)


def main() -> None:
    """Print the counts of one of them."""
    run = {"ashore": run_ashore, "flink": run_flink}[sys.argv[1]]
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        kafka = stack.enter_context(Kafka(directory / "kafka"))
        s3 = stack.enter_context(S3(directory / "s3"))
        proxy = stack.enter_context(BucketProxy(s3.port))
        create_topics(kafka.bootstrap_servers, {TOPIC: 1})
        with steady(kafka.bootstrap_servers):
            print(json.dumps(run(kafka.bootstrap_servers, proxy, directory)))


if __name__ == "__main__":
    main()
