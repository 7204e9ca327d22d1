"""What a first and a second shared savepoint take on HDFS, beside full ones.

    python -m bench shared_savepoints                             half a million keys
    python -m bench.shared_savepoints measure --keys 5000000      another number; nothing is kept

The query of `bench.rescale` with its checkpoint on a real HDFS: two DataNodes, two replicas, one
disk. It runs over all keys; a full and a shared savepoint are taken. Then a twentieth of the keys
are written once more, the query runs on from its checkpoint, and both are taken again. Times are
those of whole commands; bytes are those that were copied, and those that a savepoint consists of.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from ashore_lab.services.hdfs import Hdfs
from ashore_lab.services.kafka import Kafka
from ashore_lab.services.producer import create_topics
from bench.rescale import FROM, INPUT_PARTITIONS, TOPIC, fill, watch
from bench.table import Row

KEYS = 500_000
CHANGED = 20  # one key of so many is written once more


def measure(keys: int) -> Iterable[Row]:
    """Yield what savepoints of so many keys take, before and after a small batch."""
    with tempfile.TemporaryDirectory(prefix="ashore-shared-") as name:
        folder = Path(name)
        with Kafka(folder / "kafka") as kafka, Hdfs(folder / "hdfs") as hdfs:
            os.environ["HADOOP_CONF_DIR"] = str(hdfs.conf_dir)
            create_topics(kafka.bootstrap_servers, {TOPIC: INPUT_PARTITIONS})
            checkpoint, saved = f"{hdfs.uri}/checkpoint", f"{hdfs.uri}/savepoints"
            for turn, count in (("first", keys), ("second", keys // CHANGED)):
                fill(kafka.bootstrap_servers, count)
                watch(query(kafka.bootstrap_servers, checkpoint))
                for kind in ("full", "shared"):
                    yield from describe(keys, turn, kind, take(checkpoint, f"{saved}/{kind}", kind))


def query(servers: str, checkpoint: str) -> list[str]:
    """Return the command that runs the query over what the topic has since the last run."""
    return [sys.executable, "-m", "bench.rescale", "query", servers, str(FROM), checkpoint]


def take(checkpoint: str, to: str, kind: str) -> dict[str, float]:
    """Take a savepoint, and return what the command says of it, with the seconds of all of it."""
    ashore = str(Path(sys.executable).with_name("ashore"))
    options = ["--shared"] if kind == "shared" else []
    run = watch([ashore, "checkpoint", "savepoint", checkpoint, "--to", to, "--json", *options])
    return {**json.loads(run.said), "took_s": run.took_s}


def describe(keys: int, turn: str, kind: str, said: dict[str, float]) -> Iterable[Row]:
    """Yield what was measured."""
    what = f"{keys:,} keys, {turn} {kind} savepoint"
    yield Row(f"{what}: in all", said["took_s"], "s")
    yield Row(f"{what}: bytes copied", said.get("copied_bytes", said["bytes"]) / 1e6, "MB")
    yield Row(f"{what}: bytes that it consists of", said["bytes"] / 1e6, "MB")


def main(keys: int = KEYS) -> Iterable[Row]:
    """Yield the answers."""
    yield from measure(keys)


def run() -> None:
    """Run a command."""
    parser = argparse.ArgumentParser(prog="python -m bench.shared_savepoints")
    one = parser.add_subparsers(dest="command", required=True).add_parser("measure")
    one.add_argument("--keys", type=int, default=KEYS)
    for row in main(parser.parse_args().keys):
        print(f"{row.question}: {row.figure:,.3g} {row.unit}")


if __name__ == "__main__":
    run()
