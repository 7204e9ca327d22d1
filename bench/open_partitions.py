"""What a batch takes whose records are scattered over thousands of partitions of a table.

    python -m bench.open_partitions

A topic of small records whose column `part` has 5,000 values, in random order; a job without Spark
lands all of them in one batch, on local disk. Shown is the highest resident memory of the job and
all its processes together, the rate, and how many files the batch has.
"""

import json
import random
import sys
import tempfile
import time
from pathlib import Path

from ashore_lab.services.kafka import Kafka
from ashore_lab.services.producer import create_topics
from bench.peers.workload import Sender
from bench.sql.tree import Tree
from bench.table import Row

TOPIC, KAFKA_PARTITIONS, CHUNK = "scattered", 2, 10_000
RECORDS, PARTS = 1_000_000, 5_000
FORMATS = "parquet", "iceberg", "delta"
PEAK_GB_MAX = 2.0
DEADLINE_S = 400.0


def fill(servers: str) -> None:
    """Produce the records."""
    dice = random.Random(20261129)
    create_topics(servers, {TOPIC: KAFKA_PARTITIONS})
    sender = Sender(servers, 50)
    for first in range(0, RECORDS, CHUNK):
        rows = [
            json.dumps({"id": number, "part": dice.randrange(PARTS), "text": f"row {number}"})
            for number in range(first, first + CHUNK)
        ]
        sender.send(TOPIC, first // CHUNK % KAFKA_PARTITIONS, [each.encode() for each in rows])
    sender.finish()


def land(servers: str, table_format: str, folder: Path) -> tuple[float, Tree]:
    """Land all records in one batch; return the seconds and the processes that did."""
    table = {
        "topic": TOPIC,
        "table": "ods.scattered",
        "schema": "id BIGINT, part INT, text STRING",
        "partition_by": ["part"],
        "format": table_format,
    }
    job = {
        "job": "scattered",
        "lake": f"file://{folder}/lake",
        "source": {
            "kafka": {"bootstrap_servers": servers},
            "first_start": {"default": "earliest"},
        },
        "tables": [table],
        "batch": {"max_records": 2 * RECORDS, "max_bytes": "8GB"},
        "spark": "none",
    }
    path = folder / "job.yaml"
    path.write_text(json.dumps(job), "utf-8")
    command = [str(Path(sys.executable).with_name("ashore")), "run", str(path), "--available-now"]
    tree = Tree(command, folder / "log", DEADLINE_S, environment={"ASHORE_HOME": str(folder)})
    began_s = time.monotonic()
    with tree:
        tree.wait()
    return time.monotonic() - began_s, tree


def main() -> list[Row]:
    """Return the peak of each format."""
    rows = []
    with tempfile.TemporaryDirectory() as name, Kafka(Path(name) / "kafka") as kafka:
        fill(kafka.bootstrap_servers)
        for each in FORMATS:
            folder = Path(name) / each
            folder.mkdir()
            seconds, tree = land(kafka.bootstrap_servers, each, folder)
            files = sum(1 for _ in (folder / "lake").rglob("part=*/*"))
            print(
                f"  {each:8} {seconds:6.1f} s, {files:,} files, CPU {tree.cpu_s:.1f} s, "
                f"peak {tree.rss_peak_bytes / 1e6:,.0f} MB"
            )
            question = f"memory of a job, a batch into {PARTS:,} partitions of {each}"
            rows.append(Row(question, tree.rss_peak_bytes / 1e9, "GB", at_most=PEAK_GB_MAX))
    return rows


if __name__ == "__main__":
    for row in main():
        print(row)
